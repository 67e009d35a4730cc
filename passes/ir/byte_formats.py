"""Describes narrow element types, which are stored in whole bytes and not computed with.

These are floats of 4, 6 or 8 bits and integers of 2 or 4 bits. Each element takes a byte, as in
arrays of ml_dtypes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import ml_dtypes
import numpy as np

DType = np.dtype[np.generic]


@dataclass(frozen=True)
class FloatFormat:
    """A float format of a sign, an exponent and a mantissa.

    Attributes:
        exponent: bits of the exponent.
        mantissa: bits of the mantissa.
        bias: exponent bias.
        largest: bit pattern of the largest finite number, as an integer.
        infinity: bit pattern of positive infinity; None if the format has none.
        nan: bit pattern of a NaN, to which too large numbers are converted if the format has no
            infinity; None if the format has no NaN.
        is_unsigned_zero: whether the format has no -0; the bit pattern of -0 then stands for NaN.
    """

    exponent: int
    mantissa: int
    bias: int
    largest: int
    infinity: int | None = None
    nan: int | None = None
    is_unsigned_zero: bool = False

    @property
    def bits(self) -> int:
        """The number of bits of exponent and mantissa, without the sign."""
        return self.exponent + self.mantissa


EXPONENTS: DType = np.dtype(ml_dtypes.float8_e8m0fnu)
"""The type of powers of two, stored as an 8-bit exponent without sign and mantissa."""

BYTE_FLOATS: Mapping[DType, FloatFormat] = {
    np.dtype(ml_dtypes.float8_e4m3): FloatFormat(4, 3, 7, 0x77, 0x78, 0x7C),
    np.dtype(ml_dtypes.float8_e4m3fn): FloatFormat(4, 3, 7, 0x7E, nan=0x7F),
    np.dtype(ml_dtypes.float8_e4m3fnuz): FloatFormat(4, 3, 8, 0x7F, None, 0x80, True),
    np.dtype(ml_dtypes.float8_e4m3b11fnuz): FloatFormat(4, 3, 11, 0x7F, None, 0x80, True),
    np.dtype(ml_dtypes.float8_e3m4): FloatFormat(3, 4, 3, 0x6F, 0x70, 0x78),
    np.dtype(ml_dtypes.float8_e5m2): FloatFormat(5, 2, 15, 0x7B, 0x7C, 0x7E),
    np.dtype(ml_dtypes.float8_e5m2fnuz): FloatFormat(5, 2, 16, 0x7F, None, 0x80, True),
    np.dtype(ml_dtypes.float6_e2m3fn): FloatFormat(2, 3, 1, 0x1F),
    np.dtype(ml_dtypes.float6_e3m2fn): FloatFormat(3, 2, 3, 0x1F),
    np.dtype(ml_dtypes.float4_e2m1fn): FloatFormat(2, 1, 1, 0x7),
}

BYTE_INTEGERS: Mapping[DType, int] = {
    np.dtype(ml_dtypes.int4): 4,
    np.dtype(ml_dtypes.uint4): 4,
    np.dtype(ml_dtypes.int2): 2,
    np.dtype(ml_dtypes.uint2): 2,
}
"""Integer types of fewer than 8 bits, each with its number of bits."""


def in_bytes(dtype: DType) -> bool:
    """Whether a type is a float of at most 8 bits or an integer of 2 or 4 bits.

    Each element of such a type takes a whole byte, and is only moved and converted to other types.
    The result is False for int8, uint8 and bool.
    """
    return dtype in BYTE_FLOATS or dtype in BYTE_INTEGERS or dtype == EXPONENTS


def integer_bits(dtype: DType) -> int:
    """Return the number of bits of an integer type."""
    return BYTE_INTEGERS.get(dtype, 8 * dtype.itemsize)


def is_signed_integer(dtype: DType) -> bool:
    """Whether a type is a signed integer."""
    return dtype.kind == "i" or (dtype in BYTE_INTEGERS and dtype.name.startswith("int"))


def is_integer(dtype: DType) -> bool:
    """Whether a type is a signed or unsigned integer; bool does not count."""
    return dtype.kind in "iu" or dtype in BYTE_INTEGERS
