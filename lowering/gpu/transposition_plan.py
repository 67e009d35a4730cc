"""Element-wise operations that transpose an operand: which ones, and how a block stages it.

Neighbouring lanes compute neighbours of the result. Where an operand's neighbours lie along another
loop, each lane would fetch a sector of memory for one element of it; so the block loads squares of
the operand along *its* neighbours, and transposes them in shared memory. A plan, without any IR.
"""

from __future__ import annotations

from dataclasses import dataclass

SIDE = 32
"""Elements along the sides of a square: a warp's lanes."""

ROW = SIDE + 1
"""Elements from one row of a square to the next, so that its columns lie in different banks."""

LEAST_EXTENT = 16
"""Iterations of both loops, below which most of a square's elements are not needed."""


@dataclass(frozen=True)
class TransposedOperand:
    """An operand whose neighbours lie along another loop than the result's.

    Attributes:
        number: the operand's number.
        offset: bytes from the beginning of the staging memory to its square.
    """

    number: int
    offset: int


@dataclass(frozen=True)
class TranspositionPlan:
    """How a block computes an element-wise operation that transposes operands.

    Attributes:
        across: the loop along which neighbours of the result lie.
        along: the loop along which the transposed operands' neighbours lie.
        operands: those that are transposed.
        shared_bytes: of their squares.
    """

    across: int
    along: int
    operands: tuple[TransposedOperand, ...]
    shared_bytes: int


def plan_transposition(
    across: int, along: int, element_bytes: dict[int, int], shared_limit: int
) -> TranspositionPlan | None:
    """Return the plan for transposed operands, None if their squares do not fit.

    Args:
        across: the loop along which neighbours of the result lie.
        along: that of the operands.
        element_bytes: size of an element, by the operand's number.
        shared_limit: bytes of shared memory for squares.
    """
    operands: list[TransposedOperand] = []
    offset = 0
    for number, size in element_bytes.items():
        operands.append(TransposedOperand(number, offset))
        offset += -(-SIDE * ROW * size // 16) * 16
    if offset > shared_limit:
        return None
    return TranspositionPlan(across, along, tuple(operands), offset)
