"""Data races: accesses that neither barriers nor acquire and release put into an order.

Each block counts its barriers: its phases. What a block has seen of the others is a vector clock of
phases. A release publishes what its block's barriers have put after it, together with what that
block has seen; an acquire of the same place makes that known to its block from its next barrier on
(Lamport, Time, clocks, and the ordering of events, 1978; PTX ISA: Memory Consistency Model).
"""

from __future__ import annotations

import numpy as np

from .arrays import Array, Integers
from .memory import Memory, Refused

_PHASE, _BLOCK = 12, 40
_MANY = (1 << _PHASE) - 1
"""Stands for several threads of a block."""


class Races:
    """Who wrote and read each granule of a memory last, in one launch.

    A stamp is ``block + 1 << 40 | phase << 12 | thread``; of the readers, those of one block are
    kept, and of several in one phase only that there are several.
    """

    def __init__(self, memory: Memory, blocks: int, granule: int) -> None:
        """Begin a launch; ``granule`` is the size of the smallest access."""
        self.shift = granule.bit_length() - 1
        self.base = memory.base
        self.writer = np.zeros(memory.capacity >> self.shift, np.int64)
        self.reader = np.zeros(len(self.writer), np.int64)  # zeros_like would touch every page
        self.seen = np.zeros((blocks, blocks + 1), np.int64)
        """Phases of each block that a block has seen; the last column is for no block at all."""
        self.published: dict[int, Integers] = {}

    def of_block(self, block: int) -> BlockRaces:
        """Return what a block's accesses are told to."""
        return BlockRaces(self, block)


class BlockRaces:
    """The accesses of one block."""

    def __init__(self, races: Races, block: int) -> None:
        """Begin before the first barrier."""
        self._all, self._block = races, block
        self._phase = 1
        self._acquired = np.zeros_like(races.seen[block])

    def next_phase(self) -> None:
        """Put everything that the block did, and acquired, before everything that it will do."""
        seen = self._all.seen[self._block]
        np.maximum(seen, self._acquired, out=seen)
        seen[self._block] = self._phase
        self._phase += 1

    def release(self, addresses: Integers) -> None:
        """Publish at addresses what the block's barriers have put after them."""
        for address in addresses.tolist():
            self._all.published[address] = self._all.seen[self._block].copy()

    def acquire(self, addresses: Integers) -> None:
        """Learn what was published at addresses."""
        for address in np.unique(addresses).tolist():
            if address in self._all.published:
                np.maximum(self._acquired, self._all.published[address], out=self._acquired)

    def read(
        self, addresses: Integers, size: int, threads: Integers, used: Array | None = None
    ) -> None:
        """Check and note reads of ``size`` bytes each, of which ``used`` says what matters."""
        places, stamps = self._places(addresses, size, used), self._stamps(threads)
        bad = self._unordered(self._all.writer[places], stamps)
        if bad.any():
            raise Refused("read in a data race", bad.max(axis=1))
        reader = self._all.reader
        several = self._unordered(reader[places], stamps)
        many = stamps | _MANY
        new = np.where(several, many, stamps)
        reader[places] = new
        again = reader[places] != new
        if again.any():
            reader[places[again]] = many[0]

    def write(self, addresses: Integers, size: int, threads: Integers) -> None:
        """Check and note writes of ``size`` bytes each."""
        places, stamps = self._places(addresses, size, None), self._stamps(threads)
        bad = self._unordered(self._all.writer[places], stamps)
        bad |= self._unordered(self._all.reader[places], stamps)
        self._all.writer[places] = stamps
        bad |= self._all.writer[places] != stamps
        if bad.any():
            raise Refused("written in a data race", bad.max(axis=1))

    def _places(self, addresses: Integers, size: int, used: Array | None) -> Integers:
        """Return the granules of each access, [threads, granules]."""
        first = (addresses - self._all.base) >> self._all.shift
        steps = np.arange(max(1, size >> self._all.shift))
        if used is not None:
            steps = steps[np.repeat(used, len(steps) // len(used))]
        return first[:, None] + steps

    def _stamps(self, threads: Integers) -> Integers:
        return (threads | self._phase << _PHASE | (self._block + 1) << _BLOCK)[:, None]

    def _unordered(self, found: Array, stamps: Array) -> Array:
        """Return where an earlier access is another thread's, and not after a barrier."""
        phases = found >> _PHASE & (1 << _BLOCK - _PHASE) - 1
        return (phases > self._all.seen[self._block][(found >> _BLOCK) - 1]) & (found != stamps)
