"""Exchange between the threads of a warp (PTX ISA: shfl.sync, vote.sync, activemask, redux)."""

from __future__ import annotations

import numpy as np

from .active import Active
from .arrays import Array
from .faults import PtxFault
from .module import Instruction
from .steps import Decode, Machine, Step

WARP = 32
_FULL = 0xFFFFFFFF


def _check_mask(instruction: Instruction, text: str) -> None:
    """Raise PtxFault if ``text``, the operand with the threads of an exchange, is not a whole warp.

    A mask in a register is not checked.
    """
    if not text.startswith("%") and int(text, 0) % (1 << 32) != _FULL:
        raise PtxFault(f"{instruction}: expected all threads of a warp, found mask {text}")


def partners(mode: str, offset: Array, clamp: Array, lane: Array) -> tuple[Array, Array]:
    """Return the lane that each lane reads in a shuffle, and whether its partner is in its segment.

    A segment is one of the equal groups of adjacent lanes into which the shuffle divides a warp. A
    lane whose partner is outside of its segment reads itself. ``mode`` is "up", "down", "bfly" or
    "idx", ``offset`` the operand b. ``clamp`` is the operand c: the lowest or highest lane in bits
    0 to 4, the mask of the lanes' segment in bits 8 to 12.
    """
    limit, segment = clamp & 31, clamp >> 8 & 31
    highest = (lane & segment) | (limit & ~segment)
    lowest = lane & segment
    offset = offset & 31
    if mode == "up":
        source = lane - offset
        inside = source >= highest
    elif mode == "down":
        source = lane + offset
        inside = source <= highest
    elif mode == "bfly":
        source = lane ^ offset
        inside = source <= highest
    elif mode == "idx":
        source = lowest | (offset & ~segment)
        inside = source <= highest
    else:
        raise PtxFault(f"expected shfl.sync's up, down, bfly or idx, found '{mode}'")
    return np.where(inside, source, lane), inside


def _shuffle(instruction: Instruction, machine: Machine) -> Step:
    """Return a function that executes ``shfl.sync`` for given warps."""
    _check_mask(instruction, instruction.operands[4])
    mode = instruction.qualifiers[1]
    word = np.dtype(np.uint32)
    names = instruction.operands[0].split("|")
    to = machine.registers.target(names[0], word)
    valid = machine.registers.target(names[1] if names[1:] else "_", np.dtype(np.bool_))
    value = machine.registers.source(instruction.operands[1], word)
    offset, clamp = (machine.registers.source(t, word) for t in instruction.operands[2:4])
    threads = np.arange(machine.threads)

    def step(on: Active) -> None:
        lanes = threads % WARP
        source, inside = partners(
            mode, np.asarray(offset).astype(np.int64), np.asarray(clamp).astype(np.int64), lanes
        )
        found = np.broadcast_to(value, machine.threads)[threads - lanes + source]
        np.copyto(to, found, where=on.where)
        np.copyto(valid, inside, where=on.where)

    return step


def _ballot(votes: Array) -> Array:
    return (votes.astype(np.uint64) << np.arange(WARP, dtype=np.uint64)).sum(1)


def _any(votes: Array) -> Array:
    return votes.max(1)


def _all(votes: Array) -> Array:
    return votes.min(1)


def _uniform(votes: Array) -> Array:
    return votes.max(1) == votes.min(1)


_VOTES = {"any": _any, "all": _all, "uni": _uniform, "ballot": _ballot}


def _vote(instruction: Instruction, machine: Machine) -> Step:
    """Return a function that executes ``vote.sync`` for given warps."""
    _check_mask(instruction, instruction.operands[2])
    mode = instruction.qualifiers[1]
    truth = np.dtype(np.bool_)
    text = instruction.operands[1]
    source = machine.registers.source(text.lstrip("!"), truth)
    target = np.dtype(np.uint32) if mode == "ballot" else truth
    to = machine.registers.target(instruction.operands[0], target)
    count = _VOTES[mode]

    def step(on: Active) -> None:
        values = np.broadcast_to(source, machine.threads) ^ text.startswith("!")
        found = np.repeat(count(values.reshape(-1, WARP)), WARP)
        np.copyto(to, found.astype(target), where=on.where)

    return step


DECODERS: dict[str, Decode] = {"shfl": _shuffle, "vote": _vote}
