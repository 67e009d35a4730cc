"""Emits conversions to and from floats of at most 8 bits and integers of 2 or 4 bits."""

from __future__ import annotations

from rammer_mlir.bindings import math
from rammer_mlir.passes.ir.byte_formats import (
    BYTE_FLOATS,
    BYTE_INTEGERS,
    EXPONENTS,
    FloatFormat,
    in_bytes,
    is_signed_integer,
)
from rammer_mlir.passes.ir.scalar import (
    F32,
    INT8,
    INT32,
    UINT8,
    UINT32,
    DType,
    Scalar,
    is_float,
    literal,
)

_NAN, _INFINITY = 0x7FC00000, 0x7F800000
"""Bit patterns of NaN and infinity in f32."""


def convert(x: Scalar, dtype: DType, saturate: bool = True, rounding: str = "up") -> Scalar:
    """Emit the conversion of a number between any two element types, and return the result.

    Args:
        x: the number.
        dtype: the result's dtype.
        saturate: whether 8-bit floats saturate at their largest number instead of overflowing.
        rounding: rounding of f8E8M0FNU, the powers of two: ``up``, ``down`` or ``nearest``.
    """
    if x.dtype == dtype:
        return x
    if in_bytes(x.dtype):
        return convert(_decoded(x), dtype, saturate, rounding)
    if dtype in BYTE_INTEGERS:
        return _narrow_integer(x, dtype)
    if dtype == EXPONENTS:
        return _exponent(x.cast(F32), saturate, rounding)
    if dtype in BYTE_FLOATS:
        code = _encoded(x.cast(F32), BYTE_FLOATS[dtype], saturate)
        return Scalar(code.cast(UINT8).value, dtype)
    return x.cast(dtype)


def _decoded(x: Scalar) -> Scalar:
    """Emit the value of ``x``, a float of at most 8 bits or an integer of 2 or 4 bits; return it.

    The result is an i8 for an integer, else an f32.
    """
    code = Scalar(x.value, UINT8)
    if x.dtype in BYTE_INTEGERS:
        free = 8 - BYTE_INTEGERS[x.dtype]
        byte = Scalar(x.value, INT8 if is_signed_integer(x.dtype) else UINT8)
        return byte.shift_left(free).shift_right(free)
    if x.dtype == EXPONENTS:
        return _power_of_two(code.cast(UINT32))
    return _float(code.cast(UINT32), BYTE_FLOATS[x.dtype])


def _power_of_two(code: Scalar) -> Scalar:
    bits = code.compare("eq", 0).select(literal(1 << 22, UINT32), code.shift_left(23))
    return code.compare("eq", 0xFF).select(literal(_NAN, UINT32), bits).bitcast(F32)


def _float(code: Scalar, form: FloatFormat) -> Scalar:
    """Emit the f32 value of ``code``: the bit pattern of a float of the format ``form``, as UINT32.

    A subnormal number is computed as a multiple of the smallest positive number of the format.
    """
    size = code & ((1 << form.bits) - 1)
    normal = size.shift_left(23 - form.mantissa) + ((127 - form.bias) << 23)
    subnormal = (size.cast(F32) * 2.0 ** (1 - form.bias - form.mantissa)).bitcast(UINT32)
    bits = size.compare("lt", 1 << form.mantissa).select(subnormal, normal)
    if form.infinity is not None:
        bits = size.compare("ge", form.infinity).select(literal(_INFINITY, UINT32), bits)
    if form.nan is not None and not form.is_unsigned_zero:
        bits = size.compare("gt", form.largest if form.infinity is None else form.infinity).select(
            literal(_NAN, UINT32), bits
        )
    bits = bits | (code & (1 << form.bits)).shift_left(31 - form.bits)
    if form.is_unsigned_zero:
        bits = code.compare("eq", form.nan or 0).select(literal(_NAN, UINT32), bits)
    return bits.bitcast(F32)


def _narrow_integer(x: Scalar, dtype: DType) -> Scalar:
    """Emit the conversion of a number to an integer of 2 or 4 bits; only the low bits are kept."""
    wide = x.cast(INT32) if is_float(x.dtype) else x
    byte = wide.cast(UINT8) & ((1 << BYTE_INTEGERS[dtype]) - 1)
    return Scalar(byte.value, dtype)


def _encoded(x: Scalar, form: FloatFormat, saturate: bool) -> Scalar:
    """Emit the bits of the f32 ``x`` in the float format ``form``, rounded to nearest even.

    Numbers that are too large become the largest number if ``saturate``, or if the format has
    neither infinity nor NaN. Otherwise, they become infinity, or NaN if there is no infinity.
    """
    bits = x.bitcast(UINT32)
    size = bits & 0x7FFFFFFF
    code = size.compare("lt", (128 - form.bias) << 23).select(
        _subnormal(size, form), _normal(size, form)
    )
    over = form.infinity if form.infinity is not None else form.nan
    limit = form.largest if saturate or over is None else over
    code = code.compare("gt", form.largest).select(literal(limit, UINT32), code)
    # In formats without NaN, ml_dtypes converts NaN to -0.
    nan = 1 << form.bits if form.nan is None else form.nan
    code = size.compare("gt", _INFINITY).select(literal(nan, UINT32), code)
    sign = bits.shift_right(31).shift_left(form.bits)
    if not form.is_unsigned_zero:
        return code | sign
    return (code.compare("eq", 0) | code.compare("ge", form.nan or 0)).select(code, code | sign)


def _normal(size: Scalar, form: FloatFormat) -> Scalar:
    cut = 23 - form.mantissa
    lowest = size.shift_right(cut) & 1
    rounded = (size + ((1 << (cut - 1)) - 1) + lowest).shift_right(cut)
    return rounded - ((127 - form.bias) << form.mantissa)


def _subnormal(size: Scalar, form: FloatFormat) -> Scalar:
    """Emit the bits of a number that is subnormal in the float format ``form``, without its sign.

    ``size`` has the f32 bits of the number's magnitude. The result is the magnitude divided by the
    format's smallest positive number, rounded to an integer. The emitted code is also executed for
    larger numbers; their results are not used, and ``size`` is clamped to avoid an overflow.
    """
    small = size.minimum((128 - form.bias) << 23).bitcast(F32)
    count = (small * 2.0 ** (form.bias - 1 + form.mantissa)).apply(math.RoundEvenOp)
    return count.cast(INT32).bitcast(UINT32)


def _exponent(x: Scalar, saturate: bool, rounding: str) -> Scalar:
    """Emit the conversion of an f32 to float8_e8m0fnu, whose numbers are powers of two; return it.

    Args:
        x: the f32; its sign is ignored.
        saturate: whether a finite number above the largest power becomes that power, not NaN.
        rounding: ``up``, ``down`` or ``nearest`` (ties up), to a power of two.
    """
    bits = x.bitcast(UINT32)
    exponent, fraction = bits.shift_right(23) & 0xFF, bits & 0x7FFFFF
    more = fraction.compare("gt", 0)
    if rounding == "nearest":
        # Ties are rounded up, except for the subnormal one.
        tie = literal(0x400000, UINT32)
        least = exponent.compare("gt", 0).select(tie, tie + 1)
        more = fraction.compare("ge", least)
    if rounding != "down":
        most = 0xFE if saturate else 0xFF
        more = more & exponent.compare("lt", most)
        exponent = exponent + more.cast(UINT32)
    return Scalar(exponent.cast(UINT8).value, EXPONENTS)
