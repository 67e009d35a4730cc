"""Matches and emits products with weights, and matches the elementwise operations after them."""

from __future__ import annotations

from dataclasses import dataclass

from rammer_mlir.bindings import ir
from rammer_mlir.passes.contractions.contraction import (
    Contraction,
    following_steps,
    multiplies_and_adds,
    terms_of,
)
from rammer_mlir.passes.ir.fills import starts_at_zero
from rammer_mlir.passes.ir.generics import sum_of_products
from rammer_mlir.passes.ir.structured import Structured, is_generic, shape_of
from rammer_mlir.passes.weights.derived import DerivedWeights

_ROWS, _COLUMNS, _INNER = {0: 1}, {1: 1}, {2: 1}


@dataclass(frozen=True)
class Product(Contraction):
    """A matrix product with weights as right factor, and elementwise operations on its result.

    Attributes:
        is_transposed: whether the weights have the shape [columns of the result, inner dimension]
            instead of [inner dimension, columns of the result].
    """

    is_transposed: bool

    @property
    def matrix(self) -> ir.Value:
        """The left operand, [rows, inner dimension]."""
        return self.op.operation.operands[0]

    @property
    def weight(self) -> ir.Value:
        """The weights, [inner dimension, columns]; [columns, inner dimension] if transposed."""
        return self.op.operation.operands[1]

    @property
    def rows(self) -> int:
        """The number of rows of the result."""
        return shape_of(self.op.operation.results[0])[0]

    @property
    def columns(self) -> int:
        """The number of columns of the result."""
        return shape_of(self.op.operation.results[0])[1]

    @property
    def kind(self) -> object:
        """A key that is equal for products that can be merged.

        Such products multiply the same matrix, and the elementwise operations after them differ in
        weights only.
        """
        return "product", self.matrix, super().kind


def find_product(op: ir.OpView, weights: DerivedWeights) -> Product | None:
    """Return the product of a matrix and constant weights that an operation computes, or None.

    Return None if the operation is no matrix product of floats, if its right factor is no weight,
    if its left factor is a weight, or if its initial tensor is not zero.
    """
    if not is_generic(op) or not multiplies_and_adds(op):
        return None
    reading = Structured(op)
    if reading.parallel != [True, True, False] or len(reading.inputs) != 2:
        return None
    matrix, weight = reading.inputs
    if weight not in weights or matrix in weights or not starts_at_zero(reading):
        return None
    left, right, out = ([terms_of(expr) for expr in map_.results] for map_ in reading.maps)
    if left != [_ROWS, _INNER] or out != [_ROWS, _COLUMNS]:
        return None
    if right not in ([_COLUMNS, _INNER], [_INNER, _COLUMNS]):
        return None
    is_transposed = right == [_COLUMNS, _INNER]
    return Product(op, following_steps(op, weights), is_transposed)


def emit_product(matrix: ir.Value, weight: ir.Value, is_transposed: bool) -> ir.Value:
    """Emit a matrix times weights at the current insertion point, and return the result.

    Args:
        matrix: a tensor of shape [rows, inner dimension].
        weight: a tensor of shape [inner dimension, columns].
        is_transposed: whether the shape of ``weight`` is [columns, inner dimension] instead.
    """
    m, n, k = (ir.AffineDimExpr.get(dim) for dim in range(3))
    right = [n, k] if is_transposed else [k, n]
    maps = [ir.AffineMap.get(3, 0, dims) for dims in ([m, k], right, [m, n])]
    shape = [shape_of(matrix)[0], shape_of(weight)[0 if is_transposed else 1]]
    return sum_of_products([matrix, weight], maps, (True, True, False), shape)
