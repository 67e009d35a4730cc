"""Expands exponentials, logarithms, tanh and erf on f32 into arithmetic, keeping vectors.

LLVM would call libm once per lane for these functions. The expansions are valid for all inputs,
including infinities, NaN and denormals. The stated errors are in units in the last place (ulp)
against the exact value, on a machine with fused multiply-add. Polynomials are the project's own
weighted minimax fits (Lawson's iteration on Chebyshev nodes); range reduction follows Cody and
Waite, "Software Manual for the Elementary Functions", 1980.

On f64, expm1 and log1p are computed from libm's exp and log; all other functions go to libm.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from rammer_mlir.bindings import arith, ir
from rammer_mlir.bindings import math as math_dialect
from rammer_mlir.lowering.ir_walk import walk
from rammer_mlir.lowering.llvm.floats import Bits, Double, Float, element_type, expand

_LOG2_E = math.log2(math.e)
_LN2_HIGH = 0.693145751953125  # the leading 15 bits, so that n * _LN2_HIGH is exact
_LN2_LOW = 1.42860682030941723212e-6
_ROUND = 12582912.0  # 1.5 * 2**23: adding it rounds to an integer, left in the low bits
_SQRT_HALF_BITS = 0x3F3504F3
_SMALLEST_NORMAL = 1.17549435e-38

# exp(r) on |r| <= ln(2) / 2
_EXP = (1.0, 1.0, 0.5, 0.16666534543037415, 0.04166724160313606, 0.008367435075342655,
        0.0013863430358469486)  # fmt: skip
# (exp(r) - 1 - r) / r**2 on |r| <= ln(2) / 2, with less error near 0
_EXPM1 = (0.5, 0.1666666567325592, 0.041666336357593536, 0.008333394303917885,
          0.0013942698715254664, 0.0001984603877644986)  # fmt: skip
# (log(1 + f) - f + f**2 / 2) / f**3 on sqrt(1/2) - 1 <= f <= sqrt(2) - 1
_LOG = (0.3333331346511841, -0.25000008940696716, 0.2000211924314499, -0.16667994856834412,
        0.1421954333782196, -0.12405597418546677, 0.11888232082128525, -0.11675623059272766,
        0.06746454536914825)  # fmt: skip
# erf(x) / x - 1 as a polynomial of x**2 on |x| <= 1
_ERF_SMALL = (0.12837916612625122, -0.3761262595653534, 0.1128358542919159,
              -0.026853810995817184, 0.005188327748328447, -0.0008010193123482168,
              7.853859278839082e-05)  # fmt: skip
# log2(1 - erf(x)) on 1 <= x <= 4, weighted by its effect on erf
_ERF_LARGE = (-0.0004927132977172732, -1.6260459423065186, -0.9206483960151672,
              -0.14875160157680511, 0.03150566667318344, -0.004252572078257799,
              0.00026888836873695254)  # fmt: skip
# 2**r on |r| <= 1/2, as accurate as 1 - erf(x) has to be
_EXP2 = (1.0000001192092896, 0.6931469440460205, 0.24022120237350464, 0.05550713092088699,
         0.009675540961325169, 0.001327647129073739)  # fmt: skip


def expand_exponentials(module: ir.Module) -> None:
    """Replace the functions of ``EXPANSIONS``, on f32 and vectors of f32, by arithmetic, in place.

    On f64, expm1 and log1p become arithmetic on exp and log. ``math.isinf``, which has no
    counterpart in LLVM, becomes a comparison for every type.
    """
    for operation in walk(module.operation):
        if operation.name in ("math.isinf", "math.isnan"):
            _expand_test(operation)
            continue
        if operation.name in _DOUBLE_EXPANSIONS and _has_element(operation, ir.F64Type):
            _expand_double(operation)
            continue
        expansion = EXPANSIONS.get(operation.name)
        if operation.name == "math.exp" and _is_approximate(operation):
            expansion = expand_exp_to_normal_numbers
        if expansion is not None and _has_element(operation, ir.F32Type):
            expand(operation, expansion)


def _expand_test(operation: ir.Operation) -> None:
    """Replace a test for infinity or NaN by a comparison."""
    kind = operation.operands[0].type
    infinity: ir.Attribute = ir.FloatAttr.get(element_type(kind), math.inf)
    if isinstance(kind, ir.VectorType):
        infinity = ir.DenseElementsAttr.get_splat(kind, infinity)
    with ir.InsertionPoint(operation), operation.location:
        if operation.name == "math.isnan":
            result = arith.cmpf(arith.CmpFPredicate.UNO, *operation.operands, *operation.operands)
        else:
            size = math_dialect.absf(operation.operands[0])
            limit = arith.constant(kind, infinity)
            result = arith.cmpf(arith.CmpFPredicate.OEQ, size, limit)
    operation.result.replace_all_uses_with(result)
    operation.erase()


def _is_approximate(operation: ir.Operation) -> bool:
    """Return whether the operation has the fast-math flag ``afn``, which is part of ``fast``."""
    given = operation.attributes.get("fastmath")
    return given is not None and bool({"afn", "fast"} & set(re.findall(r"\w+", str(given))))


def _has_element(operation: ir.Operation, kind: type[ir.Type]) -> bool:
    return isinstance(element_type(operation.result.type), kind)


def _round(x: Float, bias: int) -> tuple[Float, Bits]:
    """Emit the integer n nearest to x; return n as a float and ``n + bias`` as bits.

    The lowest 9 bits of the second result are those of ``n + bias``; higher bits are meaningless.
    The code requires |x| < 2**21. It adds a large constant to x instead of converting x to an
    integer, which would be undefined for a NaN.
    """
    shifted = x + (_ROUND + bias)
    return shifted - (_ROUND + bias), shifted.bits()


def _power_of_two(biased: Bits) -> Float:
    """Emit 2**(m - 127), where m is the lowest 9 bits of ``biased``; requires 0 <= m < 255.

    For m = 0 the result is 0.
    """
    return (biased << 23).as_float()


def _scale(x: Float, biased: Bits) -> Float:
    """Emit x * 2**(m - 254), where m is the lowest 9 bits of ``biased``.

    The code multiplies by two powers of two, each of which an f32 can represent.
    """
    half = biased >> 1
    return x * _power_of_two(half) * _power_of_two(biased - half)


def _reduce_by_ln2(x: Float, bias: int) -> tuple[Float, Bits]:
    """Emit r and an integer n with x = r + n * ln(2) and |r| <= ln(2) / 2.

    The first result is r; the second result has ``n + bias`` in its lowest 9 bits.
    """
    n, biased = _round(x * _LOG2_E, bias)
    return x - n * _LN2_HIGH - n * _LN2_LOW, biased


def expand_exp(x: Float) -> Float:
    """Emit exp(x), with an error of 1 ulp."""
    r, biased = _reduce_by_ln2(x.clamp(-104.0, 89.0), 254)
    return _scale(r.polynomial(_EXP), biased)


def expand_exp_to_normal_numbers(x: Float) -> Float:
    """Emit exp(x), with an error of 1 ulp for x >= -86.9, and 0 for smaller x.

    Since no result is denormal, one multiplication by a power of two replaces the two of
    ``expand_exp``.
    """
    # Half of the scale, since 2**128 would overflow where the result does not.
    r, biased = _reduce_by_ln2(x.clamp(-87.3, 89.0), 126)
    return r.polynomial([2.0 * c for c in _EXP]) * _power_of_two(biased)


def expand_exp2(x: Float) -> Float:
    """Emit 2**x, with an error of 1 ulp."""
    limited = x.clamp(-151.0, 129.0)
    n, biased = _round(limited, 254)
    r = (limited - n) * math.log(2.0)
    return _scale(r.polynomial(_EXP), biased)


def expand_expm1(x: Float) -> Float:
    """Emit exp(x) - 1, with an error of 2 ulp."""
    return x.equals(0.0).choose(x, scaled_expm1(x.clamp(-18.0, 89.0), 1) * 2.0)  # keeps -0.0


def scaled_expm1(x: Float, halvings: int) -> Float:
    """Emit (exp(x) - 1) / 2**halvings, with an error of 2 ulp.

    x must be from -18 to 89 if ``halvings`` is 1, and from -18 to 89.7 if it is 2.
    """
    # A part of the scale, since 2**128 would overflow where the result does not.
    r, biased = _reduce_by_ln2(x, 127 - halvings)
    scale = _power_of_two(biased)
    return (r.polynomial(_EXPM1) * r * r + r) * scale + (scale - 0.5**halvings)


def expand_log(x: Float) -> Float:
    """Emit log(x), with an error of 1 ulp."""
    tiny = x < _SMALLEST_NORMAL
    bits = tiny.choose(x * 8388608.0, x).bits() - _SQRT_HALF_BITS
    f = ((bits & 0x7FFFFF) + _SQRT_HALF_BITS).as_float() - 1.0
    exponent = (bits >> 23).to_float()
    exponent = tiny.choose(exponent - 23.0, exponent)
    low = f.polynomial(_LOG) * f * f * f + exponent * _LN2_LOW
    result = (low - f * f * 0.5 + f) + exponent * _LN2_HIGH
    result = x.equals(0.0).choose(x.constant(-math.inf), result)
    # Only +inf, NaN and negative numbers remain: the first two map to themselves.
    ordinary = x < math.inf
    return (x < 0.0).choose(x.constant(math.nan), ordinary.choose(result, x))


def expand_log1p(x: Float) -> Float:
    """Emit log(1 + x), with an error of 2 ulp; corrects for the rounding of 1 + x."""
    total = x + 1.0
    lost = x - (total - 1.0)
    result = expand_log(total) + lost / total
    result = x.equals(math.inf).choose(x, result)
    result = x.equals(-1.0).choose(x.constant(-math.inf), result)
    return x.equals(0.0).choose(x, result)


def _expand_double(operation: ir.Operation) -> None:
    """Replace expm1 or log1p on f64 by a formula with exp or log, in place.

    MLIR would lower these functions to exp(x) - 1 and log(1 + x), which lose digits for small x.
    """
    with ir.InsertionPoint(operation), operation.location:
        result = _DOUBLE_EXPANSIONS[operation.name](Double(operation.operands[0])).value
    operation.result.replace_all_uses_with(result)
    operation.erase()


def _double_expm1(x: Double) -> Double:
    """Emit exp(x) - 1 as (u - 1) x / log(u) for u = exp(x), in which rounding errors cancel.

    The formula is Kahan's; the error is a few ulp.
    """
    u = Double(math_dialect.exp(x.value))
    less = u - 1.0
    result = less * (x / Double(math_dialect.log(u.value)))
    result = u.equals(math.inf).choose(u, less.equals(-1.0).choose(less, result))
    return u.equals(1.0).choose(x, result)


def _double_log1p(x: Double) -> Double:
    """Emit log(1 + x) as log(u) x / (u - 1) for u = 1 + x, in which rounding errors cancel.

    The formula is Kahan's; the error is a few ulp.
    """
    u = x + 1.0
    result = Double(math_dialect.log(u.value)) * (x / (u - 1.0))
    result = u.equals(math.inf).choose(u, result)
    return u.equals(1.0).choose(x, result)


_DOUBLE_EXPANSIONS: dict[str, Callable[[Double], Double]] = {
    "math.expm1": _double_expm1,
    "math.log1p": _double_log1p,
}


def expand_tanh(x: Float) -> Float:
    """Emit tanh(x) as (exp(2a) - 1) / (exp(2a) + 1) for a = |x|, with an error of 3 ulp."""
    half = scaled_expm1(x.absolute().at_most(10.0) * 2.0, 1)
    return with_sign(half / (half + 1.0), x)


def expand_erf(x: Float) -> Float:
    """Emit the error function of x, with an error of 2 ulp."""
    a = x.absolute()
    small = x * (x * x).polynomial(_ERF_SMALL) + x
    exponent = a.at_most(4.0).polynomial(_ERF_LARGE)
    n, biased = _round(exponent, 127)
    large = -((exponent - n).polynomial(_EXP2) * _power_of_two(biased)) + 1.0
    return (a < 1.0).choose(small, with_sign(large, x))


def with_sign(magnitude: Float, sign: Float) -> Float:
    """Emit the non-negative ``magnitude`` with the sign of ``sign``."""
    bits = sign.bits() & -0x80000000
    return (magnitude.bits() | bits).as_float()


EXPANSIONS: dict[str, Callable[[Float], Float]] = {
    "math.exp": expand_exp,
    "math.exp2": expand_exp2,
    "math.expm1": expand_expm1,
    "math.log": expand_log,
    "math.log1p": expand_log1p,
    "math.tanh": expand_tanh,
    "math.erf": expand_erf,
}
