"""Lowers ``tm_tensor.attention`` (torch-mlir's dialect TMTensor) to two products and a softmax."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf, sqrt

from rammer_mlir.bindings import arith, ir, linalg, math
from rammer_mlir.passes.ir.generics import generic, splat, sum_of_products
from rammer_mlir.passes.legalization.elementwise import Values, per_element


def torch_attention(op: ir.Operation, operands: Sequence[ir.Value]) -> list[ir.Value] | None:
    """Emit the loops that replace a ``tm_tensor.attention``; return its result, [..., M, N].

    Scores are scaled by the attribute ``scale``, or by the inverse of the square root of K. Rows
    whose scores are all masked out give zeros. Return None for elements other than floats of the
    same type, and for tensors of different ranks.

    Args:
        op: the operation.
        operands: the query [..., M, K], the key [..., L, K], the value [..., L, N], a mask [..., M,
            L] if given, and the initial result, all of static shapes. The mask is added to the
            scaled scores; if its elements are i1, it is true for the scores that are kept.
    """
    query, key, value, *masks = operands[:-1]
    kind = ir.RankedTensorType(query.type)
    if not _is_regular(kind, operands[1:-1]):
        return None
    *batch, rows, depth = kind.shape
    length, width = ir.RankedTensorType(value.type).shape[-2:]
    factor = 1 / sqrt(max(depth, 1))  # of depth 0, all scores are 0
    if "scale" in op.attributes:
        factor = ir.FloatAttr(op.attributes["scale"]).value
    scores = _product(query, key, [*batch, rows, length], is_transposed=True)
    weights = _softmax(_masked(scores, factor, masks))
    return [_product(weights, value, [*batch, rows, width], is_transposed=False)]


def _is_regular(query: ir.RankedTensorType, others: Sequence[ir.Value]) -> bool:
    """Whether key, value and mask have the query's rank and element type; the mask may be i1."""
    element = query.element_type
    kinds = [ir.RankedTensorType(value.type) for value in others]
    truth = ir.IntegerType.get_signless(1)
    return (
        isinstance(element, ir.FloatType)
        and all(kind.rank == query.rank for kind in kinds)
        and all(kind.element_type == element for kind in kinds[:2])
        and all(kind.element_type in (element, truth) for kind in kinds[2:])
    )


def _map(loops: int, *kept: int) -> ir.AffineMap:
    return ir.AffineMap.get(loops, 0, [ir.AffineDimExpr.get(n) for n in kept])


def _product(
    left: ir.Value, right: ir.Value, shape: Sequence[int], *, is_transposed: bool
) -> ir.Value:
    """Emit and return a batch of matrix products, optionally with transposed right matrices.

    ``shape`` is the shape of the result, with the batch dimensions first.
    """
    rank = len(shape)
    batch, row, column, step = range(rank - 2), rank - 2, rank - 1, rank
    sides = (column, step) if is_transposed else (step, column)
    maps = [_map(rank + 1, *batch, *last) for last in ((row, step), sides, (row, column))]
    return sum_of_products([left, right], maps, [True] * rank + [False], shape)


def _masked(scores: ir.Value, factor: float, masks: Sequence[ir.Value]) -> ir.Value:
    """Emit and return the scores times ``factor``, with the mask applied if there is one.

    A float mask is added to the scores; where an i1 mask is false, the score becomes -inf.
    """
    kind = ir.RankedTensorType(scores.type)

    def body(elements: Values, _indices: Values) -> ir.Value:
        score, *added = elements
        score = arith.mulf(score, arith.constant(kind.element_type, factor))
        if not added:
            return score
        if isinstance(added[0].type, ir.IntegerType):
            return arith.select(added[0], score, arith.constant(kind.element_type, -inf))
        return arith.addf(score, added[0])

    identity = ir.AffineMap.get_identity(kind.rank)
    inputs = [(each, identity) for each in (scores, *masks)]
    return per_element(kind.shape, kind.element_type, inputs, body)


def _softmax(scores: ir.Value) -> ir.Value:
    """Emit and return the softmax along the last dimension; rows of -inf give zeros."""
    kind = ir.RankedTensorType(scores.type)
    element, identity = kind.element_type, ir.AffineMap.get_identity(kind.rank)
    row = _map(kind.rank, *range(kind.rank - 1))

    def exponential(elements: Values, _indices: Values) -> ir.Value:
        score, most = elements
        is_masked = arith.cmpf(
            arith.CmpFPredicate.OEQ, most, arith.constant(element, -inf)
        )  # without a guard, the difference of infinities is NaN
        most = arith.select(is_masked, arith.constant(element, 0.0), most)
        return math.exp(arith.subf(score, most))

    def quotient(elements: Values, _indices: Values) -> ir.Value:
        weight, total = elements
        zero = arith.constant(element, 0.0)
        is_zero = arith.cmpf(arith.CmpFPredicate.OEQ, total, zero)
        return arith.select(is_zero, zero, arith.divf(weight, total))

    most = _reduced(scores, -inf, arith.maximumf)
    inputs = [(scores, identity), (most, row)]
    weights = per_element(kind.shape, element, inputs, exponential)
    inputs = [(weights, identity), (_reduced(weights, 0.0, arith.addf), row)]
    return per_element(kind.shape, element, inputs, quotient)


def _reduced(
    value: ir.Value, start: float, combine: Callable[[ir.Value, ir.Value], ir.Value]
) -> ir.Value:
    """Emit and return the reduction of a tensor of floats along its last dimension.

    The reduction combines ``start`` and the elements by ``combine``.
    """
    kind = ir.RankedTensorType(value.type)
    element, last = kind.element_type, kind.rank - 1
    initial = splat(arith.constant(element, start), kind.shape[:-1])
    maps = [ir.AffineMap.get_identity(kind.rank), _map(kind.rank, *range(last))]
    loop = generic([value], initial, maps, [True] * last + [False])
    block = loop.regions[0].blocks.append(element, element)
    with ir.InsertionPoint(block):
        linalg.YieldOp([combine(*block.arguments)])
    return loop.results[0]
