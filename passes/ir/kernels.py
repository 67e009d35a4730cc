"""Finds and emits descriptions of rKernels (``rtask.kernel``), and sets times of rTasks in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rammer_mlir.bindings import ir

SECONDS = "seconds"
"""Attribute of ``rtask.kernel``: three measured times of an rTask in seconds.

The times are those with the rTask's data in the core's cache (hot), in a shared cache (cold), and
in memory (far), in this order.
"""


MATRIX_ELEMENT = "matrix_element"
"""Attribute of ``rtask.kernel``: the type of elements that matrix instructions multiply."""


def matrix_element(description: ir.Operation) -> str:
    """Return the element type of an rKernel's matrix instructions; empty if it uses none."""
    if MATRIX_ELEMENT not in description.attributes:
        return ""
    return ir.StringAttr(description.attributes[MATRIX_ELEMENT]).value


def described_kernels(module: ir.Module) -> dict[str, ir.OpView]:
    """Return the ``rtask.kernel`` that describes each rKernel, by the name of its function."""
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
) -> ir.Operation:
    """Emit the ``rtask.kernel`` of a CPU's rKernel at the current insertion point, and return it.

    Args:
        name: the name of the function.
        num_rtasks: the number of rTasks.
        accesses: the attributes ``reads`` and ``writes``, by name.
        operations: arithmetic operations per rTask.
        num_bytes: bytes that each rTask reads and writes.
        further: other attributes of the ``rtask.kernel``, by name.
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
    return ir.Operation.create("rtask.kernel", attributes=attributes, loc=ir.Location.unknown())


def annotate_seconds(description: ir.OpView, seconds: Sequence[float]) -> None:
    """Set the attribute ``seconds`` of an ``rtask.kernel``.

    ``seconds`` lists three times of an rTask: with its data in the core's cache (hot), after reads
    of ``COLD_BYTES`` of other data, and after reads of ``FAR_BYTES`` of other data.
    """
    with description.operation.context:
        value = ir.DenseF64ArrayAttr.get(list(seconds))
    description.operation.attributes[SECONDS] = value
