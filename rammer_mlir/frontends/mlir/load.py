"""Parses and verifies MLIR modules, with one-line errors."""

from __future__ import annotations

import re
from typing import NoReturn

from rammer_mlir import dialects
from rammer_mlir.bindings import ir
from rammer_mlir.dialects.rtask.assembly.encoding import file_of
from rammer_mlir.errors import AssemblyError, ModelError, PassError, UnsupportedError
from rammer_mlir.frontends.mlir.sources import BYTECODE, MlirSource
from rammer_mlir.passes.base import FindingsError, OperationError
from rammer_mlir.passes.manager import MlirError

_MOST_ERRORS = 20
"""Largest number of parser and verifier diagnostics in a message."""

_UNKNOWN_DIALECT = re.compile(r"[Dd]ialect ['`].*' not found|dialect '.*' is unknown")


def parse(source: MlirSource) -> ir.Module:
    """Parse ``source``; return the verified module in a new context.

    Raises:
        ModelError: with file, line and column, if ``source`` is not a valid module.
    """
    context = ir.Context()
    dialects.register(context)
    is_binary = source.content.startswith(BYTECODE)
    with context:
        try:
            return dialects.parse(source.content if is_binary else source.content.decode())
        except AssemblyError as error:
            place = [source.name, *(str(n) for n in (error.line, error.column) if n)]
            raise ModelError(f"{':'.join(place)}: {error}") from error
        except ir.MLIRError as error:
            raise ModelError(_described(error, source.name)) from error


def _described(error: ir.MLIRError, name: str) -> str:
    found = [
        f"{place_text(info.location, name)}: {str(info.message).splitlines()[0].strip()}"
        f"{_advice(str(info.message))}"
        for info in list(error.error_diagnostics)[:_MOST_ERRORS]
        if str(info.message)
    ]
    return "; ".join(found) or f"{name}: expected an MLIR module, found none"


def _advice(message: str) -> str:
    """Return the remedy to append to MLIR's error ``message``; '' if there is none.

    Only errors about an unknown dialect have a remedy: to lower the module by the tool that made
    it.
    """
    if "unregistered dialect" in message or _UNKNOWN_DIALECT.search(message):
        return "; lower it to linalg, TOSA or StableHLO with the tool that made it"
    return ""


def refuse(error: PassError, file: str) -> NoReturn:
    """Raise a single error with all errors of a failed pass, each with its location in ``file``.

    Raises:
        UnsupportedError: always.
    """
    found = error.findings if isinstance(error, FindingsError) else (error,)
    raised = UnsupportedError("; ".join(_with_place(each, file) for each in found))
    raise raised from error


def _with_place(error: PassError, file: str) -> str:
    if isinstance(error, OperationError):
        return f"{place_text(error.location, file)}: {error}"
    if isinstance(error, MlirError) and error.diagnostics:
        first = error.diagnostics[0]
        reason = str(first.message).splitlines()[0]
        return f"{place_text(first.location, file)}: {error.what}: {reason}"
    return f"{file}: {error}"


def place_text(location: ir.Location, name: str) -> str:
    """Return a location as text ``FILE:LINE:COLUMN``.

    If the location does not name a file, ``name`` stands for the file. The text of an unknown
    location is ``name`` alone.
    """
    if type(location) is ir.Location:  # in diagnostics the bindings return the base class
        location = ir.Location.from_attr(location.attr, location.context)
    if isinstance(location, ir.NameLoc):
        return f"{place_text(location.child_loc, name)} ({location.name_str})"
    if isinstance(location, ir.FusedLoc) and location.locations:
        return place_text(location.locations[0], name)
    if isinstance(location, ir.CallSiteLoc):
        return place_text(location.callee, name)
    if isinstance(location, ir.FileLineColLoc):
        found = file_of(location)
        file = name if found in ("-", "") else found
        return f"{file}:{location.start_line}:{location.start_col}"
    return name
