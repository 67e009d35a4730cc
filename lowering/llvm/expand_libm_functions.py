"""Expands libm functions on f32 into arithmetic: a GPU has no libm, and libm has no vectors.

On a CPU, only vectors are expanded, for which LLVM would call libm once per lane; scalars call
libm. On a GPU, functions that this file does not expand, and all functions on f64, are errors.

The stated errors are in units in the last place (ulp) against the exact value. Short polynomials in
f32 follow Cephes (Moshier, single precision); where f32 would lose digits, a few operations use
f64.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from rammer_mlir.bindings import arith, ir, scf, vector
from rammer_mlir.bindings import math as math_dialect
from rammer_mlir.lowering.ir_walk import walk
from rammer_mlir.lowering.llvm import hyperbolic_functions as hyperbolic
from rammer_mlir.lowering.llvm.floats import (
    Bits,
    Double,
    Float,
    Mask,
    constant_like,
    element_type,
    expand,
    shaped_like,
)
from rammer_mlir.lowering.llvm.large_angles import reduce_large_angle

_SIN = (-1.6666654611e-1, 8.3321608736e-3, -1.9515295891e-4)
_COS = (4.166664568298827e-2, -1.388731625493765e-3, 2.443315711809948e-5)
_ATAN = (-3.33329491539e-1, 1.99777106478e-1, -1.38776856032e-1, 8.05374449538e-2)
_ASIN = (1.6666752422e-1, 7.4953002686e-2, 4.5470025998e-2, 2.4181311049e-2, 4.2163199048e-2)
# pi / 2 as a sum; the first two terms have 25 bits, so that their products with n are exact.
_HALF_PI = (1.5707963109016418, 1.5893254712295857e-08, 6.123233995736766e-17)
_LN2 = math.log(2.0)
_ATANH = tuple(2.0 / _LN2 / (2 * n + 1) for n in range(8))
_EXP2 = tuple(_LN2**n / math.factorial(n) for n in range(12))
_LARGEST_ANGLE = 2.0**28
"""Largest argument that ``_reduce_small_angle`` reduces with the stated error."""

_SHIFTS = (250, 200, 150, 100, 50, 0)
"""Exponents of the powers of two that scale the divisor of a remainder, in order.

