"""Emits affine expressions over indices, on scalars or vectors of type ``index``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from rammer_mlir.bindings import arith, ir, vector
from rammer_mlir.lowering.ir_walk import constant_integer, producer

Index: TypeAlias = "int | ir.Value"
"""An index: a Python int if static, else an ``index`` value (or a vector of them)."""


def constant(value: int) -> ir.Value:
    """Emit a constant of type ``index`` and return it."""
    return arith.constant(ir.IndexType.get(), value)


def as_value(index: Index) -> ir.Value:
    """Return ``index`` if it is a value, else emit it as a constant."""
    return constant(index) if isinstance(index, int) else index


def _same_shape(left: Index, right: Index) -> tuple[ir.Value, ir.Value]:
    """Return both indices as values of one type; emit constants for ints, broadcasts to vectors."""
    values = [as_value(left), as_value(right)]
    shaped = [value.type for value in values if isinstance(value.type, ir.VectorType)]
    if shaped:
        values = [v if v.type == shaped[0] else vector.broadcast(shaped[0], v) for v in values]
    return values[0], values[1]


def add(left: Index, right: Index) -> Index:
    """Return the sum of two indices: an int if both are ints, else an emitted value."""
    if isinstance(left, int) and isinstance(right, int):
        return left + right
    if isinstance(left, int) and left == 0:
        return right
    if isinstance(right, int) and right == 0:
        return left
    return arith.addi(*_same_shape(left, right))


def multiply(left: Index, right: Index) -> Index:
    """Return the product of two indices: an int if both are ints, else an emitted value."""
    if isinstance(left, int) and isinstance(right, int):
        return left * right
    for factor, other in ((left, right), (right, left)):
        if isinstance(factor, int) and factor in (0, 1):
            return other if factor else 0
    return arith.muli(*_same_shape(left, right))


def floor_divide(left: Index, right: Index) -> Index:
    """Return the quotient of two indices, rounded towards minus infinity.

    The quotient is an int if both indices are ints, else an emitted value.
    """
    if isinstance(left, int) and isinstance(right, int):
        return left // right
    return arith.floordivsi(*_same_shape(left, right))


def ceil_divide(left: Index, right: Index) -> Index:
    """Return the quotient of two indices, rounded towards plus infinity.

    The code computes ``-((-left) floordiv right)``.
    """
    return multiply(floor_divide(multiply(left, -1), right), -1)


def modulo(left: Index, right: Index) -> Index:
    """Return ``left mod right``: an int if both are ints, else an emitted value.

    For a positive ``right``, the result is never negative.
    """
    if isinstance(left, int) and isinstance(right, int):
        return left % right
    return add(left, multiply(multiply(floor_divide(left, right), right), -1))


_OPERATIONS: Sequence[tuple[type[ir.AffineBinaryExpr], Callable[[Index, Index], Index]]] = (
    (ir.AffineAddExpr, add),
    (ir.AffineMulExpr, multiply),
    (ir.AffineModExpr, modulo),
    (ir.AffineFloorDivExpr, floor_divide),
    (ir.AffineCeilDivExpr, ceil_divide),
)


def evaluate(expression: ir.AffineExpr, dims: Sequence[Index | None]) -> Index:
    """Return the value of an affine expression at the indices ``dims``: an int or an emitted value.

    ``dims`` has the index for each dimension: an int, an ``index`` value or a vector of ``index``;
    None for a dimension that does not occur in the expression.
    """
    if isinstance(expression, ir.AffineConstantExpr):
        return expression.value
    if isinstance(expression, ir.AffineDimExpr):
        index = dims[expression.position]
        assert index is not None, "the point has an index of every loop that the map uses"
        return index
    for kind, operation in _OPERATIONS:
        if isinstance(expression, kind):
            return operation(evaluate(expression.lhs, dims), evaluate(expression.rhs, dims))
    raise AssertionError(f"an indexing map has no symbols: {expression}")


def upper_bound(value: ir.Value) -> int | None:
    """Return a static upper bound of an ``index`` value, or None if no bound is found.

    Bounds are found for constants, for an ``affine.min`` with a constant among its results, and for
    an ``arith.minsi`` or ``arith.minui`` with a bounded operand.
    """
    known = constant_integer(value)
    if known is not None:
        return known
    owner, name = value.owner, producer(value)
    if isinstance(owner, ir.Block):
        return None
    if name == "affine.min":
        results = ir.AffineMapAttr(owner.attributes["map"]).value.results
        bounds = [r.value for r in results if isinstance(r, ir.AffineConstantExpr)]
        return min(bounds) if bounds else None
    if name in ("arith.minsi", "arith.minui"):
        bounds = [b for b in map(upper_bound, owner.operands) if b is not None]
        return min(bounds) if bounds else None
    return None
