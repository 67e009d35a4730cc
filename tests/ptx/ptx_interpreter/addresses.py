"""Decoding of memory operands such as ``[%rd1+8]``, and their addresses."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from .active import Active
from .arrays import Integers
from .faults import PtxFault
from .module import Instruction
from .steps import Machine

_OPERAND = re.compile(r"\[\s*([$%\w]+)\s*(?:\+\s*(-?\d+))?\s*\]$")

SPACES = ("global", "shared", "param", "local", "const")

Addresses = Callable[[Active], Integers]


def space_of(instruction: Instruction) -> str:
    """Return the state space of a load or store, such as "shared".

    Without a state space, an address is generic, which is the same as a global address here.
    """
    qualifiers = [q.partition("::")[0] for q in instruction.qualifiers]
    return next((q for q in qualifiers if q in SPACES), "global")


def split_operand(instruction: Instruction, text: str) -> tuple[str, int]:
    """Return the register or symbol of a memory operand, and the constant that is added to it.

    For example, ``[%rd1+8]`` gives ``("%rd1", 8)``.
    """
    match = _OPERAND.match(text)
    if match is None:
        raise PtxFault(f"{instruction}: expected an address, found '{text}'")
    return match[1], int(match[2] or 0)


def addresses_of(instruction: Instruction, machine: Machine, text: str, space: str) -> Addresses:
    """Return a function that maps a set of threads to their addresses in a memory operand.

    ``text`` is the operand, ``space`` the state space of the instruction.
    """
    name, offset = split_operand(instruction, text)
    registers = machine.registers
    if name.startswith("%"):
        row = registers.row(name)
        if row.itemsize == 8:
            whole = row.view(np.int64)
            return lambda on: whole[on.lanes] + offset
        if row.itemsize != 4 or space != "shared":
            raise PtxFault(f"{instruction}: expected an address of 64 bits, found '{name}'")
        constant = np.uint32(offset % (1 << 32))
        return lambda on: (row[on.lanes] + constant).astype(np.int64)  # modulo 2^32
    address = int(registers.source(name, np.dtype(np.uint64))) + offset
    return lambda on: np.full(len(on.threads), address, np.int64)
