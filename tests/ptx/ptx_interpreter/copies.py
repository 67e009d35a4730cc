"""Asynchronous copies from global to shared memory (PTX ISA: cp.async).

A copy arrives when its thread waits for the copy's group, and not before. Until then, the
destination counts as never written; other threads see the copy only after a barrier.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .arrays import Array, Integers, Mask
from .memory import Memory, Refused, Words
from .module import Instruction
from .races import BlockRaces


@dataclass
class Copy:
    """The asynchronous copies that an instruction begins; a row for each of its threads.

    Attributes:
        instruction: the instruction.
        threads: indices of the threads.
        groups: index of the copy group that each thread's copy belongs to.
        to: addresses in shared memory.
        source: addresses in global memory.
        read: number of bytes that each copy reads; the rest of the copy is filled with zeros.
        size: number of bytes that each copy writes.
    """

    instruction: Instruction
    threads: Integers
    groups: Integers
    to: Integers
    source: Integers
    read: Integers
    size: int

    def part(self, chosen: Mask) -> Copy:
        """Return the copies of the rows in the mask ``chosen``."""
        return Copy(
            self.instruction, self.threads[chosen], self.groups[chosen], self.to[chosen],
            self.source[chosen], self.read[chosen], self.size,
        )  # fmt: skip


class LateFault(Exception):
    """The error of an access of an asynchronous copy that a memory refuses.

    It is raised when the copy arrives, or when it begins if the destination is wrong. It names the
    copy's instruction, which may not be the one in execution.
    """

    def __init__(self, copy: Copy, refused: Refused, addresses: Array, space: str) -> None:
        """Store the copies, the error of the memory, and the addresses of the accesses.

        ``space`` is the state space of the addresses.
        """
        super().__init__(refused.reason)
        self.copy, self.refused, self.addresses, self.space = copy, refused, addresses, space


class PendingCopies:
    """The asynchronous copies of a block's threads that have not arrived yet."""

    def __init__(
        self, source: Memory, to: Memory, races: dict[str, BlockRaces], threads: int
    ) -> None:
        """Begin without copies.

        Args:
            source: global memory.
            to: shared memory of the block.
            races: race detectors by state space.
            threads: number of threads of the block.
        """
        self._source, self._to, self._races = source, to, races
        self._groups = np.zeros(threads, np.int64)
        self._pending: list[Copy] = []

    def begin(self, instruction: Instruction, threads: Integers, to: Integers, source: Integers,
              read: Integers, size: int) -> None:  # fmt: skip
        """Begin an asynchronous copy for each of ``threads``.

        Its destination counts as never written until it arrives.

        Args:
            instruction: the instruction.
            threads: indices of the threads.
            to: addresses in shared memory.
            source: addresses in global memory.
            read: number of bytes that each copy reads; the rest of the copy is filled with zeros.
            size: number of bytes that each copy writes.
        """
        copy = Copy(instruction, threads, self._groups[threads], to, source, read, size)
        words = Words(self._to, size if size < 8 else 8, max(1, size // 8))
        try:
            words.forget(to)
        except Refused as refused:
            raise LateFault(copy, refused, to, "shared") from refused
        self._pending.append(copy)

    def commit(self, threads: Integers) -> None:
        """End the current copy group of each of ``threads``; their next copies begin a new one."""
        self._groups[threads] += 1

    def wait(self, mask: Mask, but: int, *, every: bool = False) -> None:
        """Let copies of the threads in ``mask`` arrive.

        These are the copies of all committed groups but the last ``but`` groups of each thread;
        with ``every``, all copies.
        """
        rest: list[Copy] = []
        for copy in self._pending:
            limit = self._groups[copy.threads] - but
            done = mask[copy.threads] & ((copy.groups < limit) | every)
            if done.any():
                self._arrive(copy.part(done))
            if not done.all():
                rest.append(copy.part(~done))
        self._pending = rest

    def under_way(self) -> Instruction | None:
        """Return the instruction of a copy that has not arrived; None if all have arrived."""
        return self._pending[0].instruction if self._pending else None

    def _arrive(self, copy: Copy) -> None:
        unit = min(copy.size, 4)
        source, to = Words(self._source, unit), Words(self._to, unit)
        for begin in range(0, copy.size, unit):
            values = np.zeros(len(copy.threads), np.dtype(f"u{unit}"))
            whole = copy.read >= begin + unit
            self._check_whole(copy, begin, unit)
            try:
                values[whole] = source.load(copy.source[whole] + begin)
            except Refused as refused:
                raise LateFault(
                    copy.part(whole), refused, copy.source[whole] + begin, "global"
                ) from refused
            to.store(copy.to + begin, values)
        self._note(copy)

    def _note(self, copy: Copy) -> None:
        """Report the reads and writes of an arrived copy to the race detectors."""
        whole = copy.read == copy.size
        try:
            self._races["global"].read(copy.source[whole], copy.size, copy.threads[whole])
        except Refused as refused:
            raise LateFault(copy.part(whole), refused, copy.source[whole], "global") from refused
        try:
            self._races["shared"].write(copy.to, copy.size, copy.threads)
        except Refused as refused:
            raise LateFault(copy, refused, copy.to, "shared") from refused

    def _check_whole(self, copy: Copy, begin: int, unit: int) -> None:
        """Raise LateFault if a copy has a misaligned source, or reads a wrong number of bytes.

        The number is wrong if it is larger than the number of bytes that the copy writes, or if the
        copy reads only a part of its word of ``unit`` bytes that begins at byte ``begin``.
        """
        within = copy.read - begin
        odd: Any = ((within > 0) & (within < unit)) | (copy.read > copy.size)
        misaligned = (copy.source % copy.size != 0) & (copy.read > 0)
        if odd.any() or misaligned.any():
            reason = "misaligned" if misaligned.any() else "copied by less than a word"
            raise LateFault(
                copy,
                Refused(reason, misaligned if misaligned.any() else odd),
                copy.source,
                "global",
            )
