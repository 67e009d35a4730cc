"""Extracts diagnostics, with their locations in the input, from errors of MLIR and of passes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rammer_mlir.bindings import ir
from rammer_mlir.dialects.rtask.assembly.encoding import file_of
from rammer_mlir.errors import AssemblyError, RammerError
from rammer_mlir.passes.base import FindingsError, OperationError
from rammer_mlir.passes.manager import MlirError

UNNAMED = "-"
"""File name in locations of text that was parsed from memory."""


@dataclass(frozen=True)
class Place:
    """A file name, line and column, counted from 1; unknown parts are empty or 0."""

    file: str = ""
    line: int = 0
    column: int = 0


@dataclass(frozen=True)
class Diagnostic:
    """A reported diagnostic; ``kind`` is error, warning, remark or note."""

    kind: str
    place: Place
    message: str


def of_error(error: RammerError | ir.MLIRError) -> list[Diagnostic]:
    """Return the diagnostics that an error contains, or a diagnostic with the error's text."""
    if isinstance(error, ir.MLIRError):
        return [found for info in error.error_diagnostics for found in of_info("error", info)]
    if isinstance(error, MlirError) and error.diagnostics:
        return [found for info in error.diagnostics for found in of_info("error", info)]
    if isinstance(error, FindingsError):
        return [found for each in error.findings for found in of_error(each)]
    return [Diagnostic("error", _place_of_error(error), str(error))]


def of_info(kind: str, info: ir.DiagnosticInfo | ir.Diagnostic) -> Iterator[Diagnostic]:
    """Yield ``info`` as a diagnostic of the given kind, then its notes as diagnostics."""
    yield Diagnostic(kind, place_of(info.location), str(info.message))
    for note in info.notes:
        yield from of_info("note", note)


def _place_of_error(error: RammerError) -> Place:
    if isinstance(error, AssemblyError):
        return Place(UNNAMED, error.line, error.column)
    return place_of(error.location) if isinstance(error, OperationError) else Place()


def place_of(location: ir.Location) -> Place:
    """Return the place of the first file location within ``location``; else an empty ``Place``."""
    if type(location) is ir.Location:  # in diagnostics the bindings return the base class
        location = ir.Location.from_attr(location.attr, location.context)
    if isinstance(location, ir.FileLineColLoc):
        return Place(file_of(location), location.start_line, location.start_col)
    if isinstance(location, ir.NameLoc):
        return place_of(location.child_loc)
    if isinstance(location, ir.CallSiteLoc):
        return place_of(location.callee)
    if isinstance(location, ir.FusedLoc):
        return next((p for p in map(place_of, location.locations) if p.line), Place())
    return Place()
