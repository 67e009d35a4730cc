"""Products of one matrix with several weights become one product."""

from __future__ import annotations

from collections.abc import Sequence

from rammer_mlir.bindings import ir
from rammer_mlir.passes.derived_weights import DerivedWeights
from rammer_mlir.passes.generics import sum_of_products
from rammer_mlir.passes.merged_results import finish_merging
from rammer_mlir.passes.merged_weights import WeightPart
from rammer_mlir.passes.product import Product
from rammer_mlir.passes.structured import shape_of


def merge_products(group: Sequence[Product], weights: DerivedWeights) -> None:
    """Multiply one matrix with all weights side by side, and split the result."""
    first = group[0]
    with ir.InsertionPoint(first.op), first.op.operation.location:
        joined = weights.join([_part(member, weights) for member in group])
        finish_merging(group, _multiply(first, joined), weights)


def _part(member: Product, weights: DerivedWeights) -> WeightPart:
    value = member.weight
    if not member.is_transposed:
        rows, columns = shape_of(value)
        value = weights.transpose(value, [1, 0])
        assert shape_of(value) == [columns, rows]
    return WeightPart(weights[value], shape_of(value), [0, 0], shape_of(value))


def _multiply(first: Product, joined: ir.Value) -> ir.Value:
    m, n, k = (ir.AffineDimExpr.get(dim) for dim in range(3))
    maps = [ir.AffineMap.get(3, 0, dims) for dims in ([m, k], [n, k], [m, n])]
    shape = [first.rows, shape_of(joined)[0]]
    return sum_of_products([first.matrix, joined], maps, (True, True, False), shape)
