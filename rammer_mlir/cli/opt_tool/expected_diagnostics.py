"""Compares diagnostics with those expected in the input's comments (``--verify-diagnostics``)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rammer_mlir.cli.opt_tool.diagnostics import UNNAMED, Diagnostic, Place

_HEAD = re.compile(
    r"expected-(?P<kind>error|warning|remark|note)(?P<regex>-re)?"
    r"\s*(?:@(?P<where>[+-]\d+|above|below|unknown))?\s*(?=\{\{)"
)
_TEXT = re.compile(r"\{\{(?P<text>.*)\}\}")
_REGEX_PART = re.compile(r"\{\{(.*?)\}\}")


@dataclass(frozen=True)
class _Expected:
    kind: str
    line: int
    text: str
    pattern: re.Pattern[str] | None
    place: Place

    def matches(self, found: Diagnostic) -> bool:
        if (self.kind, self.line) != (found.kind, found.place.line):
            return False
        if self.pattern is not None:
            return self.pattern.search(found.message) is not None
        return self.text in found.message


def mismatches(
    text: str, found: Sequence[Diagnostic], *, only_expected: bool = False
) -> list[Diagnostic]:
    """Return errors where diagnostics differ from those that comments of the input expect.

    Notes need no comment; each other diagnostic must match exactly one comment. In
    ``expected-error-re``, text within ``{{...}}`` is a regular expression, and the remaining text
    is literal.

    Args:
        text: the input with comments.
        found: the diagnostics that the input caused.
        only_expected: accept diagnostics that no comment expects.

    Returns:
        An error for each unexpected diagnostic, for each missing diagnostic, and for each comment
        with a malformed regular expression.
    """
    errors: list[Diagnostic] = []
    expected = list(_expected(text, errors))
    for diagnostic in found:
        match = next((entry for entry in expected if entry.matches(diagnostic)), None)
        if match is not None:
            expected.remove(match)
        elif diagnostic.kind != "note" and not only_expected:
            message = f"unexpected {diagnostic.kind}: {diagnostic.message}"
            errors.append(Diagnostic("error", diagnostic.place, message))
    for missing in expected:
        message = f'expected {missing.kind} "{missing.text}" was not produced'
        errors.append(Diagnostic("error", missing.place, message))
    return errors


def _pattern(given: str) -> re.Pattern[str]:
    parts = _REGEX_PART.split(given)
    # The split alternates between literal text and regular expressions.
    return re.compile("".join(f"(?:{p})" if i % 2 else re.escape(p) for i, p in enumerate(parts)))


def _expected(text: str, malformed: list[Diagnostic]) -> Iterator[_Expected]:
    """Yield the diagnostics that comments of the input ``text`` expect, in order.

    Append an error for each malformed regular expression to ``malformed``.
    """
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        heads = list(_HEAD.finditer(line))
        for index, head in enumerate(heads):
            end = heads[index + 1].start() if index + 1 < len(heads) else len(line)
            # The text ends at the line's last braces, or before the next comment on the line.
            body = _TEXT.match(line, head.end(), end)
            if body is None:
                continue
            place = Place(UNNAMED, number, head.start() + 1)
            try:
                pattern = _pattern(body["text"]) if head["regex"] else None
            except re.error as error:
                found = f"found '{body['text']}' ({error})"
                message = f"expected a regular expression in {{{{...}}}}, {found}"
                malformed.append(Diagnostic("error", place, message))
                continue
            where = _line(head["where"], number, lines)
            yield _Expected(head["kind"], where, body["text"], pattern, place)


def _line(where: str | None, number: int, lines: list[str]) -> int:
    if where is None:
        return number
    if where == "unknown":
        return 0
    if where in ("above", "below"):
        # Designators in consecutive lines refer to the same line of code.
        step = 1 if where == "below" else -1
        number += step
        while 0 < number <= len(lines) and _HEAD.search(lines[number - 1]):
            number += step
        return number
    return number + int(where)
