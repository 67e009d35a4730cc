"""Parses the clauses that several operations share in the readable form (custom assembly)."""

from __future__ import annotations

from rammer_mlir.dialects.rtask.assembly.cursor import INTEGER, VALUE, Cursor


def integer(cursor: Cursor, expected: str = "an integer") -> str:
    """Parse an integer at the cursor and return its text.

    Raises:
        AssemblyError: if no integer comes next. The message is "expected EXPECTED, found ...".
    """
    return cursor.take(INTEGER, expected)


def in_parentheses(cursor: Cursor) -> str:
    """Parse ``(INTEGER)`` at the cursor and return the integer's digits."""
    cursor.expect("(")
    value = integer(cursor)
    cursor.expect(")")
    return value


def values(cursor: Cursor) -> list[str]:
    """Parse ``(%a, %b, ...)`` at the cursor and return the names of the values, with ``%``."""
    found: list[str] = []
    cursor.expect("(")
    if cursor.accept(")"):
        return found
    found.append(cursor.take(VALUE, "a value or ')'"))
    while cursor.accept(","):
        found.append(cursor.take(VALUE, "a value"))
    cursor.expect(")")
    return found


def further_attributes(cursor: Cursor, keyword: str = "") -> str:
    """Parse an optional attribute dictionary ``{...}``, or ``KEYWORD {...}`` if a keyword is given.

    Return a comma and the text between the braces, so that the caller can append the attributes to
    its own dictionary. Return an empty string if there is no dictionary or if it is empty.
    """
    if keyword:
        found = cursor.balanced("{") if cursor.accept(keyword) else ""
    else:
        found = cursor.balanced("{") if cursor.comes("{") else ""
    return f", {found}" if found else ""


def location(cursor: Cursor, name: str | None = None, place: str = "") -> str:
    """Parse an optional ``loc(LOCATION)``; return the operation's location as text.

    If ``name`` is None, return the parsed text, or an empty string if no ``loc`` comes next.
    Otherwise, return ``loc(NAME(LOCATION))``, where NAME is ``name``, the name of the model's node
    as a string literal. If no ``loc`` comes next, LOCATION is ``place``, such as ``"-":3:5``. A
    result that is not empty begins with a space.
    """
    given = cursor.balanced("(") if cursor.accept("loc") else ""
    if name is None:
        return f" loc({given})" if given else ""
    return f" loc({name}({given or place}))"


def place(cursor: Cursor) -> str:
    """Return the cursor's position as the text of an MLIR location, ``"-":LINE:COLUMN``."""
    return f'"-":{cursor.line()}:{cursor.column()}'
