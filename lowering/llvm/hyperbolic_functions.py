"""Expands hyperbolic functions and their inverses on f32 into arithmetic, for a GPU.

Each function is computed from the absolute value of its argument, by expm1 or log1p, so that small
arguments lose no digits. The stated errors are in units in the last place (ulp) against the exact
value. NaN, infinities, signed zeros and denormal numbers give the results of C's functions.
"""

from __future__ import annotations

import math

from rammer_mlir.bindings import math as math_dialect
from rammer_mlir.lowering.llvm.expand_exponentials import expand_log1p, scaled_expm1, with_sign
from rammer_mlir.lowering.llvm.floats import Float

_OVERFLOWING = 89.5
"""An argument for which sinh and cosh exceed the largest f32."""

_SMALL = 2.0**-12
"""Below this bound, sinh(x) rounds to x."""

_LARGE = 2.0**30
"""Above this bound, asinh(x) and acosh(x) round to log(2 x), and log1p(x) to log(x)."""


def _quarter_expm1(size: Float) -> Float:
    """Emit (exp(size) - 1) / 4, where ``size`` is at least 0 and limited to ``_OVERFLOWING``.

    A quarter is finite where sinh and cosh are finite.
    """
    return scaled_expm1(size.at_most(_OVERFLOWING), 2)


def expand_sinh(x: Float) -> Float:
    """Emit sinh(x), with an error of 2 ulp."""
    size = x.absolute()
    quarter = _quarter_expm1(size)
    result = (quarter + quarter / (quarter * 4.0 + 1.0)) * 2.0
    return with_sign((size < _SMALL).choose(size, result), x)


def expand_cosh(x: Float) -> Float:
    """Emit cosh(x), with an error of 2 ulp."""
    quarter = _quarter_expm1(x.absolute()) + 0.25
    return (quarter + x.constant(0.0625) / quarter) * 2.0


def expand_asinh(x: Float) -> Float:
    """Emit asinh(x) as log1p(a + a**2 / (1 + sqrt(a**2 + 1))) for a = |x|, within 2.5 ulp."""
    size = x.absolute()
    square = size * size
    excess = size + square / (_root(square + 1.0) + 1.0)
    return with_sign(_log1p_or_log_of_double(size, excess), x)


def expand_acosh(x: Float) -> Float:
    """Emit acosh(x) as log1p(t + sqrt(t (t + 2))) for t = x - 1, within 2.5 ulp; NaN for x < 1."""
    t = x - 1.0
    result = _log1p_or_log_of_double(x, t + _root(t * (t + 2.0)))
    return (x < 1.0).choose(x.constant(math.nan), result)


def expand_atanh(x: Float) -> Float:
    """Emit atanh(x) as log1p(2 a / (1 - a)) / 2 for a = |x|, within 2.5 ulp; NaN for |x| > 1."""
    size = x.absolute()
    return with_sign(expand_log1p((size + size) / (-size + 1.0)) * 0.5, x)


def _log1p_or_log_of_double(size: Float, excess: Float) -> Float:
    """Emit log(2 ``size``) where ``size`` exceeds ``_LARGE``, and log(1 + ``excess``) elsewhere."""
    large = size > _LARGE
    result = expand_log1p(large.choose(size, excess))
    return large.choose(result + math.log(2.0), result)


def _root(x: Float) -> Float:
    return Float(math_dialect.sqrt(x.value))
