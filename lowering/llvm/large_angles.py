"""Reduces large angles modulo pi / 2 by integer arithmetic (Payne and Hanek, 1983).

An f32 is an integer of 24 bits times a power of two. Only a window of the bits of 2 / pi influences
the product with 2 / pi modulo 4: higher bits contribute multiples of 4, lower bits are below the
precision of the result.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

from rammer_mlir.bindings import arith, ir
from rammer_mlir.lowering.llvm.floats import Bits, Double, Float

_TWO_OVER_PI = 0xA2F9836E4E441529FC2757D1F534DDC0DB6295993C439041FE5163ABDEBBC561
"""The first 256 bits of 2 / pi after the point."""

_FIRST_EXPONENT = 152
"""The biased exponent of an f32 whose window of 2 / pi begins at the first bit.

The biased exponents of angles from 2**28 to the largest f32 are 155 to 254.
"""


@dataclass(frozen=True)
class _Wide:
    """An i64 value, with Python operators; results are modulo 2**64."""

    value: ir.Value

    @staticmethod
    def constant(number: int) -> _Wide:
        """Emit the constant ``number`` modulo 2**64."""
        kind = ir.IntegerType.get_signless(64)
        signed = (number + 2**63) % 2**64 - 2**63
        return _Wide(arith.constant(kind, ir.IntegerAttr.get(kind, signed)))

    @staticmethod
    def of(bits: Bits) -> _Wide:
        """Emit the sign extension of an i32."""
        return _Wide(arith.extsi(ir.IntegerType.get_signless(64), bits.value))

    def __add__(self, other: _Wide) -> _Wide:
        return _Wide(arith.addi(self.value, other.value))

    def __sub__(self, other: _Wide) -> _Wide:
        return _Wide(arith.subi(self.value, other.value))

    def __mul__(self, other: _Wide) -> _Wide:
        return _Wide(arith.muli(self.value, other.value))

    def __or__(self, other: _Wide) -> _Wide:
        return _Wide(arith.ori(self.value, other.value))

    def __lshift__(self, places: _Wide) -> _Wide:
        return _Wide(arith.shli(self.value, places.value))

    def __rshift__(self, places: _Wide) -> _Wide:
        """Emit a logical shift."""
        return _Wide(arith.shrui(self.value, places.value))


def reduce_large_angle(x: Float) -> tuple[Float, Bits]:
    """Emit r and an integer n with x = r + n * pi / 2; return r, and n modulo 4.

    The code requires a finite scalar x with |x| >= 2**28. The error of n * pi / 2 + r is below
    2**-60, and no multiple of pi / 2 is nearer to an f32 than 2**-30.
    """
    bits = x.bits()
    high, low = _window(((bits >> 23) & 0xFF) - _FIRST_EXPONENT)
    size = (bits & 0x7FFFFF) | 0x800000
    negative = bits >> 31  # -1 if x is negative, else 0
    integer = _Wide.of((size + negative) ^ negative)
    carried = _Wide(arith.shrsi((integer * low).value, _Wide.constant(32).value))
    turns = integer * high + carried  # 4 turns are 2**64
    rounded = turns + _Wide.constant(1 << 61)
    quadrant = arith.trunci(bits.value.type, (rounded >> _Wide.constant(62)).value)
    rest = arith.sitofp(Double.element(), (turns << _Wide.constant(2)).value)
    return (Double(rest) * (math.pi / 2 / 2**64)).single(), Bits(quadrant)


def _window(offset: Bits) -> tuple[_Wide, _Wide]:
    """Emit the 96 bits of 2 / pi from bit ``offset`` on: the first 64 bits, and the other 32."""
    words = [_Wide.constant(_TWO_OVER_PI >> shift) for shift in (192, 128, 64, 0)]
    is_second = offset.exceeds(63)
    first, second, third = (
        _Wide(arith.select(is_second.value, later.value, word.value))
        for word, later in itertools.pairwise(words)
    )
    places = _Wide.of(offset & 63)
    return _joined(first, second, places), _joined(second, third, places) >> _Wide.constant(32)


def _joined(word: _Wide, following: _Wide, places: _Wide) -> _Wide:
    """Emit the 64 bits from bit ``places`` of ``word`` on, which continue in ``following``."""
    # Two shifts, since a shift by 64 places is undefined.
    rest = (following >> _Wide.constant(1)) >> (_Wide.constant(63) - places)
    return (word << places) | rest