The largest ratio of two f32 is below 2**277.
"""


def _reduce(x: Float) -> tuple[Float, Bits]:
    """Emit r and an integer n with x = r + n * pi / 2; return r, and n modulo 4 in its last bits.

    Scalars of any size are accurate to the last place of f32, by a branch for those above
    ``_LARGEST_ANGLE``. Vectors are accurate up to ``_LARGEST_ANGLE``.
    """
    if isinstance(x.value.type, ir.VectorType):
        return _reduce_small_angle(x)
    size = x.absolute()
    # An infinity takes the short branch, which gives NaN.
    large = (size < math.inf).choose(size, x.constant(0.0)) > _LARGEST_ANGLE
    integer = ir.IntegerType.get_signless(32)
    choice = scf.IfOp(large.value, [x.value.type, integer], has_else=True)
    branches = (choice.then_block, reduce_large_angle), (choice.else_block, _reduce_small_angle)
    for block, reduce in branches:
        with ir.InsertionPoint(block):
            scf.YieldOp([part.value for part in reduce(x)])
    r, n = choice.results
    return Float(r), Bits(n)


def _reduce_small_angle(x: Float) -> tuple[Float, Bits]:
    """Emit r and an integer n with x = r + n * pi / 2; return r, and n modulo 2**32.

    The code computes in f64. The result is accurate to the last place of f32 for |x| <= 2**28; for
    larger |x|, r loses digits.
    """
    wide = Double.of(x)
    n = (wide * (2.0 / math.pi)).rounded()
    high, middle, low = _HALF_PI
    return (wide - n * high - n * middle - n * low).single(), n.low_bits()


def _sine_and_cosine(r: Float) -> tuple[Float, Float]:
    """Emit sin(r) and cos(r) for |r| <= pi / 4."""
    square = r * r
    sine = r * square * square.polynomial(_SIN) + r
    cosine = square * square * square.polynomial(_COS) - square * 0.5 + 1.0
    return sine, cosine


def _circular(x: Float, quarter: int) -> Float:
    """Emit sin(x + quarter * pi / 2): sin(x) if ``quarter`` is 0, cos(x) if it is 1."""
    r, n = _reduce(x)
    sine, cosine = _sine_and_cosine(r)
    quadrant = n + quarter
    value = (quadrant & 1).exceeds(0).choose(cosine, sine)
    return (quadrant & 2).exceeds(0).choose(-value, value)


def expand_sin(x: Float) -> Float:
    """Emit sin(x), with an error of 2 ulp; of vectors, for |x| <= 2**28."""
    return x.equals(0.0).choose(x, _circular(x, 0))


def expand_cos(x: Float) -> Float:
    """Emit cos(x), with an error of 2 ulp; of vectors, for |x| <= 2**28."""
    return _circular(x, 1)


def expand_tan(x: Float) -> Float:
    """Emit tan(x), with an error of 3.5 ulp; of vectors, for |x| <= 2**28."""
    r, n = _reduce(x)
    sine, cosine = _sine_and_cosine(r)
    odd = (n & 1).exceeds(0)
    ratio = odd.choose(-cosine, sine) / odd.choose(sine, cosine)
    return x.equals(0.0).choose(x, ratio)


def expand_atan(x: Float) -> Float:
    """Emit atan(x), with an error of 2.5 ulp."""
    size = x.absolute()
    large, medium = size > 2.414213562373095, size > 0.4142135623730950
    one = x.constant(1.0)
    numerator = large.choose(-one, medium.choose(size - 1.0, size))
    denominator = large.choose(size, medium.choose(size + 1.0, one))
    base = large.choose(
        x.constant(math.pi / 2), medium.choose(x.constant(math.pi / 4), x.constant(0.0))
    )
    r = numerator / denominator
    square = r * r
    result = base + (square * square.polynomial(_ATAN) * r + r)
    return _copy_sign(result, x)


def expand_atan2(y: Float, x: Float) -> Float:
    """Emit atan2(y, x), with an error of 3 ulp; equals C's atan2 for zeros and infinities."""
    both = x.absolute().equals(math.inf)
    ratio = y.absolute() / x.absolute()
    # inf / inf and 0 / 0 are NaN: the angle is that of (1, 1), and 0.
    diagonal = both.choose(y.absolute().equals(math.inf).choose(y.constant(1.0), ratio), ratio)
    zero = y.absolute() + x.absolute()
    angle = expand_atan(zero.equals(0.0).choose(y.constant(0.0), diagonal))
    left = _is_negative(x).choose(-angle + math.pi, angle)
    return _copy_sign(left, y)


def _is_negative(x: Float) -> Mask:
    """Emit the test whether the sign bit of x is set."""
    return ((x.bits() >> 31) & 1).exceeds(0)


def expand_asin(x: Float) -> Float:
    """Emit asin(x), with an error of 2 ulp; NaN for |x| > 1."""
    size = x.absolute()
    large = size > 0.5
    square = large.choose((-size + 1.0) * 0.5, size * size)
    root = large.choose(Float(math_dialect.sqrt(square.value)), size)
    small = square * square.polynomial(_ASIN) * root + root
    return _copy_sign(large.choose(-(small + small) + math.pi / 2, small), x)


def expand_acos(x: Float) -> Float:
    """Emit acos(x), with an error of 2 ulp; NaN for |x| > 1."""
    size = x.absolute()
    large = size > 0.5
    root = Float(math_dialect.sqrt(((-size + 1.0) * 0.5).value))
    near_one = expand_asin(root) * 2.0
    far = _is_negative(x).choose(-near_one + math.pi, near_one)
    return large.choose(far, -expand_asin(x) + math.pi / 2)


