"""Removes the computations and reads of tensors without elements."""

from __future__ import annotations

from collections.abc import Sequence

from rammer_mlir.bindings import ir, tensor
from rammer_mlir.passes.ir.structured import Structured
from rammer_mlir.passes.ir.traversal import replace


def drop_empty_tensors(function: ir.OpView) -> None:
    """Remove the operations of a function that read or compute tensors without elements.

    Results without elements are replaced by empty tensors, a loop nest without iterations is
    replaced by its destinations, and an insertion of a slice without elements by its destination. A
    concatenation loses its operands without elements. Constants and all other operations are kept.
    """
    block = function.operation.regions[0].blocks[0]
    for op in list(block.operations):
        operation = op.operation
        if not any(map(_is_empty, (*operation.operands, *operation.results))):
            continue
        with ir.InsertionPoint(operation), operation.location:
            values = _replacements(operation)
        if values is not None:
            replace(operation, values)


def _is_empty(value: ir.Value) -> bool:
    kind = value.type
    return isinstance(kind, ir.RankedTensorType) and kind.has_static_shape and 0 in kind.shape


def _replacements(op: ir.Operation) -> list[ir.Value] | None:
    """Return the values that replace the results of an operation on tensors without elements.

    Return None if the operation need not be replaced.
    """
    if op.name in ("tensor.empty", "func.return", "arith.constant"):
        return None
    if op.results and all(map(_is_empty, op.results)):
        return [_empty(value.type) for value in op.results]
    if op.name == "linalg.generic" and _has_no_steps(op):
        count = len(op.results)
        return list(op.operands)[-count:]
    if op.name == "tensor.insert_slice":
        return [op.operands[1]] if _is_empty(op.operands[0]) else None
    if op.name == "tensor.concat":
        return _joined([value for value in op.operands if not _is_empty(value)], op)
    return None


def _empty(kind: ir.Type) -> ir.Value:
    ranked = ir.RankedTensorType(kind)
    return tensor.EmptyOp(list(ranked.shape), ranked.element_type).result


def _has_no_steps(op: ir.Operation) -> bool:
    """Whether a ``linalg.generic`` has a loop of trip count 0."""
    structured = Structured(op.opview)
    for value, map_ in zip(op.operands, structured.maps, strict=True):
        if isinstance(value.type, ir.RankedTensorType):
            for size, expression in zip(value.type.shape, map_.results, strict=True):
                if size == 0 and isinstance(expression, ir.AffineDimExpr):
                    return True
    return False


def _joined(parts: Sequence[ir.Value], op: ir.Operation) -> list[ir.Value]:
    if len(parts) == 1:
        return [parts[0]]
    dim = ir.IntegerAttr(op.attributes["dim"]).value
    return [tensor.ConcatOp(op.results[0].type, dim, list(parts)).result]
