"""Plans how a block computes an element-wise operation that transposes operands.

Adjacent lanes compute adjacent elements of the result. If an operand is contiguous along another
loop, its accesses are uncoalesced: each lane would fetch a memory sector for a single element. So
the block loads the operand in squares of ``SIDE`` by ``SIDE`` elements, with adjacent lanes along
the operand's contiguous dimension, and transposes each square in shared memory.
"""

from __future__ import annotations

from dataclasses import dataclass

from rammer_mlir.lowering.gpu.bank_conflicts import padded_side

SIDE = 32
"""Number of elements along each side of a square: a warp's lanes."""

ROW = padded_side(SIDE)
"""Row stride of a square in elements."""

LEAST_EXTENT = 16
"""Smallest extent of both loops with which most of a square's elements are used."""


@dataclass(frozen=True)
class TransposedOperand:
    """An operand that is contiguous along another loop than the result.

    Attributes:
        number: the operand's index.
        offset: byte offset in the staging memory of the square of ``SIDE`` by ``SIDE`` elements
            through which the operand is transposed.
    """

    number: int
    offset: int


@dataclass(frozen=True)
class TranspositionPlan:
    """Plan of a block's element-wise operation with transposed operands.

    Attributes:
        across: the loop along which the result is contiguous.
        along: the loop along which the transposed operands are contiguous.
        operands: the transposed operands.
        shared_bytes: bytes of shared memory for a square of each operand, ``SIDE`` by ``SIDE``
            elements with padded rows.
    """

    across: int
    along: int
    operands: tuple[TransposedOperand, ...]
    shared_bytes: int


def plan_transposition(
    across: int, along: int, element_bytes: dict[int, int], shared_limit: int
) -> TranspositionPlan | None:
    """Return the plan for transposed operands; None if their squares exceed shared memory.

    A square is the ``SIDE`` by ``SIDE`` elements of an operand that the block transposes at a time.

    Args:
        across: the loop along which the result is contiguous.
        along: the loop along which the transposed operands are contiguous.
        element_bytes: bytes of an element of each transposed operand, by the operand's index.
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
