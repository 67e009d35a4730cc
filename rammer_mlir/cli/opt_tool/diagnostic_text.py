"""Prints diagnostics as MLIR's tools do: location, message, source line, caret."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TextIO

from rammer_mlir.bindings import ir
from rammer_mlir.cli.opt_tool.diagnostics import UNNAMED, Diagnostic, Place, of_error
from rammer_mlir.errors import RammerError
from rammer_mlir.passes.manager import MlirError

_COLORS = {"error": "\x1b[0;1;31m", "warning": "\x1b[0;1;35m", "remark": "\x1b[0;1;34m"}
_NOTE, _BOLD, _CARET, _PLAIN = "\x1b[0;1;30m", "\x1b[1m", "\x1b[0;1;32m", "\x1b[0m"
_SHOWN_OPERATION = "see current operation: "
_LONGEST_LINE = 200
"""Largest number of characters of a source line that are shown.

Lines with constants may have thousands of characters.
"""


@dataclass(frozen=True)
class DiagnosticPrinter:
    """Prints diagnostics on standard error.

    Attributes:
        name: the input's name, printed as the file name of locations in the input.
        text: the input's text, from which source lines are printed; empty for bytecode.
        color: whether to print in color; None for color only on a terminal.
        notes: whether to print notes.
        operations: whether to print MLIR's note with the operation of a diagnostic.
    """

    name: str
    text: str
    color: bool | None = None
    notes: bool = True
    operations: bool = True

    def report(self, error: RammerError | ir.MLIRError) -> None:
        """Print all diagnostics of an error on standard error."""
        self.print(of_error(error))
        if isinstance(error, MlirError) and error.diagnostics and self.notes:
            self.print([Diagnostic("note", Place(), error.what)])

    def print(self, found: Iterable[Diagnostic]) -> None:
        """Print diagnostics in order on standard error.

        Notes are left out as the attributes ``notes`` and ``operations`` request.
        """
        stream = sys.stderr
        for diagnostic in found:
            if self._is_shown(diagnostic):
                print(self._text(diagnostic, self._is_colored(stream)), file=stream)

    def named(self, place: Place) -> Place:
        """Return ``place`` with the input's name in place of the file name ``UNNAMED``.

        A place with any other file name is returned unchanged. ``UNNAMED`` is the file name of
        locations in text that MLIR parsed from memory. If the input is in the readable form of the
        rtask dialect, this text is the input converted to MLIR's generic form, with the same lines
        but other columns. A column beyond the end of the input's line becomes 0.
        """
        if place.file != UNNAMED:
            return place
        lines = self.text.split("\n")
        is_inside = place.line > len(lines) or place.column <= len(lines[place.line - 1]) + 1
        return replace(place, file=self.name, column=place.column if is_inside else 0)

    def _is_shown(self, diagnostic: Diagnostic) -> bool:
        if diagnostic.kind != "note":
            return True
        is_operation = diagnostic.message.startswith(_SHOWN_OPERATION)
        return self.notes and (self.operations or not is_operation)

    def _is_colored(self, stream: TextIO) -> bool:
        return stream.isatty() if self.color is None else self.color

    def _text(self, diagnostic: Diagnostic, is_colored: bool) -> str:
        place = self.named(diagnostic.place)
        where = ":".join(str(part) for part in (place.file, place.line, place.column) if part)
        prefix = f"{where}: " if place.line else ""
        if place.file == self.name and not self.text:  # bytecode has no lines
            prefix = f"{place.file}:0:0: "
        kind, message = f"{diagnostic.kind}: ", _printable(diagnostic.message)
        if is_colored:
            color = _COLORS.get(diagnostic.kind, _NOTE)
            prefix, kind = f"{_BOLD}{prefix}{_PLAIN}", f"{color}{kind}{_PLAIN}"
            message = f"{_BOLD}{message}{_PLAIN}"
        return f"{prefix}{kind}{message}{self._source(place, is_colored)}"

    def _source(self, place: Place, is_colored: bool) -> str:
        """Return the input's line at ``place`` with a caret below the column.

        Return "" if the input has no such line, if the column is unknown, or if the line has more
        than ``_LONGEST_LINE`` characters. The caret is colored if ``is_colored``.
        """
        lines = self.text.split("\n")
        if place.file != self.name or not place.column or not 0 < place.line <= len(lines):
            return ""
        line = lines[place.line - 1].rstrip()
        if len(line) > _LONGEST_LINE:
            return ""
        # Keep tabs, so that the caret is below its character.
        blanks = "".join("\t" if c == "\t" else " " for c in line[: place.column - 1])
        caret = f"{_CARET}^{_PLAIN}" if is_colored else "^"
        return f"\n{_printable(line)}\n{blanks}{caret}"


def _printable(text: str) -> str:
    """Return the text with unprintable characters escaped, except line breaks and tabs.

    The user's file, which diagnostics quote, may contain control characters of terminals.
    """
    return "".join(
        c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text
    )
