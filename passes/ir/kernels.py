"""The rKernel descriptions of a module."""

from __future__ import annotations

from rammer_mlir.bindings import ir


def described_kernels(module: ir.Module) -> dict[str, ir.OpView]:
    """Map each described rKernel function's name to its ``rtask.kernel``."""
    return {
        ir.FlatSymbolRefAttr(op.operation.attributes["function"]).value: op
        for op in module.body.operations
        if op.operation.name == "rtask.kernel"
    }
