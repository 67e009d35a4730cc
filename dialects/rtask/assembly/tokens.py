"""Matches tokens of MLIR's text, and splits lists at commas, for the printer and the parser."""

from __future__ import annotations

import re
from collections.abc import Iterator

STRING = r'"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+"'
COMMENT = r"//[^\n]*+"
WORD = r"[A-Za-z_][\w$.]*+"
SYMBOL = rf"@(?:{WORD}|{STRING})"
VALUE = r"%[\w$.\-]++(?:#\d++)?"

OPENED_BY = {")": "(", "]": "[", "}": "{", ">": "<"}
CLOSED_BY = {opening: closing for closing, opening in OPENED_BY.items()}

# Arrows and comparisons contain an angle bracket that is not a bracket of a list.
PARTS = re.compile(rf"{STRING}|{COMMENT}|->|[<>]=|\+:|[][(){{}}<>,]")

_NESTED = re.compile(r'["(\[{<]')
_TRIVIA = re.compile(rf"({STRING})|(?:\s++|{COMMENT})++")


def flat(text: str) -> str:
    """Return text on one line: each run of white space and comments becomes one space."""
    return _TRIVIA.sub(lambda match: match[1] or " ", text).strip()


def split_list(text: str) -> list[str] | None:
    """Return the parts of ``text`` between commas outside of brackets and strings.

    Return None if brackets do not match.
    """
    if not text:
        return []
    if not _NESTED.search(text):
        return text.split(", ")
    items: list[str] = []
    begin = 0
    for position in _commas(text):
        if position < 0:
            return None
        items.append(text[begin:position].strip())
        begin = position + 1
    return [*items, text[begin:].strip()]


def _commas(text: str) -> Iterator[int]:
    """Yield the offset of each comma outside of brackets; yield -1 if brackets do not match."""
    opened: list[str] = []
    for match in PARTS.finditer(text):
        part = match[0]
        if part in OPENED_BY.values():
            opened.append(part)
        elif part in OPENED_BY:
            if not opened or opened.pop() != OPENED_BY[part]:
                yield -1
        elif part == "," and not opened:
            yield match.start()
    if opened:
        yield -1
