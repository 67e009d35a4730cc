"""Who shares bytes of a value with whom: rules 3 and 4."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.checker.archive import Int64Array, ranges, require_few, starts
from rammer_mlir.checker.boxes import (
    Chain,
    Digits,
    Overlap,
    chain_of,
    digits_of,
    overlap,
    runs_of,
)  # fmt: skip
from rammer_mlir.checker.history import History
from rammer_mlir.checker.proof import (
    INOUT,
    INTERMEDIATE,
    OUTPUT,
    READ,
    UPDATE,
    WRITE,
    Access,
    Proof,
    Uses,
)  # fmt: skip
from rammer_mlir.errors import ScheduleError

_AT_ONCE = 1 << 21
"""Pairs of rTasks that are looked up at once."""

_MOST_WORK = 1 << 28
"""Pairs of parts and of rTasks that are compared, and more for each look-up."""

_LOOK_UP = 1 << 12


class Overlaps:
    """Overlaps of two accesses, each computed once for a distance of their pointers."""

    def __init__(self, accesses: list[Access]) -> None:
        self._pieces = [access.pieces for access in accesses]
        self._digits: dict[tuple[int, int, Chain], Digits] = {}

    def of(self, a: int, b: int, shift_a: int, shift_b: int) -> Overlap:
        """Return the pieces of two accesses that share bytes."""
        chain = chain_of(self._pieces[a], self._pieces[b])
        return overlap(self._split(a, shift_a, chain), self._split(b, shift_b, chain))

    def _split(self, access: int, shift: int, chain: Chain) -> Digits:
        key = access, shift % chain[-1], chain
        if key not in self._digits:
            self._digits[key] = digits_of(self._pieces[access], shift % chain[-1], chain)
        found, rows = self._digits[key], shift // chain[-1]
        return found.raised(rows) if rows else found


@dataclass
class Conflicts:
    """Checks each pair of uses of a value of which one may write."""

    proof: Proof
    uses: Uses
    history: History

    def __post_init__(self) -> None:
        uses, values = self.uses, self.proof.values
        self._accesses = [access for kernel in self.proof.accesses for access in kernel]
        self._overlaps = Overlaps(self._accesses)
        self._loose = values.kind == INOUT
        self._loose[uses.value[uses.effect == UPDATE]] = True
        counts = np.array([len(access.pieces.task) for access in self._accesses], np.int64)
        require_few(float(counts[uses.access].sum(dtype=float)), _MOST_WORK, "pieces")
        self._first = starts(counts[uses.access])
        self._written = np.zeros(self._first[-1], np.int64)
        self._work = 0

    def check(self) -> None:
        """Check rules 3 and 4.

        Raises:
            ScheduleError: naming the rTasks.
        """
        uses, history = self.uses, self.history
        a, b = self._pairs()
        loose, own = self._loose[uses.value[a]], uses.operator[a] == uses.operator[b]
        reads = (uses.effect[b] == READ) & (uses.effect[a] != READ)
        filled = (uses.effect == WRITE) & (uses.volume == uses.high - uses.low)
        inside = (uses.low[a] <= uses.low[b]) & (uses.high[b] <= uses.high[a])
        given = np.zeros(len(uses.value), bool)
        given[b[reads & filled[a] & inside & ~own & ~loose]] = True
        ordered = history.follow(uses.operator[a], uses.operator[b])
        once = (uses.effect[a] == WRITE) & (uses.effect[b] == WRITE) & ~loose
        needed = own | ~ordered | (reads & ~given[b]) | once
        self._look_up(a[needed], b[needed])
        self._check_reads(given)
        self._check_outputs()

    def _pairs(self) -> tuple[Int64Array, Int64Array]:
        """Return pairs of uses that may share bytes, the earlier rOperator's first.

        Of one rOperator's, the one that writes comes first.
        """
        uses = self.uses
        order = np.lexsort((uses.operator, uses.value))
        begin = np.searchsorted(uses.value[order], np.arange(len(self._loose) + 1))
        writers = np.flatnonzero(uses.effect != READ)
        counts = np.diff(begin)[uses.value[writers]]
        owner, at = ranges(begin[uses.value[writers]], counts)
        a, b = writers[owner], order[at]
        once = (uses.effect[b] == READ) | (a <= b)
        meet = (uses.low[a] < uses.high[b]) & (uses.low[b] < uses.high[a]) & once
        a, b = a[meet], b[meet]
        turned = uses.operator[a] > uses.operator[b]
        return np.where(turned, b, a), np.where(turned, a, b)

    def _look_up(self, a: Int64Array, b: Int64Array) -> None:
        """Check pairs of uses exactly, those of equal accesses at equal distance together."""
        uses = self.uses
        own = uses.operator[a] == uses.operator[b]
        group = np.zeros(len(a), np.int64)
        for key in (uses.access[a], uses.access[b], uses.shift[b] - uses.shift[a], own):
            number = np.unique(key, return_inverse=True)[1]
            group = np.unique(group * (len(a) + 1) + number, return_inverse=True)[1]
        members = np.argsort(group, kind="stable")
        for some in np.split(members, np.cumsum(np.bincount(group))[:-1]) if len(a) else ():
            x, y = a[some], b[some]
            shifts = int(uses.shift[x[0]]), int(uses.shift[y[0]])
            found = self._overlaps.of(int(uses.access[x[0]]), int(uses.access[y[0]]), *shifts)
            self._work += _LOOK_UP + found.compared + len(x) * len(found.volume)
            require_few(self._work, _MOST_WORK, "conflicts")
            if len(found.volume):
                (self._check_own if own[some[0]] else self._check_others)(x, y, found)

    def _check_others(self, a: Int64Array, b: Int64Array, found: Overlap) -> None:
        """Check the order of rOperators' rTasks, and count the bytes that the later one reads."""
        uses = self.uses
        twice = (uses.effect[a[0]], uses.effect[b[0]]) == (WRITE, WRITE)
        first, second = self._tasks(a[0], found.first), self._tasks(b[0], found.second)
        size = max(1, _AT_ONCE // len(first))
        for begin in range(0, len(a), size):
            x, y = a[begin : begin + size], b[begin : begin + size]
            one = self.history.base[uses.operator[x]][:, None] + first
            two = self.history.base[uses.operator[y]][:, None] + second
            good = self.history.precedes(one, two)
            if twice:
                good &= self._loose[uses.value[x]][:, None]
            if not good.all():
                row, at = np.unravel_index(int(np.argmin(good)), good.shape)
                self._refuse(x[row], int(one[row, at]), y[row], int(two[row, at]))
            self._count(y, found)

    def _check_own(self, a: Int64Array, b: Int64Array, found: Overlap) -> None:
        """Check uses by one rOperator, whose rTasks have no order."""
        uses = self.uses
        self._count(b[self._loose[uses.value[b]]], found)
        kinds = {int(uses.effect[a[0]]), int(uses.effect[b[0]])}
        if kinds in ({UPDATE}, {UPDATE, READ}):
            return
        first, second = self._tasks(a[0], found.first), self._tasks(b[0], found.second)
        other = first != second
        again = other
        if kinds == {WRITE}:
            again = other | (found.first != found.second) | (uses.access[a[0]] != uses.access[b[0]])
        for wrong, some in ((other, np.arange(len(a))), (again, ~self._loose[uses.value[a]])):
            if wrong.any() and len(a[some]):
                at, use = int(np.argmax(wrong)), int(a[some][0])
                base = int(self.history.base[uses.operator[use]])
                self._refuse(use, base + int(first[at]), int(b[some][0]), base + int(second[at]))

    def _count(self, b: Int64Array, found: Overlap) -> None:
        """Count the bytes of each piece that is read which are written."""
        if len(b) and self.uses.effect[b[0]] == READ:
            pieces = self._first[b][:, None] + found.second
            # NumPy 2.4's ``add.at`` reads beyond the end of values that it has to broadcast.
            np.add.at(self._written, pieces.ravel(), np.tile(found.volume, len(b)))

    def _tasks(self, use: int, pieces: Int64Array) -> Int64Array:
        return self._accesses[self.uses.access[use]].pieces.task[pieces]

    def _refuse(self, a: int, one: int, b: int, two: int) -> None:
        uses, does = self.uses, ("reads", "writes", "updates")
        kinds = uses.effect[a], uses.effect[b]
        wanted, found = "the first to end before the second starts", "no barriers that order them"
        if uses.operator[a] == uses.operator[b] or kinds == (WRITE, WRITE):
            wanted, found = "one rTask to write each byte, and no other to read it", "two"
        raise ScheduleError(
            f"rule 3 (ordered): {self.history.name(one)} {does[kinds[0]]} bytes of "
            f"{self.proof.values.names[uses.value[a]]} that {self.history.name(two)} "
            f"{does[kinds[1]]}: expected {wanted}, found {found}"
        )

    def _check_reads(self, given: NDArray[np.bool_]) -> None:
        """Check that what is read was written; of values that are updated, some of it."""
        uses, values = self.uses, self.proof.values
        made = (values.kind == OUTPUT) | (values.kind == INTERMEDIATE)
        todo = np.flatnonzero((uses.effect == READ) & made[uses.value] & ~given)
        for use in todo.tolist():
            pieces = self._accesses[uses.access[use]].pieces
            written = self._written[self._first[use] : self._first[use + 1]]
            missing = written < pieces.volume
            if self._loose[uses.value[use]]:
                some = np.zeros(pieces.task.max() + 1, bool)
                some[pieces.task[written > 0]] = True
                missing = ~some[pieces.task]
            if missing.any():
                task = self.history.base[uses.operator[use]] + pieces.task[np.argmax(missing)]
                raise ScheduleError(
                    f"rule 4 (defined): {self.history.name(int(task))} reads bytes of "
                    f"{values.names[uses.value[use]]}: expected rTasks of earlier rOperators to "
                    f"write them all, found {written[np.argmax(missing)]} of "
                    f"{pieces.volume[np.argmax(missing)]} bytes"
                )

    def _check_outputs(self) -> None:
        uses, values = self.uses, self.proof.values
        once = uses.effect == WRITE
        written = np.bincount(uses.value[once], uses.volume[once], len(values.kind))
        for value in np.flatnonzero(values.kind == OUTPUT).tolist():
            found = int(written[value])
            if self._loose[value]:
                found = self._union(np.flatnonzero((uses.value == value) & (uses.effect != READ)))
            if found != values.num_bytes[value]:
                raise ScheduleError(
                    f"rule 4 (defined): output {values.names[value]}: expected all its "
                    f"{values.num_bytes[value]} bytes to be written, found {found}"
                )

    def _union(self, uses: Int64Array) -> int:
        """Return how many bytes some uses touch together."""
        runs = [runs_of(self._accesses[self.uses.access[u]].pieces) for u in uses.tolist()]
        begin = np.concatenate([r[0] + s for r, s in zip(runs, self.uses.shift[uses], strict=True)])
        order = np.argsort(begin)
        begin, end = begin[order], begin[order] + np.concatenate([r[1] for r in runs])[order]
        reach = np.maximum.accumulate(np.concatenate((begin[:1], end[:-1])))
        return int(np.maximum(end - np.maximum(begin, reach), 0).sum())
