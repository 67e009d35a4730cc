"""Conversions and moves (PTX ISA: cvt, cvta, mov, selp, set, setp, testp)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .active import Active
from .arrays import Array
from .faults import PtxFault
from .kinds import DTYPES, dtype_of, expect_only, unsigned
from .module import Instruction
from .steps import Decode, Machine, Step

_TO_INTEGER: dict[str, Any] = {
    "rzi": np.trunc, "rni": np.rint, "rmi": np.floor, "rpi": np.ceil,
}  # fmt: skip


def integer_of(values: Array, dtype: np.dtype[Any], mode: str) -> Array:
    """Round floats to integers of type ``dtype``, by PTX's rounding mode ``mode``, such as "rzi".

    Values out of range become the nearest integer of the type, and NaN becomes zero.
    """
    wide = _TO_INTEGER[mode](values.astype(np.float64))
    limits = np.iinfo(dtype)
    inside = (wide >= float(limits.min)) & (wide < float(limits.max))
    ends = np.where(wide > 0, limits.max, limits.min).astype(dtype)
    found = np.where(inside, np.where(inside, wide, 0).astype(dtype), ends)
    return np.where(np.isnan(wide), dtype.type(0), found)


def tf32(values: Array) -> Array:
    """Round floats to tf32: 10 bits of fraction, ties away from zero.

    The results are f32 whose other bits of fraction are zero.
    """
    bits = values.view(np.uint32)
    rounded = (bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)
    return np.where(np.isfinite(values), rounded, bits).view(np.float32)


def _convert(instruction: Instruction, machine: Machine) -> Step:
    """Return a function that executes the instruction ``cvt`` for given threads."""
    *modes, to_kind, from_kind = instruction.qualifiers
    if to_kind == "tf32":
        return _to_tf32(instruction, machine)
    if to_kind in ("f16x2", "bf16x2"):
        return _to_pair(instruction, machine)
    to_type, from_type = DTYPES[to_kind], DTYPES[from_kind]
    compute = _conversion(instruction, modes, to_type, from_type)
    registers = machine.registers
    to = registers.row(instruction.operands[0])
    if to.itemsize < to_type.itemsize:
        raise PtxFault(f"{instruction}: expected a wider register")
    # An integer that is shorter than its register is extended by its own type.
    holder = to.view(f"{'i' if to_type.kind == 'i' else 'u'}{to.itemsize}")
    source = registers.low_source(instruction.operands[1], from_type)

    def step(on: Active) -> None:
        found = np.asarray(compute(source))
        whole = found if found.dtype.kind in "iu" else found.view(unsigned(found.dtype))
        np.copyto(holder, whole, where=on.where, casting="unsafe")

    return step


def _conversion(
    instruction: Instruction, modes: list[str], to: np.dtype[Any], of: np.dtype[Any]
) -> Callable[[Array], Array]:
    """Return the function on arrays that a ``cvt`` from type ``of`` to type ``to`` computes.

    ``modes`` are its rounding and saturation qualifiers.
    """
    known = {"rn", "sat", *_TO_INTEGER}
    if not set(modes) <= known or (to.itemsize < of.itemsize <= 8 and "sat" in modes):
        raise PtxFault(f"{instruction}: expected rounding by {', '.join(sorted(known))}")
    rounding = next((mode for mode in modes if mode in _TO_INTEGER), None)
    to_integer, of_integer = to.kind in "iu", of.kind in "iu"
    if to_integer and not of_integer:
        if rounding is None:
            raise PtxFault(f"{instruction}: expected a rounding to integers")
        return lambda values: integer_of(values, to, rounding)
    if not to_integer and not of_integer and rounding is not None:
        return lambda values: _TO_INTEGER[rounding](values).astype(to)
    if "sat" in modes and not to_integer:
        return lambda values: np.clip(np.nan_to_num(values), 0, 1).astype(to)
    return lambda values: values.astype(to)


def _to_tf32(instruction: Instruction, machine: Machine) -> Step:
    if instruction.opcode != "cvt.rna.tf32.f32":
        raise PtxFault(f"{instruction}: expected ties away from zero, '.rna'")
    single = np.dtype(np.float32)
    to = machine.registers.target(instruction.operands[0], single)
    source = machine.registers.source(instruction.operands[1], single)

    def step(on: Active) -> None:
        np.copyto(to, tf32(source), where=on.where)

    return step


def _to_pair(instruction: Instruction, machine: Machine) -> Step:
    """Return a function that executes ``cvt.rn.f16x2.f32 d, a, b`` or the same with ``bf16x2``.

    The result d has a, rounded to 16 bits, in its high half, and b in its low half.
    """
    expect_only(instruction, "rn", "f16x2", "bf16x2")
    half = DTYPES[instruction.qualifiers[1][:-2]]
    single = np.dtype(np.float32)
    to = machine.registers.target(instruction.operands[0], np.dtype(np.uint32))
    high, low = (machine.registers.source(text, single) for text in instruction.operands[1:])

    def step(on: Active) -> None:
        halves = [np.asarray(x).astype(half).view(np.uint16).astype(np.uint32) for x in (high, low)]
        np.copyto(to, halves[0] << np.uint32(16) | halves[1], where=on.where)

    return step


def _move(instruction: Instruction, machine: Machine) -> Step:
    """Return a function that executes ``mov`` for given threads.

    It copies a register, or packs or unpacks one: ``mov.b64 %rd1, {%r1, %r2}``.
    """
    expect_only(instruction)
    registers, dtype = machine.registers, unsigned(dtype_of(instruction))
    target, source = instruction.operands
    if source.startswith("{"):
        return _pack(instruction, machine)
    if target.startswith("{"):
        return _unpack(instruction, machine)
    to, value = registers.target(target, dtype), registers.source(source, dtype)

    def step(on: Active) -> None:
        np.copyto(to, value, where=on.where)

    return step


def pieces(text: str) -> list[str]:
    """Return the registers in a vector operand: ``{%r1, %r2}`` gives ``["%r1", "%r2"]``."""
    return [name.strip() for name in text.strip("{} ").split(",")]


def _pack(instruction: Instruction, machine: Machine) -> Step:
    names = pieces(instruction.operands[1])
    whole = unsigned(dtype_of(instruction))
    part = np.dtype(f"u{whole.itemsize // len(names)}")
    to = machine.registers.target(instruction.operands[0], whole).view(part)
    sources = [machine.registers.source(name, part) for name in names]

    def step(on: Active) -> None:
        for place, source in enumerate(sources):
            np.copyto(to[place :: len(names)], source, where=on.where)

    return step


def _unpack(instruction: Instruction, machine: Machine) -> Step:
    names = pieces(instruction.operands[0])
    whole = unsigned(dtype_of(instruction))
    part = np.dtype(f"u{whole.itemsize // len(names)}")
    targets = [machine.registers.target(name, part) for name in names]
    source = machine.registers.target(instruction.operands[1], whole).view(part)

    def step(on: Active) -> None:
        # The source may be one of the targets' own registers: all is read first.
        for place, value in enumerate(source.copy().reshape(-1, len(names)).T):
            np.copyto(targets[place], value, where=on.where)

    return step


def _address(instruction: Instruction, machine: Machine) -> Step:
    """Return a function that executes ``cvta`` for global memory, which copies the address."""
    if "global" not in instruction.qualifiers:
        raise PtxFault(f"{instruction}: expected global memory")
    word = np.dtype(np.uint64)
    to = machine.registers.target(instruction.operands[0], word)
    source = machine.registers.source(instruction.operands[1], word)

    def step(on: Active) -> None:
        np.copyto(to, source, where=on.where)

    return step


def _select(instruction: Instruction, machine: Machine) -> Step:
    expect_only(instruction)
    registers, dtype = machine.registers, unsigned(dtype_of(instruction))
    to = registers.target(instruction.operands[0], dtype)
    a, b = (registers.source(text, dtype) for text in instruction.operands[1:3])
    condition = registers.source(instruction.operands[3], np.dtype(np.bool_))

    def step(on: Active) -> None:
        np.copyto(to, np.where(condition, a, b), where=on.where)

    return step


_ORDERED: dict[str, Any] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
    "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip
_UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
_COMBINE: dict[str, Any] = {
    "and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor,
}  # fmt: skip


def comparison(name: str, dtype: np.dtype[Any]) -> Callable[[Array, Array], Array]:
    """Return the function on arrays that computes a comparison of PTX, such as "lt" or "ltu".

    A comparison of floats with NaN is true only if its name is "nan" or ends in ``u``.
    """
    if name == "num":
        return lambda a, b: ~(np.isnan(a) | np.isnan(b))
    if name == "nan":
        return lambda a, b: np.isnan(a) | np.isnan(b)
    if dtype.kind in "iu":
        return _ORDERED[_UNSIGNED.get(name, name)]
    if name == "ne":
        return lambda a, b: (a < b) | (a > b)
    if name in _ORDERED:
        return _ORDERED[name]
    inner = _ORDERED[name.removesuffix("u")]
    return lambda a, b: inner(a, b) | np.isnan(a) | np.isnan(b)


def _compare(instruction: Instruction, machine: Machine) -> Step:
    """Return a function that executes ``setp`` for given threads.

    The result may be combined with another predicate, and its complement may be a second result.
    """
    name, *rest, _ = (q for q in instruction.qualifiers if q != "ftz")
    dtype = dtype_of(instruction)
    registers, truth = machine.registers, np.dtype(np.bool_)
    names = instruction.operands[0].split("|")
    targets = [registers.target(text, truth) for text in names]
    a, b = (registers.source(text, dtype) for text in instruction.operands[1:3])
    compare = comparison(name, dtype)
    combine = _COMBINE[rest[0]] if rest else None
    other = registers.source(instruction.operands[3].lstrip("!"), truth) if rest else None
    complement = bool(rest) and instruction.operands[3].startswith("!")
    (to, *second) = targets

    def step(on: Active) -> None:
        np.copyto(to, compare(a, b), where=on.where)

    def with_all(on: Active) -> None:
        found = compare(a, b)
        for target, value in zip(targets, (found, ~found), strict=False):
            if combine is not None and other is not None:
                value = combine(value, ~other if complement else other)
            np.copyto(target, value, where=on.where)

    return with_all if rest or second else step


def _test(instruction: Instruction, machine: Machine) -> Step:
    """Return a function that executes ``testp``, a test of floats such as "is it NaN?"."""
    kind, dtype = instruction.qualifiers[0], dtype_of(instruction)
    to = machine.registers.target(instruction.operands[0], np.dtype(np.bool_))
    source = machine.registers.source(instruction.operands[1], dtype)
    tests: dict[str, Callable[[Array], Array]] = {
        "finite": np.isfinite, "infinite": np.isinf, "number": lambda x: ~np.isnan(x),
        "notanumber": np.isnan,
        "normal": lambda x: np.isfinite(x) & (np.abs(x) >= np.finfo(dtype).tiny),
        "subnormal": lambda x: (x != 0) & (np.abs(x) < np.finfo(dtype).tiny),
    }  # fmt: skip
    test = tests[kind]

    def step(on: Active) -> None:
        np.copyto(to, test(source), where=on.where)

    return step


DECODERS: dict[str, Decode] = {
    "cvt": _convert,
    "cvta": _address,
    "mov": _move,
    "selp": _select,
    "setp": _compare,
    "testp": _test,
}
