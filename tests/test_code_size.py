"""Tests, on syntax trees, that functions and files are short and few annotations are ``Any``.

Docstrings do not count as lines: they explain the code, and are no part of its complexity.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.test_layering import PACKAGE, source_files

MOST_LINES = 375
"""Most lines of a file, without docstrings."""

MOST_FUNCTION_LINES = 16
"""Most lines of nine functions in ten, without docstrings."""

MOST_UNTYPED = 0.01
"""Greatest share of the annotations that may be ``Any`` alone."""


def nodes() -> Iterator[tuple[Path, ast.AST]]:
    """Yield all nodes of the package's source with their file."""
    for file in source_files():
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            yield file, node


Function = ast.FunctionDef | ast.AsyncFunctionDef


def docstring_lines(node: ast.AST) -> int:
    """Return the number of lines of a node's docstring; 0 if it has none."""
    if not isinstance(node, Function | ast.ClassDef | ast.Module):
        return 0
    if ast.get_docstring(node) is None:
        return 0
    return node.body[0].end_lineno - node.body[0].lineno + 1  # pyright: ignore[reportOptionalOperand]


def file_lines(text: str) -> int:
    """Return the number of a source's lines without those of docstrings."""
    return len(text.splitlines()) - sum(map(docstring_lines, ast.walk(ast.parse(text))))


def annotations_of(node: ast.AST) -> list[ast.expr]:
    """Return the annotations of a function's parameters and result, or of a variable."""
    if isinstance(node, ast.AnnAssign):
        return [node.annotation]
    if not isinstance(node, Function):
        return []
    given = node.args
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    found = [argument.annotation for argument in every if argument is not None]
    return [annotation for annotation in (*found, node.returns) if annotation is not None]


def is_any(annotation: ast.expr) -> bool:
    return ast.unparse(annotation) in ("Any", "typing.Any")


def test_annotations_are_counted() -> None:
    source = "def f(a: Any, *b: int, c: list[Any]) -> Any: ...\nx: Any = 1\ny = 2\n"
    found = [a for node in ast.walk(ast.parse(source)) for a in annotations_of(node)]
    assert sum(map(is_any, found)) == 3
    assert len(found) == 5


def test_docstrings_are_no_lines() -> None:
    source = '"""A file.\n\nTwo.\n"""\n\n\nclass A:\n    """A class."""\n\n    x = "no"\n'
    assert file_lines(source) == 5


def test_values_have_types() -> None:
    """At most a share of ``MOST_UNTYPED`` of the annotations is ``Any``.

    The alternatives are the bindings' types, a Protocol, or ``object`` for a value that is only
    checked or passed on.
    """
    total = 0
    untyped: dict[str, int] = {}
    for file, node in nodes():
        found = annotations_of(node)
        total += len(found)
        room = "/".join(file.relative_to(PACKAGE).parts[:2])
        count = sum(map(is_any, found))
        if count:
            untyped[room] = untyped.get(room, 0) + count
    assert sum(untyped.values()) <= MOST_UNTYPED * total, untyped


def test_functions_are_short() -> None:
    lengths = sorted(
        node.end_lineno - node.lineno + 1 - docstring_lines(node)
        for _, node in nodes()
        if isinstance(node, Function) and node.end_lineno is not None
    )
    assert lengths[len(lengths) * 9 // 10] <= MOST_FUNCTION_LINES


def test_files_are_short() -> None:
    lengths = {
        str(file.relative_to(PACKAGE)): file_lines(file.read_text(encoding="utf-8"))
        for file in source_files()
    }
    assert {name: lines for name, lines in lengths.items() if lines > MOST_LINES} == {}
