"""Asynchronous copies from global to shared memory (PTX ISA: cp.async).

They arrive when their thread waits for their group and not before: until then their destination
counts as never written, and another thread sees them after a barrier only.
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
    """What some threads have begun with one instruction: a row for each of them.

    Attributes:
        instruction: which one.
        threads: the threads.
        groups: the group of each thread that it belongs to.
        to: shared addresses.
        source: global addresses.
        read: bytes that are copied; zeros follow.
        size: bytes that are written.
    """

    instruction: Instruction
    threads: Integers
    groups: Integers
    to: Integers
    source: Integers
    read: Integers
    size: int

    def part(self, chosen: Mask) -> Copy:
        """Return some of its rows."""
        return Copy(
            self.instruction, self.threads[chosen], self.groups[chosen], self.to[chosen],
            self.source[chosen], self.read[chosen], self.size,
        )  # fmt: skip


class LateFault(Exception):
    """A refused access of a copy when it arrives."""

    def __init__(self, copy: Copy, refused: Refused, addresses: Array, space: str) -> None:
        """Keep what the fault has to name."""
        super().__init__(refused.reason)
        self.copy, self.refused, self.addresses, self.space = copy, refused, addresses, space


class PendingCopies:
    """The copies of a block's threads that have not arrived."""

    def __init__(
        self, source: Memory, to: Memory, races: dict[str, BlockRaces], threads: int
    ) -> None:
        """Begin with none."""
        self._source, self._to, self._races = source, to, races
        self._groups = np.zeros(threads, np.int64)
        self._pending: list[Copy] = []

    def begin(self, instruction: Instruction, threads: Integers, to: Integers, source: Integers,
              read: Integers, size: int) -> None:  # fmt: skip
        """Let threads begin copies of ``size`` bytes."""
        copy = Copy(instruction, threads, self._groups[threads], to, source, read, size)
        words = Words(self._to, size if size < 8 else 8, max(1, size // 8))
        try:
            words.forget(to)
        except Refused as refused:
            raise LateFault(copy, refused, to, "shared") from refused
        self._pending.append(copy)

    def commit(self, threads: Integers) -> None:
        """End the current group of threads."""
        self._groups[threads] += 1

    def wait(self, mask: Mask, but: int, *, every: bool = False) -> None:
        """Let all groups of threads arrive but the last ones that they committed, or every copy."""
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
        """Return an instruction whose copies nothing has waited for."""
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
        """Tell of what arrived to the search for races."""
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
        """Refuse sources that are not aligned, and parts of words, which no rKernel reads."""
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
