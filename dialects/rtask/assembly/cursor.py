"""Takes tokens of assembly text in order, and reports the expected token on a mismatch."""

from __future__ import annotations

import re
from functools import lru_cache

from rammer_mlir.dialects.rtask.assembly import tokens
from rammer_mlir.errors import AssemblyError

_TRIVIA = rf"(?:\s++|{tokens.COMMENT})*+"
_LONGEST_FOUND = 40


def token(pattern: str) -> re.Pattern[str]:
    """Return a compiled regular expression that matches a token and any white space before it.

    ``pattern`` is the regular expression of the token alone, which becomes group 1 of the result.
    The result also matches comments before the token.
    """
    return re.compile(f"{_TRIVIA}({pattern})")


INTEGER = token(r"-?\d{1,20}+(?!\d)")
FLOAT = token(r"-?(?:0x[0-9A-Fa-f]++|\d++\.\d*+(?:[eE][-+]?\d++)?)")
STRING = token(tokens.STRING)
SYMBOL = token(tokens.SYMBOL)
VALUE = token(tokens.VALUE)
TYPE_NAME = token(r"!?[A-Za-z_][\w$.]*+")
_ANY = token(rf"{tokens.STRING}|{tokens.SYMBOL}|{tokens.VALUE}|{tokens.WORD}|-?\d++|\S|\Z")


@lru_cache(maxsize=256)
def _literal(text: str) -> re.Pattern[str]:
    return token(re.escape(text) + (r"(?![\w$.])" if text[-1].isalnum() else ""))


class Cursor:
    """A position in a text; methods take the tokens that follow and move the position forwards."""

    def __init__(self, text: str) -> None:
        """Begin at the start of ``text``, which is the assembly to parse."""
        self.text = text
        self.position = 0
        self._counted = (0, 1)

    def line(self) -> int:
        """Return the number of the current line, counted from 1."""
        # Count from the last counted position on, so that all calls together read the text once.
        begin, line = self._counted
        line += self.text.count("\n", begin, self.position)
        self._counted = (self.position, line)
        return line

    def column(self) -> int:
        """Return the current column, counted from 1."""
        return self.position - self.text.rfind("\n", 0, self.position)

    def accept(self, literal: str) -> bool:
        """Take the keyword or punctuation ``literal`` if it comes next; return True if taken."""
        return self.find(_literal(literal)) is not None

    def comes(self, literal: str) -> bool:
        """Whether the keyword or punctuation ``literal`` comes next; do not move the position."""
        return _literal(literal).match(self.text, self.position) is not None

    def expect(self, literal: str) -> None:
        """Take the keyword or punctuation ``literal``, which must come next.

        Raises:
            AssemblyError: if other text comes next.
        """
        self.take(_literal(literal), f"'{literal}'")

    def find(self, pattern: re.Pattern[str]) -> str | None:
        """Take the next token if it matches ``pattern``, and return its text.

        If another token comes next, return None and do not move.
        """
        match = pattern.match(self.text, self.position)
        if match is None:
            return None
        self.position = match.end()
        return match[1]

    def take(self, pattern: re.Pattern[str], expected: str) -> str:
        """Take the next token, which must match ``pattern``, and return its text.

        Raises:
            AssemblyError: if the next token does not match. The message is "expected EXPECTED,
                found ...".
        """
        match = pattern.match(self.text, self.position)
        if match is None:
            raise self.error(expected)
        self.position = match.end()
        return match[1]

    def error(self, expected: str) -> AssemblyError:
        """Return the error "expected EXPECTED, found TOKEN", where TOKEN comes next in the text."""
        match = _ANY.match(self.text, self.position)
        found = match[1] if match is not None else ""
        begin = self.position if match is None else match.start(1)
        line = 1 + self.text.count("\n", 0, begin)
        short = found if len(found) <= _LONGEST_FOUND else f"{found[:_LONGEST_FOUND]}..."
        got = f"'{short}'" if found else "the end of the text"
        column = begin - self.text.rfind("\n", 0, begin)
        return AssemblyError(line, f"expected {expected}, found {got}", column)

    def balanced(self, bracket: str) -> str:
        """Take bracketed text, which must come next; return the text between the brackets.

        ``bracket`` is the opening bracket. In the result, white space and comments are single
        spaces.

        Raises:
            AssemblyError: if the opening bracket does not come next, or brackets do not match.
        """
        self.expect(bracket)
        begin = self.position
        closing = f"'{tokens.CLOSED_BY[bracket]}'"
        inside = self.text[begin : self._end_of_list(closing, within=True)]
        self.expect(tokens.CLOSED_BY[bracket])
        return tokens.flat(inside)

    def item(self, expected: str) -> str:
        """Take and return the text before the next comma, closing bracket or ``+:``.

        Nested brackets and their content belong to the text. In the result, white space and
        comments are single spaces.

        Raises:
            AssemblyError: "expected EXPECTED, found ...", if the text is empty.
        """
        begin = self.position
        taken = tokens.flat(self.text[begin : self._end_of_list(expected, within=False)])
        if not taken:
            raise self.error(expected)
        return taken

    def _end_of_list(self, expected: str, *, within: bool) -> int:
        """Move to the end of a list's item, or of the whole list; return the offset of the end.

        If ``within``, the end is the closing bracket of the list. Otherwise, the end is the closing
        bracket, a comma or ``+:``, whichever comes first.

        Raises:
            AssemblyError: "expected EXPECTED, found ...", if brackets do not match or the text
                ends.
        """
        opened: list[str] = []
        for match in tokens.PARTS.finditer(self.text, self.position):
            part = match[0]
            ends = part in tokens.OPENED_BY or (not within and part in (",", "+:"))
            if ends and not opened:
                self.position = match.start()
                return self.position
            if part in tokens.OPENED_BY.values():
                opened.append(part)
            elif part in tokens.OPENED_BY and opened.pop() != tokens.OPENED_BY[part]:
                self.position = match.start()
                raise self.error(expected)
        self.position = len(self.text)
        raise self.error(expected)
