"""Detects transposed operands of an element-wise ``linalg.generic``.

A transposed operand is contiguous along another loop than the result.
"""

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
    """Return the plan for transposing operands of an element-wise operation in shared memory.

    The block loads transposed operands into shared memory by square tiles. The result is None if
    no operand is transposed, or if the square tiles do not fit in shared memory.

    Args:
        generic: the operation, on memrefs.
        shared_limit: bytes of shared memory for the square tiles.
    """
    if not generic.is_elementwise or generic.num_outputs != 1:
        return None
    *inputs, across = [
        _neighbors(*pair) for pair in zip(generic.operands, generic.maps, strict=True)
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


def _neighbors(operand: ir.Value, map_: ir.AffineMap) -> int | None:
    """Return the loop along which adjacent iterations access adjacent elements of an operand.

    The result is None if no loop does so, or if the operand is outside of device memory. ``map_``
    is the operand's index map.
    """
    if not is_buffer(operand) or operand.type.memory_space is not None or not operand.type.rank:
        return None
    strides, _ = operand.type.get_strides_and_offset()
    if strides[-1] != 1 or not isinstance(operand.type.element_type, ir.IntegerType | ir.FloatType):
        return None
    return plain_dim(map_.results[len(map_.results) - 1])


def _long_loops(generic: Structured, operand: int) -> set[int]:
    """Return the loops that index a dynamic or long dimension of an operand.

    A static dimension is long if it has at least ``LEAST_EXTENT`` elements.
    """
    dimensions = (one for one in generic.loop_dimensions if one.operand == operand)
    return {one.loop for one in dimensions if _is_long(one)}


def _is_long(dimension: LoopDimension) -> bool:
    return not dimension.is_static or dimension.size >= LEAST_EXTENT
