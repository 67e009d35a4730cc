"""The rKernel descriptions of a module."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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


def describe_kernel(
    name: str,
    num_rtasks: int,
    accesses: Mapping[str, ir.ArrayAttr],
    operations: int,
    num_bytes: int,
    **further: ir.Attribute,
) -> None:
    """Emit the ``rtask.kernel`` of a CPU's rKernel at the current insertion point.

    Args:
        name: of the function.
        num_rtasks: how many rTasks there are.
        accesses: ``reads`` and ``writes``.
        operations: arithmetic operations of one rTask.
        num_bytes: bytes that one rTask reads and writes.
        further: attributes that not every rKernel has.
    """
    i64 = ir.IntegerType.get_signless(64)
    numbers = {
        "num_rtasks": num_rtasks,
        "threads": 1,
        "shared_memory": 0,
        "barriers": 0,
        "operations": operations,
        "bytes": num_bytes,
    }
    attributes: dict[str, ir.Attribute] = {
        "function": ir.FlatSymbolRefAttr.get(name),
        **{key: ir.IntegerAttr.get(i64, value) for key, value in numbers.items()},
        **accesses,
        **further,
    }
    ir.Operation.create("rtask.kernel", attributes=attributes, loc=ir.Location.unknown())


def annotate_seconds(description: ir.OpView, seconds: Sequence[float]) -> None:
    """Write the seconds of an rTask, hot, cold and far, on an ``rtask.kernel``."""
    with description.operation.context:
        value = ir.DenseF64ArrayAttr.get(list(seconds))
    description.operation.attributes[SECONDS] = value
