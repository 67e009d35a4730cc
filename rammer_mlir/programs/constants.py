"""Stores the weights of a program, in one or several memory blocks.

A program addresses its weights by byte offsets, as if they were consecutive in memory. The pointer
table of a CPU program has a memory address for each weight. Equal weights of several programs can
therefore share memory.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class Constants:
    """All weights of a program.

    Attributes:
        parts: memory blocks (uint8 arrays), in the order of the weights' offsets. Each block begins
            at an address that is a multiple of 64.
    """

    parts: tuple[Bytes, ...]

    @property
    def nbytes(self) -> int:
        """The total size of all weights in bytes."""
        return sum(part.nbytes for part in self.parts)

    @property
    def pieces(self) -> tuple[memoryview, ...]:
        """Views of the memory blocks, in order."""
        return tuple(part.data for part in self.parts)

    @property
    def starts(self) -> list[int]:
        """Byte offset of each memory block within the program's weights."""
        return [0, *accumulate(part.nbytes for part in self.parts)][:-1]

    def addresses(self, offsets: Iterable[int]) -> list[int]:
        """Return the memory address of the byte at each offset within the program's weights."""
        starts = self.starts
        addresses = [part.ctypes.data for part in self.parts]
        numbers = [(offset, max(bisect_right(starts, offset) - 1, 0)) for offset in offsets]
        return [addresses[number] + offset - starts[number] for offset, number in numbers]

    def divided(self, starts: Iterable[int]) -> Constants:
        """Return the same weights, divided into memory blocks that begin at the given byte offsets.

        The memory is shared, not copied. The weights must be in a single block. ``starts`` is
        ascending and begins with 0; empty blocks are left out.
        """
        (whole,) = self.parts
        bounds = [*starts, whole.nbytes]
        return Constants(tuple(whole[a:b] for a, b in pairwise(bounds) if a < b))
