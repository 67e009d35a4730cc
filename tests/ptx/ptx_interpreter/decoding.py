"""Decoding: the table of all instructions, which maps each to a function that executes it."""

from __future__ import annotations

from . import accesses, conversions, copying, floats, integers, matrices, warps
from .active import Active
from .faults import PtxFault
from .module import Instruction
from .steps import Decode, Machine, Step

_ALL: dict[str, Decode] = (
    conversions.DECODERS | accesses.DECODERS | copying.DECODERS | warps.DECODERS | matrices.DECODERS
)
_FLOATS = ("f16", "f32", "f64", "bf16")

WARP_WIDE = (*warps.DECODERS, *matrices.DECODERS)
"""Instructions that all threads of a warp execute together."""


def decode(instruction: Instruction, machine: Machine) -> Step:
    """Return a function that executes an instruction, which is no branch or barrier.

    Raises:
        PtxFault: if the instruction is unknown, or its operands do not fit.
    """
    name = instruction.name
    is_float = any(q in _FLOATS for q in instruction.qualifiers)
    table = _ALL if name in _ALL else floats.DECODERS if is_float else integers.DECODERS
    if name not in table:
        raise PtxFault(f"{instruction}: unknown instruction")
    try:
        step = table[name](instruction, machine)
    except (IndexError, KeyError, ValueError) as error:
        raise PtxFault(f"{instruction}: expected other qualifiers or operands") from error
    except PtxFault as fault:
        if str(fault).startswith("line "):
            raise
        raise PtxFault(f"{instruction}: {fault}") from fault
    return step if instruction.guard is None else _guarded(instruction, machine, step)


def _guarded(instruction: Instruction, machine: Machine, step: Step) -> Step:
    def guarded(on: Active) -> None:
        chosen = on.only(machine.registers.predicate(instruction))
        if len(chosen.threads):
            step(chosen)

    return guarded
