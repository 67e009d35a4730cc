"""Detects transposed operands of an element-wise ``linalg.generic``."""

from __future__ import annotations

from rammer_mlir.bindings import ir
from rammer_mlir.lowering.gpu.transposition_plan import (
    LEAST_EXTENT,
    TranspositionPlan,
    plan_transposition,
)
from rammer_mlir.passes.ir.structured import (
    LoopDimension,
    Structured,
    element_bytes,
    is_buffer,
    plain_dim,
)


def find_transposition(generic: Structured, shared_limit: int) -> TranspositionPlan | None:
    """Return the plan for an element-wise operation with transposed operands; None if it has none.

    The result is also None if the squares of elements to transpose do not fit in shared memory.

    Args:
        generic: the operation, on memrefs.
        shared_limit: bytes of shared memory for the squares.
    """
    if not generic.is_elementwise or generic.num_outputs != 1:
        return None
    *inputs, across = [
        _neighbours(*pair) for pair in zip(generic.operands, generic.maps, strict=True)
    ]
    if across is None:
        return None
    transposed: dict[int, dict[int, int]] = {}
    for number, along in enumerate(inputs):
        if along is None or along == across:
            continue
        if _long_loops(generic, number) >= {along, across}:
            size = element_bytes(generic.operands[number].type)
            transposed.setdefault(along, {})[number] = size
    if not transposed:
        return None
    along, sizes = next(iter(transposed.items()))
    return plan_transposition(across, along, sizes, shared_limit)


def _neighbours(operand: ir.Value, map_: ir.AffineMap) -> int | None:
    """Return the loop along which an operand with map ``map_`` is contiguous; None without one.

    The result is also None for an operand outside of device memory.
    """
    if not is_buffer(operand) or operand.type.memory_space is not None or not operand.type.rank:
        return None
    strides, _ = operand.type.get_strides_and_offset()
    if strides[-1] != 1 or not isinstance(operand.type.element_type, ir.IntegerType | ir.FloatType):
        return None
    return plain_dim(map_.results[len(map_.results) - 1])


def _long_loops(generic: Structured, operand: int) -> set[int]:
    """Return the loops over an operand's dimensions that are dynamic or long enough.

    A static dimension is long enough with at least ``LEAST_EXTENT`` elements.
    """
    dimensions = (one for one in generic.loop_dimensions if one.operand == operand)
    return {one.loop for one in dimensions if _is_long(one)}


def _is_long(dimension: LoopDimension) -> bool:
    return not dimension.is_static or dimension.size >= LEAST_EXTENT
