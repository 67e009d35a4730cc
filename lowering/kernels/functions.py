"""Finds the rKernel functions of a module, and their symbols in native code."""

from __future__ import annotations

from collections.abc import Iterator

from rammer_mlir.bindings import ir

KERNEL_PREFIX = "rkernel."
"""Prefix of rKernels' symbols in native code."""


def find_kernels(module: ir.Module) -> Iterator[ir.Operation]:
    """Yield the rKernel functions of a module.

    An rKernel function has a body, no result, and arguments of type index (the rTask's id) and
    memref.
    """
    for operation in (o.operation for o in module.body.operations):
        if operation.name != "func.func" or not len(operation.regions[0].blocks):
            continue
        kind = ir.FunctionType(ir.TypeAttr(operation.attributes["function_type"]).value)
        first, *rest = [*kind.inputs] or [None]
        if isinstance(first, ir.IndexType) and not list(kind.results):
            if all(isinstance(t, ir.MemRefType) for t in rest):
                yield operation