def _log2(x: Float) -> Double:
    """Emit log2(x) in f64 for a finite x > 0, with an error of about 1e-12."""
    tiny = x < 1.17549435e-38
    bits = tiny.choose(x * 8388608.0, x).bits() - 0x3F3504F3
    mantissa = ((bits & 0x7FFFFF) + 0x3F3504F3).as_float()
    exponent = (bits >> 23).to_float()
    exponent = tiny.choose(exponent - 23.0, exponent)
    wide = Double.of(mantissa)
    s = (wide - 1.0) / (wide + 1.0)
    return s * (s * s).polynomial(_ATANH) + Double.of(exponent)


def _exp2(t: Double) -> Float:
    """Emit 2**t for a finite f64 t, rounded to f32: infinity or 0 beyond the range of f32."""
    low = arith.maximumf(t.value, t.constant(-200.0).value)
    limited = Double(arith.minimumf(low, t.constant(200.0).value))
    n = limited.rounded()
    integer = ir.IntegerType.get_signless(64)
    exponent = arith.extsi(shaped_like(t.value.type, integer), n.low_bits().value)
    biased = arith.addi(exponent, constant_like(exponent.type, integer, 1023))
    scale = arith.shli(biased, constant_like(exponent.type, integer, 52))
    power = Double(arith.bitcast(t.value.type, scale))
    return ((limited - n).polynomial(_EXP2) * power).single()


def expand_powf(x: Float, y: Float) -> Float:
    """Emit x**y, with an error of 1 ulp, by logarithm and exponential in f64.

    For zeros, infinities, NaN and negative x, the result is that of C's pow.
    """
    size = x.absolute()
    finite = (size < math.inf).choose(size, x.constant(1.0))
    power = _exp2(_log2((finite > 0.0).choose(finite, x.constant(1.0))) * Double.of(y))
    # The logarithm of 1, times an infinite y, is NaN.
    power = size.equals(1.0).choose(size, power)
    # A power of zero or infinity is 0 or infinity, depending on the sign of y.
    nothing, everything = x.constant(0.0), x.constant(math.inf)
    power = size.equals(0.0).choose((y > 0.0).choose(nothing, everything), power)
    power = size.equals(math.inf).choose((y > 0.0).choose(everything, nothing), power)
    whole, half = _truncated(y).equals(y), y * 0.5
    odd = _truncated(half).equals(half).choose(power, -power)
    defined = size.equals(0.0).choose(
        power, size.equals(math.inf).choose(power, x.constant(math.nan))
    )
    negative = whole.choose(odd, defined)
    result = _is_negative(x).choose(negative, power)
    result = x.equals(x).choose(y.equals(y).choose(result, y), x)
    return y.equals(0.0).choose(x.constant(1.0), x.equals(1.0).choose(x, result))


def expand_remf(x: Float, y: Float) -> Float:
    """Emit C's fmod(x, y), exactly; the result has the sign of x.

    The result is NaN for infinite x or zero y.

    The code subtracts multiples of y * 2**k from the dividend for decreasing k, each by an fma in
    f64. No quotient exceeds 2**53, and every remainder has 24 significant bits, as x and y have. So
    only the quotient is rounded; a quotient that is 1 too large is corrected.
    """
    divisor = Double.of(y.absolute())
    rest = Double.of(x.absolute())
    for shift in _SHIFTS:
        step = divisor * 2.0**shift
        quotient = Double(math_dialect.trunc((rest / step).value))
        left = Double(math_dialect.fma(arith.negf(quotient.value), step.value, rest.value))
        negative = arith.cmpf(arith.CmpFPredicate.OLT, left.value, left.constant(0.0).value)
        left = Double(arith.select(negative, (left + step).value, left.value))
        # A step that is infinite or larger than the rest subtracts nothing.
        fits = arith.cmpf(arith.CmpFPredicate.OGE, rest.value, step.value)
        rest = Double(arith.select(fits, left.value, rest.value))
    undefined = (
        x.absolute()
        .equals(math.inf)
        .choose(x.constant(math.nan), y.equals(0.0).choose(x.constant(math.nan), rest.single()))
    )
    result = x.equals(x).choose(y.equals(y).choose(undefined, y), x)
    return _copy_sign(result, x)


