"""Loads, stores and atomic updates (PTX ISA: ld, st, atom, red).

Threads of a launch take turns, so that acquire and release move the same values as plain accesses
in program order. The order that they establish is reported to the race detector.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .active import Active
from .addresses import addresses_of, space_of, split_operand
from .arrays import Array, Integers
from .conversions import pieces
from .faults import PtxFault
from .kinds import DTYPES, dtype_of, unsigned
from .memory import Refused, Words
from .module import Instruction
from .steps import Decode, Machine, Step

_VECTORS = {"v2": 2, "v4": 4, "v8": 8}
_HARMLESS = {
    "global", "shared", "shared::cta", "const", "weak", "volatile", "relaxed", "acquire", "release",
    "cta", "gpu", "sys", "ca", "cg", "cs", "lu", "cv", "wb", "wt", "nc", "L1::no_allocate",
    "L1::evict_first", "L1::evict_last", "L2::64B", "L2::128B", "L2::256B",
}  # fmt: skip
"""Qualifiers that change no value of an access: state space, caching, memory order and scope."""


def _count(instruction: Instruction) -> int:
    """Return the number of elements of a load or store: 1, or the length of its vector."""
    for qualifier in instruction.qualifiers[:-1]:
        if qualifier not in _HARMLESS and qualifier not in _VECTORS:
            raise PtxFault(f"{instruction}: expected no '.{qualifier}', which is not implemented")
    return next((_VECTORS[q] for q in instruction.qualifiers if q in _VECTORS), 1)


def _load(instruction: Instruction, machine: Machine) -> Step:
    """Return a function that executes the instruction ``ld`` for given threads."""
    space = space_of(instruction)
    if space == "param":
        return _load_parameter(instruction, machine)
    count, dtype = _count(instruction), dtype_of(instruction)
    names = pieces(instruction.operands[0])
    targets = [_holder(instruction, machine, name, dtype) for name in names]
    addresses = addresses_of(instruction, machine, instruction.operands[1], space)
    words = Words(machine.memories[space], dtype.itemsize, count)
    # The compiler may load a whole vector for some of its elements.
    used = np.array([name not in machine.unused for name in names]) if count > 1 else None
    is_constant = "nc" in instruction.qualifiers
    races, acquires = machine.races[space], "acquire" in instruction.qualifiers

    def step(on: Active) -> None:
        at = addresses(on)
        try:
            found = words.load(at, used)
            if is_constant and not words.is_constant(at):
                raise Refused("read as constant, but not read-only", np.ones(len(at), np.bool_))
            if acquires:
                races.acquire(at)
            else:
                races.read(at, words.size, on.threads, used)
        except Refused as refused:
            machine.fault(instruction, on, refused, at, space)
        typed = found.view(dtype)
        for place, target in enumerate(targets):
            target[on.lanes] = typed if count == 1 else typed[:, place]

    return step


def _holder(instruction: Instruction, machine: Machine, name: str, dtype: np.dtype[Any]) -> Array:
    """Return the array of the register ``name`` that a load of elements of type ``dtype`` writes.

    The view has the kind of the type and the size of the register, so that storing elements in it
    extends them.

    Raises:
        PtxFault: if the register is smaller than an element, or larger than a float.
    """
    row = machine.registers.row(name)
    if row.itemsize < dtype.itemsize or (dtype.kind == "f" and row.itemsize > dtype.itemsize):
        raise PtxFault(f"{instruction}: expected a register for {dtype}, found '{name}'")
    return row.view(f"{dtype.kind}{row.itemsize}") if dtype.kind in "iuf" else row.view(dtype)


def _load_parameter(instruction: Instruction, machine: Machine) -> Step:
    name, offset = split_operand(instruction, instruction.operands[1])
    if offset or name not in machine.parameters or dtype_of(instruction).itemsize != 8:
        raise PtxFault(f"{instruction}: expected a whole parameter, found '{name}+{offset}'")
    to = machine.registers.target(instruction.operands[0], np.dtype(np.uint64))
    value = np.uint64(machine.parameters[name])

    def step(on: Active) -> None:
        np.copyto(to, value, where=on.where)

    return step


def _store(instruction: Instruction, machine: Machine) -> Step:
    """Return a function that executes the instruction ``st`` for given threads."""
    space = space_of(instruction)
    if space not in machine.memories:
        raise PtxFault(f"{instruction}: expected global or shared memory")
    count, dtype = _count(instruction), unsigned(dtype_of(instruction))
    names = pieces(instruction.operands[1])
    values = [
        np.broadcast_to(machine.registers.low_source(name, dtype), machine.threads)
        for name in names
    ]
    addresses = addresses_of(instruction, machine, instruction.operands[0], space)
    words = Words(machine.memories[space], dtype.itemsize, count)
    races, releases = machine.races[space], "release" in instruction.qualifiers
    is_global = space == "global"

    def step(on: Active) -> None:
        at = addresses(on)
        written = [value[on.lanes] for value in values]
        try:
            words.store(at, written[0] if count == 1 else np.stack(written, 1))
            if releases:
                races.release(at)
            else:
                races.write(at, words.size, on.threads)
        except Refused as refused:
            machine.fault(instruction, on, refused, at, space)
        machine.has_released |= is_global

    return step


_UPDATES: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda old, value: old + value,
    "min": min,
    "max": max,
    "and": lambda old, value: old & value,
    "or": lambda old, value: old | value,
    "xor": lambda old, value: old ^ value,
    "exch": lambda old, value: value,
}


def _update(instruction: Instruction, machine: Machine) -> Step:
    """Return a function that executes ``atom`` or ``red``, thread after thread."""
    space, dtype = space_of(instruction), DTYPES[instruction.qualifiers[-1]]
    operands = list(instruction.operands)
    to = machine.registers.target(operands.pop(0) if instruction.name == "atom" else "_", dtype)
    addresses = addresses_of(instruction, machine, operands[0], space)
    sources = [machine.registers.source(text, dtype) for text in operands[1:]]
    words = Words(machine.memories[space], dtype.itemsize)
    name = next((q for q in instruction.qualifiers if q in (*_UPDATES, "cas")), None)
    if name is None:
        raise PtxFault(f"{instruction}: expected one of {', '.join(_UPDATES)}, cas")

    def one(at: Integers, thread: int) -> None:
        old = words.load(at).view(dtype)
        values = [np.broadcast_to(s, machine.threads)[thread] for s in sources]
        if name == "cas":
            new = values[1] if old[0] == values[0] else old[0]
        else:
            new = _UPDATES[name](old[0], values[0])
        words.store(at, np.array([new], dtype).view(unsigned(dtype)))
        to[thread] = old[0]

    def step(on: Active) -> None:
        at = addresses(on)
        for place, thread in enumerate(on.threads):
            try:
                one(at[place : place + 1], int(thread))
            except Refused as refused:
                alone = Active(np.arange(machine.threads) == thread)
                machine.fault(instruction, alone, refused, at[place : place + 1], space)
        machine.has_released |= space == "global"

    return step


DECODERS: dict[str, Decode] = {"ld": _load, "st": _store, "atom": _update, "red": _update}
