"""Detection of data races: accesses that no barrier, acquire or release orders.

The phase of a block is the number of barriers that it has passed. The knowledge of a block about
other blocks is a vector clock of phases. A release publishes the block's own phases before its last
barrier, together with the block's knowledge. An acquire of the same address adds the published
phases to the acquiring block's knowledge, from its next barrier on (Lamport, Time, clocks, and the
ordering of events, 1978; PTX ISA: Memory Consistency Model).
"""

from __future__ import annotations

import numpy as np

from .arrays import Array, Integers
from .memory import Memory, Refused

_PHASE, _BLOCK = 12, 40
_MANY = (1 << _PHASE) - 1
"""Thread index in a stamp that stands for several threads of a block."""


class Races:
    """The last writer and the last readers of each granule of a memory in a launch.

    A granule has the size of the smallest access. A writer or reader is stored as a stamp ``block +
    1 << 40 | phase << 12 | thread``. Only readers of one block are kept; several readers in one
    phase are stored as a mark for "several".
    """

    def __init__(self, memory: Memory, blocks: int, granule: int) -> None:
        """Begin a launch of ``blocks`` blocks on a memory.

        ``granule`` is the size in bytes of the smallest access.
        """
        self.shift = granule.bit_length() - 1
        self.base = memory.base
        self.writer = np.zeros(memory.capacity >> self.shift, np.int64)
        self.reader = np.zeros(len(self.writer), np.int64)  # zeros_like would touch every page
        self.seen = np.zeros((blocks, blocks + 1), np.int64)
        """``seen[a, b]``: last phase of block b that block a knows; b = -1 stands for no block."""
        self.published: dict[int, Integers] = {}

    def of_block(self, block: int) -> BlockRaces:
        """Return the object that the accesses of block ``block`` are reported to."""
        return BlockRaces(self, block)


class BlockRaces:
    """The race detector of a block: accesses are reported to it, and checked."""

    def __init__(self, races: Races, block: int) -> None:
        """Begin in the phase before the first barrier."""
        self._all, self._block = races, block
        self._phase = 1
        self._acquired = np.zeros_like(races.seen[block])

    def next_phase(self) -> None:
        """Pass a barrier: the block's earlier accesses now precede all its later ones.

        The phases of other blocks that the block has acquired precede its later accesses, too.
        """
        seen = self._all.seen[self._block]
        np.maximum(seen, self._acquired, out=seen)
        seen[self._block] = self._phase
        self._phase += 1

    def release(self, addresses: Integers) -> None:
        """Publish at each address the phases that precede the block's last barrier."""
        for address in addresses.tolist():
            self._all.published[address] = self._all.seen[self._block].copy()

    def acquire(self, addresses: Integers) -> None:
        """Learn the phases that were published at each address."""
        for address in np.unique(addresses).tolist():
            if address in self._all.published:
                np.maximum(self._acquired, self._all.published[address], out=self._acquired)

    def read(
        self, addresses: Integers, size: int, threads: Integers, used: Array | None = None
    ) -> None:
        """Check reads of ``size`` bytes, and record ``threads`` as the last readers.

        ``used`` has for each word of a vector whether the program uses it; None if it uses all.
        Raises Refused for a data race.
        """
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
        """Check writes of ``size`` bytes, and record ``threads`` as the last writers.

        Raises Refused for a data race.
        """
        places, stamps = self._places(addresses, size, None), self._stamps(threads)
        bad = self._unordered(self._all.writer[places], stamps)
        bad |= self._unordered(self._all.reader[places], stamps)
        self._all.writer[places] = stamps
        bad |= self._all.writer[places] != stamps
        if bad.any():
            raise Refused("written in a data race", bad.max(axis=1))

    def _places(self, addresses: Integers, size: int, used: Array | None) -> Integers:
        """Return the indices of the granules of each access, as an array [threads, granules].

        The granules of words that the program does not use, by ``used``, are left out.
        """
        first = (addresses - self._all.base) >> self._all.shift
        steps = np.arange(max(1, size >> self._all.shift))
        if used is not None:
            steps = steps[np.repeat(used, len(steps) // len(used))]
        return first[:, None] + steps

    def _stamps(self, threads: Integers) -> Integers:
        return (threads | self._phase << _PHASE | (self._block + 1) << _BLOCK)[:, None]

    def _unordered(self, found: Array, stamps: Array) -> Array:
        """Return a mask of the accesses that race with an earlier access.

        A stamp identifies block, phase and thread of an access: ``found`` has the stamps of earlier
        accesses, ``stamps`` those of the new ones. Two accesses race if their threads differ and
        the block does not know the phase of the earlier access.
        """
        phases = found >> _PHASE & (1 << _BLOCK - _PHASE) - 1
        return (phases > self._all.seen[self._block][(found >> _BLOCK) - 1]) & (found != stamps)
