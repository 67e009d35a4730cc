"""Translates the readable form (custom assembly) into the generic form, which MLIR parses."""

from __future__ import annotations

import re

from rammer_mlir.dialects.rtask.assembly import tokens
from rammer_mlir.dialects.rtask.assembly.cursor import Cursor
from rammer_mlir.dialects.rtask.assembly.output import Output
from rammer_mlir.dialects.rtask.assembly.parse_kernel import parse_kernel
from rammer_mlir.dialects.rtask.assembly.parse_operator import parse_operator
from rammer_mlir.dialects.rtask.assembly.parse_program import parse_program
from rammer_mlir.errors import AssemblyError

_STATEMENTS = {"kernel": parse_kernel, "operator": parse_operator, "program": parse_program}

_NEXT = re.compile(
    rf"{tokens.STRING}|{tokens.COMMENT}"
    r"|(?<![\w$.%@#!^-])rtask\.(?P<name>kernel|operator|program|veu|run|barrier)(?![\w$.-])"
)
_AFTER_ATTRIBUTE = re.compile(r"\s*+[=,}]")
_WINDOW = 200  # white space between two attributes is shorter


def to_generic(text: str) -> str:
    """Return a text with the dialect's operations translated into MLIR's generic form.

    All other text is unchanged, and every line keeps its number.

    Raises:
        AssemblyError: at the line where the text is not the readable form.
    """
    cursor, output = Cursor(text), Output()
    copied = 0
    while match := _NEXT.search(text, cursor.position):
        cursor.position = match.end()
        if match["name"] is None or _names_attribute(match):
            continue
        output.copy(text[copied : match.start()])
        _parse_statement(match, cursor, output)
        output.write(cursor.line(), "")
        copied = cursor.position
    output.copy(text[copied:])
    return output.text()


def _names_attribute(match: re.Match[str]) -> bool:
    """Whether a matched name, such as ``rtask.run``, is the key of an attribute, not an operation.

    A key stands after ``{`` or a comma, and before ``=``, a comma or ``}``.
    """
    text, begin = match.string, match.start()
    if _AFTER_ATTRIBUTE.match(text, match.end()) is None:
        return False
    return text[max(begin - _WINDOW, 0) : begin].rstrip().endswith(("{", ","))


def _parse_statement(match: re.Match[str], cursor: Cursor, output: Output) -> None:
    parse_operation = _STATEMENTS.get(match["name"])
    if parse_operation is None:
        expected = " or ".join(f"'rtask.{name}'" for name in _STATEMENTS)
        raise AssemblyError(cursor.line(), f"expected {expected}, found '{match[0]}'")
    parse_operation(cursor, output)
