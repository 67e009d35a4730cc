"""Floating-point arithmetic (PTX ISA: Floating-Point, Half-Precision Instructions).

Results are rounded once to the nearest, as ``.rn`` says; other rounding modes are refused.
Instructions that the ISA allows to approximate (``.approx``, ``.full``) are computed as exactly as
their type can represent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .active import Active
from .arrays import Array
from .kinds import dtype_of, expect_only, unsigned
from .module import Instruction
from .steps import Decode, Machine, Step

_QUALIFIERS = ("rn", "ftz", "approx", "full", "NaN", "relu")
_DOUBLE_EXTRA = np.int64((1 << 29) - 1)
"""Bits that a double has after those of a float."""


def flushed(values: Array) -> Array:
    """Return values with subnormal numbers replaced by zeros of the same sign, as ``.ftz`` does."""
    tiny = np.abs(values) < np.finfo(np.float32).tiny
    return np.where(tiny, np.copysign(values.dtype.type(0), values), values)


def _computed(compute: Callable[..., Array]) -> Decode:
    """Return a decoder of an instruction whose result ``compute`` computes from its sources.

    ``compute`` gets the sources as arrays of the instruction's type, and returns the results. With
    ``.ftz``, subnormal sources and results are replaced by zeros.
    """

    def decode(instruction: Instruction, machine: Machine) -> Step:
        expect_only(instruction, *_QUALIFIERS)
        dtype = dtype_of(instruction)
        to = machine.registers.target(instruction.operands[0], dtype)
        sources = [machine.registers.source(text, dtype) for text in instruction.operands[1:]]

        def plain(on: Active) -> None:
            np.copyto(to, compute(*sources), where=on.where, casting="same_kind")

        def flushing(on: Active) -> None:
            found = flushed(compute(*(flushed(source) for source in sources)))
            np.copyto(to, found, where=on.where, casting="same_kind")

        return flushing if "ftz" in instruction.qualifiers else plain

    return decode


def _by_ufunc(ufunc: Any) -> Decode:
    """Return a decoder of an instruction that a NumPy ufunc computes, which rounds once."""
    slow = _computed(ufunc)

    def decode(instruction: Instruction, machine: Machine) -> Step:
        expect_only(instruction, *_QUALIFIERS)
        if "ftz" in instruction.qualifiers:
            return slow(instruction, machine)
        dtype = dtype_of(instruction)
        to = machine.registers.target(instruction.operands[0], dtype)
        sources = [machine.registers.source(text, dtype) for text in instruction.operands[1:]]

        def step(on: Active) -> None:
            ufunc(*sources, out=to, where=on.where)

        return step

    return decode


def fused(a: Array, b: Array, c: Array) -> Array:
    """Return ``a * b + c``, rounded once.

    Subnormal results, and in rare cases doubles, are rounded twice.
    """
    dtype = np.result_type(a, b, c)
    if dtype == np.float64:
        exact = np.asarray(a).astype(np.longdouble) * b + c
        return exact.astype(np.float64)
    product = np.multiply(a, b, dtype=np.float64)  # exact
    total = np.asarray(product + np.asarray(c).astype(np.float64))
    if ((total.view(np.int64) & _DOUBLE_EXTRA) == _DOUBLE_EXTRA // 2 + 1).any():
        total = _to_odd(product, np.asarray(c).astype(np.float64), total)
    return total.astype(dtype)


def _to_odd(product: Array, addend: Array, total: Array) -> Array:
    """Return sums as doubles that round to the same floats as the exact sums do.

    ``total`` is ``product + addend`` in double precision. If that sum is inexact, it is rounded to
    odd in the direction of the exact sum, so that it is no midpoint between two floats (Boldo and
    Melquiond, Emulation of FMA and correctly rounded sums, 2008).
    """
    rest = total - product
    error = (product - (total - rest)) + (addend - rest)
    bits = total.view(np.int64)
    away = (error > 0) == (total > 0)
    odd = np.where(away, bits | 1, (bits - 1) | 1)
    return np.where((error != 0) & (bits & 1 == 0), odd, bits).view(np.float64)


def _smaller(nan: bool) -> Callable[[Array, Array], Array]:
    def compute(a: Array, b: Array) -> Array:
        found = (np.minimum if nan else np.fmin)(a, b)
        return np.where((a == 0) & (b == 0) & np.signbit(a), a, found)  # -0 is less than +0

    return compute


def _larger(nan: bool) -> Callable[[Array, Array], Array]:
    def compute(a: Array, b: Array) -> Array:
        found = (np.maximum if nan else np.fmax)(a, b)
        return np.where((a == 0) & (b == 0) & ~np.signbit(a), a, found)

    return compute


def _extreme(choose: Callable[[bool], Callable[[Array, Array], Array]]) -> Decode:
    def decode(instruction: Instruction, machine: Machine) -> Step:
        return _computed(choose("NaN" in instruction.qualifiers))(instruction, machine)

    return decode


def _sign_only(ufunc: Any, mask: int) -> Decode:
    """Return a decoder of ``neg`` or ``abs``, which change only the sign bit, even of NaN.

    ``ufunc`` is a bitwise operation on a value and a constant. If ``mask`` is not 0, the constant
    has only the sign bit set, otherwise all bits except the sign bit.
    """

    def decode(instruction: Instruction, machine: Machine) -> Step:
        expect_only(instruction, "ftz")
        dtype = unsigned(dtype_of(instruction))
        to = machine.registers.target(instruction.operands[0], dtype)
        source = machine.registers.source(instruction.operands[1], dtype)
        sign = 1 << 8 * dtype.itemsize - 1
        bits = dtype.type(sign if mask else sign - 1)

        def step(on: Active) -> None:
            ufunc(source, bits, out=to, where=on.where)

        return step

    return decode


def _reciprocal(a: Array) -> Array:
    return a.dtype.type(1) / a


def _reciprocal_root(a: Array) -> Array:
    return (1 / np.sqrt(a, dtype=np.float64)).astype(a.dtype)


def _copy_sign(sign: Array, value: Array) -> Array:
    """Return the result of ``copysign d, a, b``: the magnitude of b with the sign of a."""
    return np.copysign(value, sign)


DECODERS: dict[str, Decode] = {
    "add": _by_ufunc(np.add),
    "sub": _by_ufunc(np.subtract),
    "mul": _by_ufunc(np.multiply),
    "div": _by_ufunc(np.divide),
    "sqrt": _by_ufunc(np.sqrt),
    "fma": _computed(fused),
    "mad": _computed(fused),
    "rcp": _computed(_reciprocal),
    "rsqrt": _computed(_reciprocal_root),
    "ex2": _by_ufunc(np.exp2),
    "lg2": _by_ufunc(np.log2),
    "sin": _by_ufunc(np.sin),
    "cos": _by_ufunc(np.cos),
    "tanh": _by_ufunc(np.tanh),
    "min": _extreme(_smaller),
    "max": _extreme(_larger),
    "neg": _sign_only(np.bitwise_xor, 1),
    "abs": _sign_only(np.bitwise_and, 0),
    "copysign": _computed(_copy_sign),
}
