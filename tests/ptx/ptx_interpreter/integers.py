"""Integer arithmetic and logic, modulo 2^n (PTX ISA: Integer Arithmetic, Logic and Shift)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .active import Active
from .arrays import Array
from .faults import PtxFault
from .kinds import dtype_of, expect_only, signed, unsigned, wider
from .module import Instruction
from .steps import Decode, Machine, Step


def _by_ufunc(ufunc: Any) -> Decode:
    """Return a decoder of an instruction that a NumPy ufunc computes.

    The ufunc gets unsigned integers, or bools for predicates.
    """

    def decode(instruction: Instruction, machine: Machine) -> Step:
        expect_only(instruction)
        dtype = unsigned(dtype_of(instruction))
        to = machine.registers.target(instruction.operands[0], dtype)
        sources = [machine.registers.source(text, dtype) for text in instruction.operands[1:]]

        def step(on: Active) -> None:
            ufunc(*sources, out=to, where=on.where)

        return step

    return decode


def _computed(compute: Callable[..., Array], *, keeps_sign: bool = False) -> Decode:
    """Return a decoder of an instruction whose result ``compute`` computes from its sources.

    With ``keeps_sign``, the sources have the instruction's signed type, else an unsigned type.
    """

    def decode(instruction: Instruction, machine: Machine) -> Step:
        expect_only(instruction)
        dtype = dtype_of(instruction) if keeps_sign else unsigned(dtype_of(instruction))
        to = machine.registers.target(instruction.operands[0], dtype)
        sources = [machine.registers.source(text, dtype) for text in instruction.operands[1:]]

        def step(on: Active) -> None:
            np.copyto(to, compute(*sources), where=on.where, casting="same_kind")

        return step

    return decode


def high_half(a: Array, b: Array) -> Array:
    """Return the high half of each double-width product of ``a`` and ``b``."""
    dtype = np.result_type(a, b)
    if dtype.itemsize < 8:
        bits = np.array(8 * dtype.itemsize, wider(dtype))
        return (a.astype(wider(dtype)) * b >> bits).astype(dtype)
    exact = np.asarray(a).astype(object) * np.asarray(b).astype(object) >> 64
    return np.asarray(exact).astype(dtype)


def _multiply(instruction: Instruction, machine: Machine) -> Step:
    """Return a function that executes ``mul`` or ``mad`` for given threads.

    ``mul`` returns the low half, the high half or all bits of the product; ``mad`` adds a third
    operand to them.
    """
    expect_only(instruction, "lo", "hi", "wide")
    part, dtype = instruction.qualifiers[0], dtype_of(instruction)
    registers = machine.registers
    result = wider(dtype) if part == "wide" else dtype
    to = registers.target(instruction.operands[0], unsigned(result))
    a, b = (registers.source(text, dtype) for text in instruction.operands[1:3])
    addend: Any = None
    if instruction.name == "mad":
        addend = registers.source(instruction.operands[3], unsigned(result))

    def product() -> Array:
        if part == "wide":
            return np.multiply(a, b, dtype=result).view(unsigned(result))
        if part == "hi":
            return high_half(a, b).view(unsigned(result))
        return np.multiply(a, b, dtype=dtype).view(unsigned(result))

    def multiply(on: Active) -> None:
        np.copyto(to, product(), where=on.where)

    def multiply_and_add(on: Active) -> None:
        np.add(product(), addend, out=to, where=on.where)

    return multiply if addend is None else multiply_and_add


def quotient(a: Array, b: Array) -> Array:
    """Return quotients of integers, rounded towards zero."""
    if a.dtype.kind == "u":
        return a // b
    whole = unsigned(a.dtype)
    sizes = np.abs(a).view(whole) // np.abs(b).view(whole)
    return np.where((a < 0) != (b < 0), -sizes, sizes).view(a.dtype)


def _divide(instruction: Instruction, machine: Machine) -> Step:
    """Return a function that executes ``div`` or ``rem``; a divisor of zero is a fault."""
    expect_only(instruction)
    dtype = dtype_of(instruction)
    registers = machine.registers
    to = registers.target(instruction.operands[0], dtype)
    left, right = (registers.source(text, dtype) for text in instruction.operands[1:])
    shape = np.zeros(machine.threads, dtype)

    def step(on: Active) -> None:
        a, b = (left + shape)[on.lanes], (right + shape)[on.lanes]
        if not b.all():
            raise PtxFault(f"{instruction}: block {machine.number}: division by zero")
        whole = quotient(a, b)
        to[on.lanes] = whole if instruction.name == "div" else a - whole * b

    return step


def _shift(instruction: Instruction, machine: Machine) -> Step:
    """Return a function that executes ``shl`` or ``shr`` for given threads.

    Shift amounts are unsigned, and are limited to the number of bits.
    """
    expect_only(instruction)
    dtype = dtype_of(instruction)
    registers = machine.registers
    to = registers.target(instruction.operands[0], dtype)
    value = registers.source(instruction.operands[1], dtype)
    amount = registers.source(instruction.operands[2], np.dtype(np.uint32))
    ufunc = np.left_shift if instruction.name == "shl" else np.right_shift
    bits = 8 * dtype.itemsize

    def step(on: Active) -> None:
        ufunc(value, np.minimum(amount, bits).astype(dtype), out=to, where=on.where)

    return step


def _extract(instruction: Instruction, machine: Machine) -> Step:
    """Return a function that executes ``bfe``, which extracts a bit field.

    The field is extended by zeros, or by its highest bit for a signed type.
    """
    expect_only(instruction)
    dtype = dtype_of(instruction)
    registers = machine.registers
    to = registers.target(instruction.operands[0], dtype)
    value = registers.source(instruction.operands[1], dtype)
    places = [registers.source(text, np.dtype(np.uint32)) for text in instruction.operands[2:]]
    wide = np.dtype(f"{dtype.kind}8")  # extended by its sign, as the field is beyond the word

    def step(on: Active) -> None:
        begin, length = (place & 0xFF for place in places)
        field = np.right_shift(np.asarray(value).astype(wide), begin.astype(wide))
        unused = (64 - np.minimum(length, 64)).astype(wide)
        found = np.right_shift(np.left_shift(field, unused), unused)
        np.copyto(to, np.where(length == 0, 0, found).astype(dtype), where=on.where)

    return step


def _insert(a: Array, b: Array, begin: Array, length: Array) -> Array:
    """Return the result of ``bfi``: b with a bit field replaced by the low bits of a.

    The field has ``length`` bits from bit ``begin`` on.
    """
    field = ((np.uint64(1) << np.minimum(length & 0xFF, 64).astype(np.uint64)) - 1).astype(
        np.uint64
    )
    field = np.where((length & 0xFF) >= 64, np.uint64(0xFFFFFFFFFFFFFFFF), field)
    place = np.minimum(begin & 0xFF, 64).astype(np.uint64)
    mask = field << place
    moved = a.astype(np.uint64) << place
    return ((moved & mask) | (b.astype(np.uint64) & ~mask)).astype(b.dtype)


def _permute(a: Array, b: Array, selector: Array) -> Array:
    """Return the result of ``prmt`` in its default mode.

    Each of four hexadecimal digits of ``selector`` selects one of the eight bytes of a and b, or
    the byte's sign.
    """
    both = b.astype(np.uint64) << np.uint64(32) | a
    found = np.zeros(np.broadcast(a, b, selector).shape, np.uint32)
    for place in range(4):
        choice = selector >> np.uint32(4 * place)
        byte = (both >> ((choice & 7).astype(np.uint64) * np.uint64(8))).astype(np.uint32) & 0xFF
        sign = np.where(byte & 0x80, 0xFF, 0).astype(np.uint32)
        found |= np.where(choice & 8, sign, byte).astype(np.uint32) << np.uint32(8 * place)
    return found


def _funnel(instruction: Instruction, machine: Machine) -> Step:
    """Return a function that executes ``shf``: it shifts 64 bits and keeps half of them."""
    expect_only(instruction, "l", "r", "wrap", "clamp")
    registers, word = machine.registers, np.dtype(np.uint32)
    to = registers.target(instruction.operands[0], word)
    low, high, amount = (registers.source(text, word) for text in instruction.operands[1:])

    def step(on: Active) -> None:
        both = np.uint64(high) << np.uint64(32) | low
        wraps = "wrap" in instruction.qualifiers
        by = np.uint64(amount & 31 if wraps else np.minimum(amount, 32))
        found = (both << by) >> np.uint64(32) if "l" in instruction.qualifiers else both >> by
        np.copyto(to, np.asarray(found).astype(np.uint32), where=on.where)

    return step


def _logic3(instruction: Instruction, machine: Machine) -> Step:
    """Return a function that executes ``lop3``: a bitwise function of three operands.

    The last operand is the function's truth table.
    """
    expect_only(instruction)
    registers, word = machine.registers, np.dtype(np.uint32)
    to = registers.target(instruction.operands[0], word)
    inputs = [registers.source(text, word) for text in instruction.operands[1:4]]
    table = int(instruction.operands[4], 0)

    def step(on: Active) -> None:
        found = np.zeros(machine.threads, np.uint32)
        for row in range(8):
            if table >> row & 1:
                chosen = [x if row >> (2 - n) & 1 else ~x for n, x in enumerate(inputs)]
                found |= chosen[0] & chosen[1] & chosen[2]
        np.copyto(to, found, where=on.where)

    return step


def _leading_zeros(a: Array) -> Array:
    bits = 8 * a.dtype.itemsize
    found = np.zeros(a.shape, np.uint32)
    for place in range(bits):
        found += (a >> a.dtype.type(place)) == 0
    return found


def _counted(compute: Callable[[Array], Array]) -> Decode:
    """Return a decoder of an instruction with a 32-bit result and a source of 32 or 64 bits.

    ``compute`` maps the source to the result, such as the count of its set bits.
    """

    def decode(instruction: Instruction, machine: Machine) -> Step:
        expect_only(instruction)
        source = machine.registers.source(instruction.operands[1], unsigned(dtype_of(instruction)))
        to = machine.registers.target(instruction.operands[0], np.dtype(np.uint32))

        def step(on: Active) -> None:
            np.copyto(to, compute(source).astype(np.uint32), where=on.where)

        return step

    return decode


def _reversed(a: Array) -> Array:
    found = np.zeros_like(a)
    for place in range(8 * a.dtype.itemsize):
        found = found << a.dtype.type(1) | (a >> a.dtype.type(place) & a.dtype.type(1))
    return found


def _negated(a: Array) -> Array:
    return (-a.view(signed(a.dtype))).view(a.dtype)


DECODERS: dict[str, Decode] = {
    "add": _by_ufunc(np.add),
    "sub": _by_ufunc(np.subtract),
    "and": _by_ufunc(np.bitwise_and),
    "or": _by_ufunc(np.bitwise_or),
    "xor": _by_ufunc(np.bitwise_xor),
    "not": _by_ufunc(np.invert),
    "min": _computed(np.minimum, keeps_sign=True),
    "max": _computed(np.maximum, keeps_sign=True),
    "abs": _computed(np.abs, keeps_sign=True),
    "neg": _computed(_negated),
    "mul": _multiply,
    "mad": _multiply,
    "div": _divide,
    "rem": _divide,
    "shl": _shift,
    "shr": _shift,
    "bfe": _extract,
    "bfi": _computed(_insert),
    "prmt": _computed(_permute),
    "shf": _funnel,
    "lop3": _logic3,
    "popc": _counted(np.bitwise_count),
    "clz": _counted(_leading_zeros),
    "brev": _computed(_reversed),
}
