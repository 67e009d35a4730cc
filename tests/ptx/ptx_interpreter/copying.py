"""Instructions of asynchronous copies (PTX ISA: cp.async, its groups and waits)."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from .active import Active
from .addresses import addresses_of
from .copies import LateFault
from .faults import PtxFault
from .module import Instruction
from .steps import Decode, Machine, Step

_HINTS = ("L2::64B", "L2::128B", "L2::256B")


def copy_async(instruction: Instruction, machine: Machine) -> Step:
    """Return a function that executes ``cp.async``, or its commit or wait, for given threads."""
    kind = ".".join(instruction.qualifiers)
    if kind == "async.commit_group":
        return lambda on: machine.copies.commit(on.threads)
    if kind == "async.wait_all":
        return _wait(machine, 0, every=True)
    if kind == "async.wait_group":
        return _wait(machine, int(instruction.operands[0]))
    bare = tuple(q for q in instruction.qualifiers if q not in _HINTS)
    if bare[0] != "async" or bare[2:] != ("shared", "global") or bare[1] not in ("ca", "cg"):
        raise PtxFault(f"{instruction}: expected cp.async from global to shared memory")
    return _begin(instruction, machine, bare[1])


def _wait(machine: Machine, but: int, *, every: bool = False) -> Step:
    def step(on: Active) -> None:
        try:
            machine.copies.wait(on.mask, but, every=every)
        except LateFault as late:
            _fault(machine, late)

    return step


def _begin(instruction: Instruction, machine: Machine, cached: str) -> Step:
    to = addresses_of(instruction, machine, instruction.operands[0], "shared")
    source = addresses_of(instruction, machine, instruction.operands[1], "global")
    size = int(instruction.operands[2], 0)
    if size not in (4, 8, 16) or (cached == "cg" and size != 16):
        raise PtxFault(f"{instruction}: expected 4, 8 or 16 bytes, and 16 with '.cg'")
    length: Any = np.uint32(size)
    if len(instruction.operands) > 3:
        length = machine.registers.source(instruction.operands[3], np.dtype(np.uint32))

    def step(on: Active) -> None:
        read = np.broadcast_to(length, machine.threads)[on.lanes].astype(np.int64)
        try:
            machine.copies.begin(instruction, on.threads, to(on), source(on), read, size)
        except LateFault as late:
            _fault(machine, late)

    return step


def _fault(machine: Machine, late: LateFault) -> NoReturn:
    mask = np.zeros(machine.threads, np.bool_)
    mask[late.copy.threads] = True
    machine.fault(late.copy.instruction, Active(mask), late.refused, late.addresses, late.space)


DECODERS: dict[str, Decode] = {"cp": copy_async}
