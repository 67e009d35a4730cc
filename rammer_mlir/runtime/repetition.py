"""Runs of a program that follow each other by themselves, each on other arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.programs.native_interface import MOVE, REPETITION
from rammer_mlir.support.aligned import address_of


@dataclass(frozen=True)
class Moving:
    """Where the array of an input or output is, run after run.

    Attributes:
        even: the array of run 0, and of every second one after it.
        odd: that of the runs between.
        stride: bytes that it moves on with each run.
        first: bytes from the array to where run 0 begins.
    """

    even: NDArray[Any]
    odd: NDArray[Any]
    stride: int
    first: int = 0

    @classmethod
    def fixed(cls, array: NDArray[Any]) -> Self:
        """Return what all runs share."""
        return cls(array, array, 0)

    @classmethod
    def along(cls, array: NDArray[Any], begin: int) -> Self:
        """Return the elements of a dense array along its first axis, from a position on."""
        stride = array.strides[0] if array.ndim and len(array) else 0
        return cls(array, array, stride, begin * stride)


def described(
    steps: int,
    pointers: Sequence[tuple[int, Moving, int]],
    condition: NDArray[np.bool_] | None,
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return what native code reads: the repetition, and the moves that it points to.

    Args:
        steps: the greatest number of runs.
        pointers: for each pointer that moves its number, its array, and its offset in that.
        condition: an output; the first run that leaves it false is the last one.
    """
    moves = np.zeros(max(len(pointers), 1), MOVE)
    for move, (number, moving, offset) in zip(moves, pointers, strict=False):
        offset += moving.first
        move["pointer"], move["stride"] = number, moving.stride
        move["even"] = address_of(moving.even) + offset
        move["odd"] = address_of(moving.odd) + offset
    found = np.zeros(1, REPETITION)
    found["steps"], found["num_moves"] = steps, len(pointers)
    found["moves"] = address_of(moves)
    found["condition"] = 0 if condition is None else address_of(condition)
    return found, moves
