"""Data races on a block's shared memory between two of its barriers."""

from __future__ import annotations

import numpy as np

from .arrays import Array, Integers
from .memory import Memory, Refused

_PHASE = 12
_MANY = (1 << _PHASE) - 1


class Races:
    """Who wrote and read each granule last, and after how many barriers of the block.

    A stamp is ``phase << 12 | thread + 1``; of several readers in one phase only that there are
    several is kept.
    """

    def __init__(self, memory: Memory, granule: int) -> None:
        """Begin before the first barrier; ``granule`` is the size of the smallest access."""
        self._granule = granule.bit_length() - 1
        self._base = memory.base
        self._writer = np.zeros(memory.capacity >> self._granule, np.int64)
        self._reader = np.zeros_like(self._writer)
        self._phase = 1

    def next_phase(self) -> None:
        """Everything so far happened before everything from now on."""
        self._phase += 1

    def _places(self, addresses: Integers, size: int) -> Integers:
        """Return the granules of each access, [threads, granules]."""
        first = (addresses - self._base) >> self._granule
        return first[:, None] + np.arange(max(1, size >> self._granule))

    def _foreign(self, found: Array, stamps: Array) -> Array:
        return (found >> _PHASE == self._phase) & (found != stamps)

    def read(self, addresses: Integers, size: int, threads: Integers) -> None:
        """Check and note reads."""
        places = self._places(addresses, size)
        stamps = (self._phase << _PHASE | threads + 1)[:, None]
        bad = self._foreign(self._writer[places], stamps)
        if bad.any():
            raise Refused("read in a data race", bad.max(axis=1))
        several = self._foreign(self._reader[places], stamps)
        many = self._phase << _PHASE | _MANY
        new = np.where(several, many, stamps)
        self._reader[places] = new
        self._reader[places[self._reader[places] != new]] = many

    def write(self, addresses: Integers, size: int, threads: Integers) -> None:
        """Check and note writes."""
        places = self._places(addresses, size)
        stamps = (self._phase << _PHASE | threads + 1)[:, None]
        bad = self._foreign(self._writer[places], stamps)
        bad |= self._foreign(self._reader[places], stamps)
        self._writer[places] = stamps
        bad |= self._writer[places] != stamps
        if bad.any():
            raise Refused("written in a data race", bad.max(axis=1))
