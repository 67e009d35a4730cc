"""The weights of a program, in one piece of memory or in several.

A program counts the bytes of its weights from the first one on. The CPU's pointer table has an
address for each slot, so that equal weights of several programs can lie in memory once.
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
        parts: uint8, one after the other; each begins at a multiple of 64 bytes in memory.
    """

    parts: tuple[Bytes, ...]

    @property
    def nbytes(self) -> int:
        """Size of all weights."""
        return sum(part.nbytes for part in self.parts)

    @property
    def pieces(self) -> tuple[memoryview, ...]:
        """The parts' memory."""
        return tuple(part.data for part in self.parts)

    @property
    def starts(self) -> list[int]:
        """The byte of the program's weights that each part begins with."""
        return [0, *accumulate(part.nbytes for part in self.parts)][:-1]

    def addresses(self, offsets: Iterable[int]) -> list[int]:
        """Return the address of each of some bytes."""
        starts = self.starts
        addresses = [part.ctypes.data for part in self.parts]
        numbers = [(offset, max(bisect_right(starts, offset) - 1, 0)) for offset in offsets]
        return [addresses[number] + offset - starts[number] for offset, number in numbers]

    def divided(self, starts: Iterable[int]) -> Constants:
        """Return the same memory as parts that begin at these bytes, in ascending order.

        Only weights in one piece can be divided.
        """
        (whole,) = self.parts
        bounds = [*starts, whole.nbytes]
        return Constants(tuple(whole[a:b] for a, b in pairwise(bounds) if a < b))