def _truncated(x: Float) -> Float:
    return Float(math_dialect.trunc(x.value))


def _copy_sign(magnitude: Float, sign: Float) -> Float:
    return ((magnitude.bits() & 0x7FFFFFFF) | (sign.bits() & -0x80000000)).as_float()


EXPANSIONS: dict[str, Callable[..., Float]] = {
    "math.sin": expand_sin,
    "math.cos": expand_cos,
    "math.tan": expand_tan,
    "math.sinh": hyperbolic.expand_sinh,
    "math.cosh": hyperbolic.expand_cosh,
    "math.asinh": hyperbolic.expand_asinh,
    "math.acosh": hyperbolic.expand_acosh,
    "math.atanh": hyperbolic.expand_atanh,
    "math.atan": expand_atan,
    "math.atan2": expand_atan2,
    "math.asin": expand_asin,
    "math.acos": expand_acos,
    "math.powf": expand_powf,
    "arith.remf": expand_remf,
}


_EXPANDED = (ir.F32Type, ir.F16Type, ir.BF16Type)


def _is_accurate_angle(x: Float) -> Mask:
    return x.absolute() < _LARGEST_ANGLE


_ON_VECTORS: dict[str, Callable[..., Mask] | None] = {
    "math.sin": _is_accurate_angle,
    "math.cos": _is_accurate_angle,
    "math.atan": None,
    "math.atan2": None,
    "math.asin": None,
    "math.acos": None,
    "math.powf": None,
}
"""Functions that are expanded on vectors, with the condition on the operands, if there is one.

Vectors with a lane that does not meet the condition take the results of libm. A remainder by
repeated subtraction is not faster than libm's.
"""


def expand_libm_functions(module: ir.Module) -> None:
    """Replace the functions of ``EXPANSIONS`` by arithmetic, for a GPU.

    Operations on scalars of f32, f16 or bf16 are replaced.
    """
    for operation in walk(module.operation):
        expansion = EXPANSIONS.get(operation.name)
        if expansion is not None and isinstance(operation.results[0].type, _EXPANDED):
            expand(operation, expansion)


def expand_on_vectors(module: ir.Module) -> None:
    """Replace the functions of ``_ON_VECTORS`` on vectors of f32 by arithmetic.

    The same functions on scalars remain calls of libm.
    """
    for operation in walk(module.operation):
        if operation.name not in _ON_VECTORS:
            continue
        kind = operation.results[0].type
        if isinstance(kind, ir.VectorType) and isinstance(element_type(kind), ir.F32Type):
            condition = _ON_VECTORS[operation.name]
            if condition is not None:
                operation = _guarded(operation, condition)
            expand(operation, EXPANSIONS[operation.name])


def _guarded(operation: ir.Operation, condition: Callable[..., Mask]) -> ir.Operation:
    """Emit a branch on whether all lanes meet ``condition``; return a copy of ``operation``.

    ``condition`` takes the operands of ``operation``, and emits a mask with a bit per lane. The
    copy is executed if all bits are set, otherwise ``operation`` itself. The caller expands the
    copy.
    """
    kind = operation.results[0].type
    with ir.InsertionPoint(operation), operation.location:
        mask = condition(*map(Float, operation.operands)).value
        boolean = ir.IntegerType.get_signless(1)
        every = vector.reduction(boolean, vector.CombiningKind.AND, mask)
        choice = scf.IfOp(every, [kind], has_else=True)
    operation.results[0].replace_all_uses_with(choice.results[0])
    copy = operation.clone(ir.InsertionPoint(choice.then_block)).operation
    with operation.location:
        with ir.InsertionPoint(choice.then_block):
            scf.YieldOp(copy.results)
        operation.detach_from_parent()
        with ir.InsertionPoint(choice.else_block) as point:
            point.insert(operation)
            scf.YieldOp(operation.results)
    return copy
