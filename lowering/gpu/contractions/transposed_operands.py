"""Which operands of an element-wise ``linalg.generic`` are turned: a reading of the IR."""

from __future__ import annotations

from typing import Any

from rammer_mlir.bindings import ir
from rammer_mlir.lowering.gpu.transposition_plan import (
    LEAST_EXTENT,
    TranspositionPlan,
    plan_transposition,
)


def find_transposition(generic: Any, shared_limit: int) -> TranspositionPlan | None:
    """Return the plan for an element-wise operation that turns operands, None if it turns none.

    Args:
        generic: the operation, on memrefs.
        shared_limit: bytes of shared memory for squares.
    """
    if any("parallel" not in str(kind) for kind in generic.attributes["iterator_types"]):
        return None
    maps = [attribute.value for attribute in generic.attributes["indexing_maps"]]
    body = generic.regions[0].blocks[0]
    num_outputs = len(body.operations[len(body.operations) - 1].operands)
    across = _neighbours(generic.operands[len(maps) - 1], maps[-1])
    if across is None or num_outputs != 1:
        return None
    turned: dict[int, dict[int, int]] = {}
    for number, access in enumerate(maps[:-1]):
        operand = generic.operands[number]
        along = _neighbours(operand, access)
        if along not in (None, across) and _long_dimensions(operand, access) >= {along, across}:
            turned.setdefault(along, {})[number] = max(1, operand.type.element_type.width // 8)
    if not turned:
        return None
    along, element_bytes = next(iter(turned.items()))
    return plan_transposition(across, along, element_bytes, shared_limit)


def _neighbours(operand: Any, access: Any) -> int | None:
    """Return the loop along which neighbours in device memory lie, None if there is none."""
    kind = operand.type
    if not isinstance(kind, ir.MemRefType) or kind.memory_space is not None or not kind.rank:
        return None
    strides, _ = kind.get_strides_and_offset()
    last = access.results[len(access.results) - 1]
    if strides[-1] != 1 or not isinstance(last, ir.AffineDimExpr):
        return None
    return last.position if hasattr(kind.element_type, "width") else None


def _long_dimensions(operand: Any, access: Any) -> set[int]:
    """Return the loops that walk along a dimension of an operand which is long, or not static."""
    kind = operand.type
    return {
        result.position
        for dimension, result in enumerate(access.results)
        if isinstance(result, ir.AffineDimExpr)
        and (kind.is_dynamic_dim(dimension) or kind.shape[dimension] >= LEAST_EXTENT)
    }
