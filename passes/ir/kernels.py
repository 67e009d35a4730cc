"""The rKernel descriptions of a module."""

from __future__ import annotations

from collections.abc import Sequence

from rammer_mlir.bindings import ir

SECONDS = "seconds"
"""Attribute of ``rtask.kernel``: seconds of an rTask, as in ``MeasuredSeconds``."""


def described_kernels(module: ir.Module) -> dict[str, ir.OpView]:
    """Map each described rKernel function's name to its ``rtask.kernel``."""
    return {
        ir.FlatSymbolRefAttr(op.operation.attributes["function"]).value: op
        for op in module.body.operations
        if op.operation.name == "rtask.kernel"
    }


def annotate_seconds(description: ir.OpView, seconds: Sequence[float]) -> None:
    """Write the seconds of an rTask, hot, cold and far, on an ``rtask.kernel``."""
    with description.operation.context:
        value = ir.DenseF64ArrayAttr.get(list(seconds))
    description.operation.attributes[SECONDS] = value
