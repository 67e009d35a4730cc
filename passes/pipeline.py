"""Parses pass pipelines in MLIR's syntax: ``builtin.module(a,func.func(b{x=1 y=2}),c)``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

from rammer_mlir.errors import PassError

_MAX_DEPTH = 100
"""Maximum nesting depth of pipelines; this parser and MLIR's parser recurse at each level."""

_CLOSING = {"{": "}", "[": "]", "(": ")"}


@dataclass(frozen=True)
class PipelineNode:
    """A node of a parsed pipeline: a pass, or an operation's name around a nested pipeline.

    ``name`` is the name of the pass or of the operation, and ``options`` the text between the
    braces of a pass. ``children`` are the nodes of the nested pipeline; None for a pass. ``column``
    is the 1-based column of the node in the text of the whole pipeline.
    """

    name: str
    column: int
    options: str = ""
    children: tuple[PipelineNode, ...] | None = None

    @property
    def text(self) -> str:
        """The node, with its nested pipeline, as text in pipeline syntax."""
        if self.children is not None:
            return f"{self.name}({','.join(child.text for child in self.children)})"
        return f"{self.name}{{{self.options}}}" if self.options else self.name

    def leaves(self) -> tuple[PipelineNode, ...]:
        """Return the passes inside the node in the order of the text; a pass returns itself."""
        if self.children is None:
            return (self,)
        return tuple(leaf for child in self.children for leaf in child.leaves())


def parse_pipeline(text: str) -> PipelineNode:
    """Parse a pipeline and return its root, the node of ``builtin.module`` or ``any``.

    Raises:
        PassError: if the text is malformed (with the column of the first invalid character), or if
            its outermost operation is neither ``builtin.module`` nor ``any``.
    """
    parser = _Parser(text)
    root = parser.node()
    parser.expect_end()
    if root.children is None or root.name not in ("builtin.module", "any"):
        fail(root.column, f"expected 'builtin.module(...)', found '{root.name}'")
    return root


class PipelineError(PassError):
    """An error: a pipeline's text is malformed, or names an unknown pass or option.

    Attributes:
        column: the 1-based column of the error in the text.
        reason: the message without the column.
    """

    def __init__(self, column: int, reason: str) -> None:
        self.column, self.reason = column, reason
        super().__init__(f"pass pipeline, column {column}: {reason}")


def fail(column: int, message: str) -> NoReturn:
    """Raise a PipelineError with ``message`` and the 1-based ``column`` of the pipeline text."""
    raise PipelineError(column, message)


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def node(self, depth: int = 0) -> PipelineNode:
        """Parse a pass, or an operation with a nested pipeline, at nesting depth ``depth``.

        Return the node.
        """
        self._skip_spaces()
        start = self._at
        if depth > _MAX_DEPTH:
            fail(start + 1, f"expected at most {_MAX_DEPTH} nested pipelines, found more")
        while self._peek() and (self._peek().isalnum() or self._peek() in "._-"):
            self._at += 1
        name = self._text[start : self._at]
        if not name:
            fail(start + 1, f"expected the name of a pass or operation, found {self._found()}")
        self._skip_spaces()
        if self._peek() == "(":
            children = self._children(depth + 1)
            if depth and not children:
                fail(start + 1, f"expected a pass inside '{name}(...)', found none")
            return PipelineNode(name, start + 1, children=children)
        options = self._options() if self._peek() == "{" else ""
        return PipelineNode(name, start + 1, options)

    def expect_end(self) -> None:
        self._skip_spaces()
        if self._peek():
            fail(self._at + 1, f"expected the end of the pipeline, found {self._found()}")

    def _children(self, depth: int) -> tuple[PipelineNode, ...]:
        opening = self._at + 1
        self._at += 1
        self._skip_spaces()
        children: list[PipelineNode] = []
        while self._peek() != ")" or children:
            children.append(self.node(depth))
            self._skip_spaces()
            if self._peek() == ")":
                break
            if not self._peek():
                fail(opening, "expected ')' for this '(', found the end of the pipeline")
            if self._peek() != ",":
                fail(self._at + 1, f"expected ',' or ')', found {self._found()}")
            self._at += 1
        self._at += 1
        self._skip_spaces()
        return tuple(children)

    def _options(self) -> str:
        opening = self._at
        stack: list[str] = []
        quote = ""
        while char := self._peek():
            self._at += 1
            if quote:
                quote = "" if char == quote else quote
            elif char in "'\"":
                quote = char
            elif char in _CLOSING:
                stack.append(_CLOSING[char])
            elif stack and char == stack[-1]:
                stack.pop()
            if not stack:
                self._skip_spaces()
                return self._text[opening : self._at].strip()[1:-1].strip()
        fail(opening + 1, "expected '}' for this '{', found the end of the pipeline")

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _found(self) -> str:
        return f"'{self._peek()}'" if self._peek() else "the end of the pipeline"

    def _skip_spaces(self) -> None:
        while self._peek().isspace():
            self._at += 1
