"""Merges the products of a matrix with several weights."""

from __future__ import annotations

from collections.abc import Sequence

from rammer_mlir.bindings import ir
from rammer_mlir.passes.contractions.product import Product, emit_product
from rammer_mlir.passes.ir.structured import shape_of
from rammer_mlir.passes.merging.results import finish_merging
from rammer_mlir.passes.weights.derived import DerivedWeights
from rammer_mlir.passes.weights.merged import WeightPart


def merge_products(group: Sequence[Product], weights: DerivedWeights) -> None:
    """Replace products of the same matrix by a single product with the concatenated weights.

    Slices of the new result replace the old results. ``weights`` are the module's weights, to which
    the concatenated weights are added.
    """
    first = group[0]
    with ir.InsertionPoint(first.op), first.op.operation.location:
        joined = weights.join([_part(member, weights) for member in group])
        finish_merging(group, emit_product(first.matrix, joined, is_transposed=True), weights)


def _part(member: Product, weights: DerivedWeights) -> WeightPart:
    value = member.weight
    if not member.is_transposed:
        rows, columns = shape_of(value)
        value = weights.transpose(value, [1, 0])
        assert shape_of(value) == [columns, rows]
    return WeightPart(weights[value], shape_of(value), [0, 0], shape_of(value))
