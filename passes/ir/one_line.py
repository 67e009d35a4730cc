"""Shortens the message of an error to one line."""

from __future__ import annotations

from rammer_mlir.bindings import ir


def one_line(error: BaseException) -> str:
    """Return an error's message as one line; for an MLIR error, the first diagnostic's message."""
    if isinstance(error, ir.MLIRError) and error.error_diagnostics:
        return str(error.error_diagnostics[0].message).splitlines()[0]
    return " ".join(str(error).split())
