"""Expands square roots and logarithms of complex numbers without overflow of intermediates.

Where a square could overflow or underflow, the formulas first divide the real and the imaginary
part by the larger absolute value of the two. MLIR's lowering computes the square root from the
angle: the root of a negative number then has a real part that is not 0. Infinities and zeros give
the results of C's ``csqrt`` and ``clog`` (C11, annex G).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

from rammer_mlir.bindings import arith, ir, math
from rammer_mlir.passes.ir.traversal import operations_named, replace
from rammer_mlir.passes.legalization.stored_types import storage_of


def expand_complex_functions(module: ir.Module) -> None:
    """Replace square roots and logarithms of complex scalars by arithmetic on their parts.

    The parts are the real and the imaginary part. Inverse square roots are replaced, too.
    """
    for name, emit in _EXPANSIONS.items():
        for op in operations_named(module.operation, name):
            storage = storage_of(op.operands[0].type)
            if storage is None:
                continue
            with ir.InsertionPoint(op), op.location:
                real, imaginary = storage.store(op.operands[0])
                replace(op, [storage.load(emit(_Number.of(real, imaginary)))])


@dataclass(frozen=True)
class _Number:
    """A complex number x + yi, and values that several functions need.

    Attributes:
        x, y: the real and the imaginary part.
        large, small: the larger and the smaller one of |x| and |y|.
        ratio: ``small`` divided by ``large``; 0 for the number 0.
        is_zero, is_infinite: whether the number is 0; whether a part is infinite.
    """

    x: ir.Value
    y: ir.Value
    large: ir.Value
    small: ir.Value
    ratio: ir.Value
    is_zero: ir.Value
    is_infinite: ir.Value

    @classmethod
    def of(cls, x: ir.Value, y: ir.Value) -> _Number:
        size_x, size_y = math.absf(x), math.absf(y)
        zero, infinity = _constant(x, 0.0), _constant(x, inf)
        large, small = arith.maximumf(size_x, size_y), arith.minimumf(size_x, size_y)
        is_zero = _equal(large, zero)
        ratio = arith.select(is_zero, zero, arith.divf(small, large))
        is_infinite = arith.ori(_equal(size_x, infinity), _equal(size_y, infinity))
        return cls(x, y, large, small, ratio, is_zero, is_infinite)

    @property
    def length(self) -> ir.Value:
        """Emit |x + yi| divided by ``large``, the larger one of |x| and |y|.

        The quotient is between 1 and sqrt(2).
        """
        return math.sqrt(arith.addf(_constant(self.x, 1.0), arith.mulf(self.ratio, self.ratio)))


def _root(z: _Number) -> tuple[ir.Value, ir.Value]:
    """Emit the real and the imaginary part of sqrt(z), the root whose real part is at least 0."""
    x, y = z.x, z.y
    zero, half, infinity = _constant(x, 0.0), _constant(x, 0.5), _constant(x, inf)
    root = arith.select(z.is_zero, zero, arith.select(z.is_infinite, infinity, _larger_root(z)))
    other = arith.mulf(half, arith.divf(math.absf(y), root))
    is_left = arith.cmpf(arith.CmpFPredicate.OLT, x, zero)
    real = arith.select(is_left, other, root)
    imaginary = math.copysign(arith.select(is_left, root, other), y)
    # An infinite imaginary part determines the result, whatever the real part is.
    is_vertical = _equal(math.absf(y), infinity)
    real = arith.select(is_vertical, infinity, real)
    imaginary = arith.select(arith.ori(is_vertical, z.is_zero), y, imaginary)
    return real, imaginary


def _larger_root(z: _Number) -> ir.Value:
    """Emit sqrt((|x| + |z|) / 2): of the two parts of sqrt(z), the larger absolute value.

    ``x`` is the real part of ``z``. The result is valid only if ``z`` is finite and not 0.
    """
    # A factor of sqrt(large) is taken out, so that nothing overflows.
    share = arith.divf(math.absf(z.x), z.large)
    factor = math.sqrt(arith.mulf(_constant(z.x, 0.5), arith.addf(share, z.length)))
    return arith.mulf(math.sqrt(z.large), factor)


def _inverse_root(z: _Number) -> tuple[ir.Value, ir.Value]:
    """Emit the real and the imaginary part of 1 / sqrt(z), computed as conj(sqrt(z)) / |z|."""
    zero = _constant(z.x, 0.0)
    real, imaginary = _root(z)

    def divided(part: ir.Value) -> ir.Value:
        finite = arith.divf(arith.divf(part, z.large), z.length)
        return arith.select(z.is_infinite, math.copysign(zero, part), finite)

    infinity = _constant(z.x, inf)
    return arith.select(z.is_zero, infinity, divided(real)), divided(arith.negf(imaginary))


def _logarithm(z: _Number) -> tuple[ir.Value, ir.Value]:
    """Emit the real and the imaginary part of log(z): log(|z|), and the angle from -pi to pi."""
    one, half = _constant(z.x, 1.0), _constant(z.x, 0.5)
    of_ratio = math.log1p(arith.mulf(z.ratio, z.ratio))
    far = arith.addf(math.log(z.large), arith.mulf(half, of_ratio))
    # Near 1, the two terms of that sum would cancel: log1p(|z|^2 - 1) / 2, with exact squares.
    (square, error), (other, other_error) = _square(z.large), _square(z.small)
    excess = arith.addf(arith.addf(arith.subf(square, one), other), arith.addf(error, other_error))
    near = arith.mulf(half, math.log1p(excess))
    above = arith.cmpf(arith.CmpFPredicate.OGT, z.large, half)
    below = arith.cmpf(arith.CmpFPredicate.OLT, z.large, _constant(z.x, 2.0))
    finite = arith.select(arith.andi(above, below), near, far)
    return arith.select(z.is_infinite, _constant(z.x, inf), finite), math.atan2(z.y, z.x)


_EXPANSIONS: dict[str, Callable[[_Number], tuple[ir.Value, ir.Value]]] = {
    "complex.sqrt": _root,
    "complex.rsqrt": _inverse_root,
    "complex.log": _logarithm,
}


def _square(value: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Emit the rounded square of ``value``, and its rounding error."""
    square = arith.mulf(value, value)
    return square, math.fma(value, value, arith.negf(square))


def _constant(like: ir.Value, number: float) -> ir.Value:
    return arith.ConstantOp(like.type, ir.FloatAttr.get(like.type, number)).result


def _equal(left: ir.Value, right: ir.Value) -> ir.Value:
    return arith.cmpf(arith.CmpFPredicate.OEQ, left, right)
