"""Describes to native code how to run a program repeatedly, on other arrays in each run."""

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
    """The address of an input or output in each run of a program that runs repeatedly.

    In run ``i``, the tensor begins at byte ``first + i * stride`` of the array ``even`` if ``i`` is
    even, of the array ``odd`` if ``i`` is odd.

    Attributes:
        even: the array that contains the tensors of runs 0, 2, 4, ...
        odd: the array that contains the tensors of runs 1, 3, 5, ...
        stride: bytes that are added to the offset with each run.
        first: byte offset of run 0.
    """

    even: NDArray[Any]
    odd: NDArray[Any]
    stride: int
    first: int = 0

    @classmethod
    def fixed(cls, array: NDArray[Any]) -> Self:
        """Return the addresses of an array that is the same in all runs."""
        return cls(array, array, 0)

    @classmethod
    def along(cls, array: NDArray[Any], begin: int) -> Self:
        """Return the addresses of ``array[begin + i]`` in runs ``i`` = 0, 1, ...

        ``array`` is dense.
        """
        stride = array.strides[0] if array.ndim and len(array) else 0
        return cls(array, array, stride, begin * stride)


def described(
    steps: int,
    pointers: Sequence[tuple[int, Moving, int]],
    condition: NDArray[np.bool_] | None,
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the ``REPETITION`` structure and the ``MOVE`` array that ``rammer_repeat`` reads.

    ``rammer_repeat`` is the native function that runs a program repeatedly. A ``MOVE`` describes
    how a pointer of the program changes between runs. The ``REPETITION`` contains the address of
    the ``MOVE`` array, so the caller must keep both arrays alive.

    Args:
        steps: the greatest number of runs.
        pointers: for each pointer that changes: its index in the pointer table, its addresses over
            the runs, and a byte offset to add to these addresses.
        condition: the memory of a boolean output; the first run that writes False to it is the last
            run. None to always run ``steps`` times.
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
