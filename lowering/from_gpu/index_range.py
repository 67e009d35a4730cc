"""Does interval arithmetic on index values: a range is an interval plus a linear form in block ids.

Thread ids and loop counters become intervals; block ids stay symbolic. The elements that a block
accesses are thus known as a function of the block's ids, as dependency analysis requires.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rammer_mlir.bindings import ir

Dim3 = tuple[int, int, int]
"""Numbers for the dimensions x, y and z."""

NO_FACTORS: Dim3 = (0, 0, 0)


@dataclass(frozen=True)
class Range:
    """A range of integers that may shift linearly with the block ids.

    It contains the integers from ``low`` to ``high`` inclusive, all increased by the sum of
    ``factors[d] * block_id[d]`` over the dimensions x, y and z.
    """

    low: int
    high: int
    factors: Dim3 = NO_FACTORS

    @property
    def constant(self) -> int | None:
        """The only integer of the range; None if it has several integers or varies by block."""
        return self.low if self.low == self.high and self.factors == NO_FACTORS else None

    def bounds(self, grid: Dim3) -> tuple[int, int]:
        """Return the least and the greatest integer over all blocks of a grid."""
        ends = [factor * (size - 1) for factor, size in zip(self.factors, grid, strict=True)]
        return self.low + sum(min(0, e) for e in ends), self.high + sum(max(0, e) for e in ends)

    def scaled(self, factor: int) -> Range:
        """Return the range multiplied by a constant."""
        low, high = sorted((self.low * factor, self.high * factor))
        x, y, z = self.factors
        return Range(low, high, (x * factor, y * factor, z * factor))

    def __add__(self, other: Range) -> Range:
        """Return a range that contains ``x + y`` for ``x`` in this range and ``y`` in ``other``."""
        (a, b, c), (x, y, z) = self.factors, other.factors
        return Range(self.low + other.low, self.high + other.high, (a + x, b + y, c + z))

    def __sub__(self, other: Range) -> Range:
        """Return a range that contains ``x - y`` for ``x`` in this range and ``y`` in ``other``."""
        return self + other.scaled(-1)


def exactly(value: int) -> Range:
    """Return the range that contains only ``value``."""
    return Range(value, value)


@dataclass(frozen=True)
class Arithmetic:
    """Operations on ranges of index values; None stands for an unknown range.

    ``grid`` is the number of blocks along x, y and z.
    """

    grid: Dim3

    def absolute(self, a: Range) -> Range:
        """Return the interval, without factors of block ids, that contains ``a`` in all blocks."""
        return Range(*a.bounds(self.grid))

    def _with_factors(self, a: Range, base: Dim3) -> Range:
        """Return a range that contains ``a`` in all blocks and whose ``factors`` are ``base``.

        Two ranges with the same factors of the block ids can be compared by ``low`` and ``high``.
        """
        low, high = (a - Range(0, 0, base)).bounds(self.grid)
        return Range(low, high, base)

    def hull(self, a: Range, b: Range) -> Range:
        """Return a range that contains all integers of ``a`` and all integers of ``b``."""
        return self._narrowest(a, b, lambda x, y: (min(x.low, y.low), max(x.high, y.high)))

    def minimum(self, a: Range, b: Range) -> Range:
        """Return a range that contains ``min(x, y)`` for all ``x`` in ``a`` and ``y`` in ``b``."""
        return self._narrowest(a, b, lambda x, y: (min(x.low, y.low), min(x.high, y.high)))

    def maximum(self, a: Range, b: Range) -> Range:
        """Return a range that contains ``max(x, y)`` for all ``x`` in ``a`` and ``y`` in ``b``."""
        return self._narrowest(a, b, lambda x, y: (max(x.low, y.low), max(x.high, y.high)))

    def _narrowest(
        self, a: Range, b: Range, ends: Callable[[Range, Range], tuple[int, int]]
    ) -> Range:
        bases = dict.fromkeys((a.factors, b.factors))
        found = [
            Range(*ends(self._with_factors(a, base), self._with_factors(b, base)), base)
            for base in bases
        ]  # fmt: skip
        return min(found, key=lambda r: r.high - r.low)

    def product(self, a: Range, b: Range) -> Range:
        """Return a range that contains ``x * y`` for all ``x`` in ``a`` and ``y`` in ``b``."""
        for one, other in ((a, b), (b, a)):
            if one.constant is not None:
                return other.scaled(one.constant)
        first, second = a.bounds(self.grid), b.bounds(self.grid)
        corners = [x * y for x in first for y in second]
        return Range(min(corners), max(corners))

    def quotient(self, a: Range, b: Range) -> Range | None:
        """Return a range that contains ``x // y`` for all ``x`` in ``a`` and ``y`` in ``b``.

        The result is None, an unknown range, unless ``b`` is a positive constant.
        """
        divisor = b.constant
        if divisor is None or divisor <= 0:
            return None
        # A fractional step per block has no factor: use the interval over all blocks instead.
        if any(factor % divisor for factor in a.factors):
            a = self.absolute(a)
        x, y, z = (factor // divisor for factor in a.factors)
        return Range(a.low // divisor, a.high // divisor, (x, y, z))

    def remainder(self, a: Range, b: Range) -> Range | None:
        """Return a range that contains ``x % y`` for all ``x`` in ``a`` and ``y`` in ``b``.

        A remainder is never negative. The result is None, an unknown range, unless ``b`` is a
        positive constant.
        """
        quotient, divisor = self.quotient(a, b), b.constant
        if quotient is None or divisor is None:
            return None
        if quotient.low != quotient.high:
            return Range(0, divisor - 1)
        return a - quotient.scaled(divisor)

    def is_negative(self, a: Range) -> bool:
        """Return whether a range contains a negative integer in any block of the grid."""
        return a.bounds(self.grid)[0] < 0

    def affine(
        self,
        expression: ir.AffineExpr,
        dims: Sequence[Range | None],
        symbols: Sequence[Range | None],
    ) -> Range | None:
        """Return the range of an affine expression; None if it is unknown.

        ``dims`` and ``symbols`` have the ranges of the expression's operands, None if unknown.
        """
        if isinstance(expression, ir.AffineConstantExpr):
            return exactly(expression.value)
        if isinstance(expression, ir.AffineDimExpr):
            return dims[expression.position]
        if isinstance(expression, ir.AffineSymbolExpr):
            return symbols[expression.position]
        assert isinstance(expression, ir.AffineBinaryExpr)
        left = self.affine(expression.lhs, dims, symbols)
        right = self.affine(expression.rhs, dims, symbols)
        if left is None or right is None:
            return None
        if isinstance(expression, ir.AffineAddExpr):
            return left + right
        if isinstance(expression, ir.AffineMulExpr):
            return self.product(left, right)
        if isinstance(expression, ir.AffineModExpr):
            return self.remainder(left, right)
        if isinstance(expression, ir.AffineFloorDivExpr):
            return self.quotient(left, right)
        negative = self.quotient(left.scaled(-1), right)
        return None if negative is None else negative.scaled(-1)
