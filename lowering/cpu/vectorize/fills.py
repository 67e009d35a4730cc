"""Fold ``linalg.fill`` into the reduction that follows it: its accumulators start as constants."""

from __future__ import annotations

from typing import Any

from rammer_mlir.bindings import ir
from rammer_mlir.lowering.ir_walk import producer

_WITHOUT_EFFECT = ("arith.", "affine.")
_VIEWS = (
    "memref.subview",
    "memref.cast",
    "memref.collapse_shape",
    "memref.expand_shape",
    "memref.reinterpret_cast",
    "memref.extract_strided_metadata",
)
_BUFFERS = ("memref.alloc", "memref.alloca", "memref.dim")


def known_fills(operation: Any) -> list[Any]:
    """Return, per output of a ``linalg.generic``, the fill right before it, or None.

    Only reductions read what was filled in. A fill counts when nothing between the two touches
    memory other than fills of other buffers, the operation writes every element of that output,
    and none of its other operands is a view of the same buffer.
    """
    operands = list(operation.operands)
    first, outputs = operation.attributes["operandSegmentSizes"]
    if not any("reduction" in str(kind) for kind in operation.attributes["iterator_types"]):
        return [None] * outputs
    fills = _fills_before(operation)
    return [_known_fill(operation, operands, fills, k) for k in range(first, first + outputs)]


def _known_fill(operation: Any, operands: list[Any], fills: list[Any], number: int) -> Any:
    """Return the fill of operand ``number``, looking at the nearest fill of its buffer only."""
    target = operands[number]
    others = [value for k, value in enumerate(operands) if k != number]
    if not _writes_all(operation, number) or not _apart(target, others):
        return None
    for fill in fills:
        if root(_filled(fill)) == root(target):
            return fill if _filled(fill) == target else None
    return None


def fill_scalar(fill: Any) -> Any:
    """Return the scalar that a fill writes."""
    if len(fill.operands) == 2:
        return fill.operands[0]
    return _yielded(fill)


def _filled(fill: Any) -> Any:
    """Return the memref that a fill writes."""
    return fill.operands[len(fill.operands) - 1]


def _yielded(operation: Any) -> Any:
    """Return what a generic yields for its only result if its body does nothing else, or None."""
    body = list(operation.regions[0].blocks[0].operations)
    return body[0].operands[0] if len(body) == 1 and len(body[0].operands) == 1 else None


def _fills_before(operation: Any) -> list[Any]:
    """List the fills in front of an operation, up to the first other memory access."""
    before = []
    for other in (o.operation for o in operation.block.operations):
        if other == operation:
            break
        before.append(other)
    fills: list[Any] = []
    for other in reversed(before):
        if is_fill(other):
            fills.append(other)
        elif not is_without_effect(other):
            break
    return fills


def is_fill(operation: Any) -> bool:
    """Tell whether an operation is a generic that writes one scalar everywhere.

    The scalar is its only input, or a value from outside that its body yields.
    """
    if operation.name != "linalg.generic" or len(operation.operands) > 2:
        return False
    value = _yielded(operation)
    if value is None or not _writes_all(operation, len(operation.operands) - 1):
        return False
    block = operation.regions[0].blocks[0]
    if len(operation.operands) == 1:
        return value.owner != block
    scalar = not isinstance(operation.operands[0].type, ir.MemRefType)
    return scalar and value == block.arguments[0]


def _writes_all(operation: Any, number: int) -> bool:
    results = operation.attributes["indexing_maps"][number].value.results
    dims = {r.position for r in results if isinstance(r, ir.AffineDimExpr)}
    return len(dims) == len(list(results))


def is_without_effect(operation: Any) -> bool:
    """Tell whether an operation only computes indices, views or room for temporaries."""
    return operation.name.startswith((*_WITHOUT_EFFECT, *_VIEWS, *_BUFFERS))


def root(value: Any) -> Any:
    """Return the buffer that a value is a view of."""
    while producer(value) in _VIEWS:
        value = value.owner.operands[0]
    return value


def _apart(target: Any, others: list[Any]) -> bool:
    return all(root(other) != root(target) for other in others)
