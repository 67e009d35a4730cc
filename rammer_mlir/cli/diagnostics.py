"""``--verify-diagnostics``: comments that say which diagnostics the input must cause, and where."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rammer_mlir.bindings import ir
from rammer_mlir.errors import AssemblyError, PassError, RammerError
from rammer_mlir.passes.base import OperationError
from rammer_mlir.passes.manager import MlirError

_COMMENT = re.compile(
    r"expected-(?P<kind>error|warning|remark|note)(?P<regex>-re)?"
    r"\s*(?:@(?P<where>[+-]\d+|above|below|unknown))?\s*\{\{(?P<text>.*?)\}\}"
)


@dataclass(frozen=True)
class Diagnostic:
    """A diagnostic that was reported; ``line`` counts from 1 and is 0 for an unknown location."""

    kind: str
    line: int
    message: str


@dataclass(frozen=True)
class _Expected:
    kind: str
    line: int
    text: str
    is_regex: bool

    def matches(self, found: Diagnostic) -> bool:
        if (self.kind, self.line) != (found.kind, found.line):
            return False
        if self.is_regex:
            return re.search(self.text, found.message) is not None
        return self.text in found.message


def of_error(error: RammerError | ir.MLIRError) -> list[Diagnostic]:
    """Return the diagnostics in an error of MLIR's or of a pass."""
    if isinstance(error, ir.MLIRError):
        return [found for info in error.error_diagnostics for found in of_info("error", info)]
    if isinstance(error, MlirError) and error.diagnostics:
        return [found for info in error.diagnostics for found in of_info("error", info)]
    return [Diagnostic("error", line_of_error(error), str(error))]


def of_info(kind: str, info: ir.DiagnosticInfo | ir.Diagnostic) -> Iterator[Diagnostic]:
    """Yield a diagnostic of MLIR's and its notes."""
    yield Diagnostic(kind, line_of(info.location), str(info.message))
    for note in info.notes:
        yield from of_info("note", note)


def line_of_error(error: RammerError) -> int:
    """Return the line of the input that an error of ours is about, or 0."""
    if isinstance(error, AssemblyError):
        return error.line
    return line_of(error.location) if isinstance(error, OperationError) else 0


def line_of(location: ir.Location) -> int:
    """Return the line of the first file location inside a location, or 0."""
    if type(location) is ir.Location:  # in diagnostics the bindings leave out the subclass
        location = ir.Location.from_attr(location.attr, location.context)
    if isinstance(location, ir.FileLineColLoc):
        return location.start_line
    if isinstance(location, ir.NameLoc):
        return line_of(location.child_loc)
    if isinstance(location, ir.CallSiteLoc):
        return line_of(location.callee)
    if isinstance(location, ir.FusedLoc):
        return next(filter(None, map(line_of, location.locations)), 0)
    return 0


def check(text: str, found: Sequence[Diagnostic], name: str) -> None:
    """Compare diagnostics with the comments of the text that caused them.

    A note need not be expected; everything else must be, exactly once.

    Raises:
        PassError: naming the first one that is missing or was not expected.
    """
    expected = _expected(text)
    for diagnostic in found:
        match = next((one for one in expected if one.matches(diagnostic)), None)
        if match is not None:
            expected.remove(match)
        elif diagnostic.kind != "note":
            raise PassError(
                f"{name}:{diagnostic.line}: unexpected {diagnostic.kind}: {diagnostic.message}"
            )
    if expected:
        missing = expected[0]
        raise PassError(
            f'{name}:{missing.line}: expected {missing.kind} "{missing.text}" was not reported'
        )


def _expected(text: str) -> list[_Expected]:
    lines = text.split("\n")
    return [
        _Expected(
            match["kind"], _line(match["where"], number, lines), match["text"], bool(match["regex"])
        )
        for number, line in enumerate(lines, 1)
        for match in _COMMENT.finditer(line)
    ]


def _line(where: str | None, number: int, lines: list[str]) -> int:
    if where is None:
        return number
    if where == "unknown":
        return 0
    if where in ("above", "below"):
        # Designators in consecutive lines refer to the same line of code.
        step = 1 if where == "below" else -1
        number += step
        while 0 < number <= len(lines) and _COMMENT.search(lines[number - 1]):
            number += step
        return number
    return number + int(where)
