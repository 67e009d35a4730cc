"""Rules 3 to 5: which rTasks touch the same bytes of which values."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from rammer_mlir.checker.artifact import (
    ARENA,
    CONSTANT,
    EFFECTS,
    INOUT,
    INPUT,
    MOST,
    OUTPUT,
    Array,
    Artifact,
    entries,
    refuse,
    require_few,
    starts,
)  # fmt: skip
from rammer_mlir.checker.schedule import MOST_CLOCKS, Schedule
from rammer_mlir.errors import ScheduleError

READ, WRITE, UPDATE = range(3)

_AT_ONCE, _MOST_WORK = 1 << 21, 1 << 28
"""Pairs of rTasks that are looked up at once, and in all."""


def check_places(artifact: Artifact) -> None:
    """Check where values are: inputs and outputs fill buffers, constants follow each other."""
    (base, index, offset), sizes, num_bytes = artifact.places.T, artifact.sizes, artifact.num_bytes
    buffer = starts([*map(len, sizes)])[base] + index
    room = np.concatenate(sizes)[buffer]
    size, begin = np.where(base >= CONSTANT, num_bytes, room), np.where(base == ARENA, offset, 0)
    constants = np.flatnonzero(base == CONSTANT)
    constants = constants[np.argsort(offset[constants], kind="stable")]
    begin[constants] = starts(np.maximum(-(-num_bytes[constants] // 64), 1) * 64)[:-1]
    wrong = (offset != begin) | (begin < 0) | (num_bytes != size) | (begin + size > room)
    wrong |= base != np.where(artifact.kind == INOUT, INPUT, artifact.kind)
    whole = (base < CONSTANT) & (size > 0)
    wrong |= whole & (np.bincount(buffer[whole], minlength=sum(map(len, sizes)))[buffer] > 1)
    refuse(wrong, lambda at: (
        f"rule 5 (memory): {artifact.values[at]} has {num_bytes[at]} bytes from byte {offset[at]} "
        f"on: expected {size[at]} from byte {begin[at]} on in a buffer of its kind, of {room[at]}"
    ))  # fmt: skip
    part = np.searchsorted(artifact.parts, offset[constants], side="right")
    end = artifact.parts[np.minimum(part, len(artifact.parts) - 1)]
    torn = offset[constants] + num_bytes[constants] > end
    refuse(torn, lambda at: (
        f"rule 5 (memory): {artifact.values[constants[at]]}: expected a constant in one part of "
        "constants.bin, found one in several"
    ))  # fmt: skip
    missing = np.setdiff1d(np.flatnonzero(sizes[OUTPUT]), index[artifact.kind == OUTPUT])
    if len(missing):
        raise ScheduleError(f"rule 4 (defined): expected a value for output {missing[0]}")


def _overlap(a: Array, b: Array, distance: int) -> tuple[Array, Array, Array]:
    """Return pairs of runs, b's moved by a distance, that share bytes, and how many bytes."""
    begin, end = b[1:3] + distance
    first, last = np.searchsorted(a[3], begin, side="right"), np.searchsorted(a[1], end)
    j, place = entries(np.maximum(last - first, 0))
    i = first[j] + place
    common = np.minimum(a[2, i], end[j]) - np.maximum(a[1, i], begin[j])
    return i[common > 0], j[common > 0], common[common > 0]


class Uses:
    """Each access by each rOperator, in the sequential order, if it has bytes.

    Columns are ``operator``, ``value``, ``effect``, ``boxes``, ``shift`` (bytes from the value's
    begin to the pointer) and ``low`` to ``high - 1``, the bytes of the value.
    """

    def __init__(self, artifact: Artifact, schedule: Schedule) -> None:
        self._artifact, self._schedule = artifact, schedule
        kernel = np.searchsorted(artifact.accesses[:, 0], np.arange(len(artifact.num_rtasks) + 1))
        operator, place = entries(np.diff(kernel)[artifact.kernels])
        require_few(len(operator), "accesses of rOperators", 1 << 20)
        access = artifact.accesses[kernel[artifact.kernels[operator]] + place]
        bounds = np.array([boxes.bounds for boxes in artifact.boxes], np.int64).reshape(-1, 2)
        low, high = bounds[access[:, 3]].T
        use = np.flatnonzero(low < high)
        self.operator, (_, argument, self.effect, self.boxes) = operator[use], access[use].T
        self.value, self.shift = (
            column[artifact.first[self.operator] + argument]
            for column in (artifact.value, artifact.byte)
        )
        self.low, self.high = low[use] + self.shift, high[use] + self.shift
        self.updated = artifact.kind == INOUT
        self.updated[self.value[self.effect == UPDATE]] = True
        self._by_value = np.argsort(self.value, kind="stable")
        values = np.arange(len(artifact.values) + 1)
        self._begin = np.searchsorted(self.value[self._by_value], values)
        self._written: dict[int, list[Array]] = defaultdict(list)
        self._listed, self._num_runs = set[int](), 0
        self._complete, self._work = set[tuple[int, ...]](), 0

    def check(self) -> None:
        """Check the rules."""
        artifact, kind = self._artifact, self._artifact.kind[self.value]
        wrong = (self.low < 0) | (self.high > artifact.num_bytes[self.value])
        wrong |= (self.effect != READ) & ((kind == INPUT) | (kind == CONSTANT))
        refuse(wrong, lambda use: (
            f"rule 5 (memory): {artifact.names[self.operator[use]]} {EFFECTS[self.effect[use]]} "
            f"bytes {self.low[use]} to {self.high[use] - 1} of {artifact.values[self.value[use]]}: "
            f"expected bytes of it, and no writes to an input or a constant"
        ))  # fmt: skip
        self._compare(*self._pairs())
        for use in np.flatnonzero((self.effect == READ) & ((kind == OUTPUT) | (kind == ARENA))):
            self._check_read(int(use))
        for value in np.flatnonzero(artifact.kind == OUTPUT):
            self._check_output(int(value))
        self._check_sharing()

    def _runs(self, use: int) -> Array:
        """Return the bytes of a use from the pointer on; those of all boxes are limited."""
        found = self._artifact.boxes[self.boxes[use]].runs
        if self.boxes[use] not in self._listed:
            self._listed.add(self.boxes[use])
            self._num_runs += found.shape[1]
            require_few(self._num_runs, "runs of bytes")
        return found

    def _pairs(self) -> tuple[Array, Array]:
        """Return pairs of uses that may share bytes and of which one writes, in order."""
        order, begin = self._by_value, self._begin
        writer = np.flatnonzero(self.effect != READ)
        number, place = entries(np.diff(begin)[self.value[writer]])
        a, b = writer[number], order[begin[self.value[writer[number]]] + place]
        meet = (self.low[a] < self.high[b]) & (self.low[b] < self.high[a])
        a, b = (use[meet & ((self.effect[b] == READ) | (a <= b))] for use in (a, b))
        turned = self.operator[a] > self.operator[b]
        return np.where(turned, b, a), np.where(turned, a, b)

    def _compare(self, a: Array, b: Array) -> None:
        """Compare pairs of uses exactly, those of equal boxes at equal distance together."""
        own, updated = self.operator[a] == self.operator[b], self.updated[self.value[a]]
        distance, kinds = self.shift[b] - self.shift[a], self.effect[a] * 3 + self.effect[b]
        keys = np.stack((self.boxes[a], self.boxes[b], distance, kinds, own, updated, a == b))
        order = np.lexsort(keys)
        cuts = np.flatnonzero(np.diff(keys[:, order]).any(axis=0)) + 1
        require_few(len(cuts), "different pairs of accesses that share bytes", 1 << 16)
        for group in np.split(order, cuts) if len(a) else ():
            x, y = a[group], b[group]
            first, second = (self._runs(int(use[0])) for use in (x, y))
            i, j, common = _overlap(first, second, int(distance[group[0]]))
            self._work += len(i) + first.shape[1] + second.shape[1]
            apart = (x[0] != y[0]) | (i != j)
            self._check_order(x, y, np.unique(first[0, i[apart]] * MOST + second[0, j[apart]]))
            if self.effect[y[0]] == READ and (updated[group[0]] or not own[group[0]]):
                written = np.bincount(j, common, second.shape[1]).astype(np.int64)
                for use in y.tolist():
                    self._written[use].append(written)

    def _check_order(self, a: Array, b: Array, pairs: Array) -> None:
        """Check pairs of rTasks that share bytes, of each of some equal pairs of uses."""
        self._work += len(a) * len(pairs)
        require_few(self._work, "pairs that share bytes", _MOST_WORK)
        own = self.operator[a[0]] == self.operator[b[0]]
        kinds = set(self.effect[[a[0], b[0]]].tolist())
        for begin in range(0, len(a), 1 + _AT_ONCE // (len(pairs) + 1)):
            some = slice(begin, begin + 1 + _AT_ONCE // (len(pairs) + 1))
            one, two = (
                self._schedule.base[self.operator[uses[some]]][:, None] + tasks
                for uses, tasks in zip((a, b), np.divmod(pairs, MOST), strict=True)
            )
            free = (one == two) | (kinds in ({UPDATE}, {UPDATE, READ}))
            good = free if own else self._schedule.precedes(one, two)
            if kinds == {WRITE} and not self.updated[self.value[a[0]]]:
                good = np.zeros(one.shape, bool)
            for row, at in np.argwhere(~good)[:1]:
                self._refuse(
                    int(a[begin + row]), int(b[begin + row]), int(one[row, at]), int(two[row, at])
                )

    def _refuse(self, a: int, b: int, one: int, two: int) -> None:
        wanted = "the first to end before the second starts, found no barriers that order them"
        if self.operator[a] == self.operator[b] or self.effect[a] == self.effect[b] == WRITE:
            wanted = "one rTask to write each byte, and no other to read it, found two"
        raise ScheduleError(
            f"rule 3 (ordered): {self._schedule.name(one)} {EFFECTS[self.effect[a]]} bytes of "
            f"{self._artifact.values[self.value[a]]} that {self._schedule.name(two)} "
            f"{EFFECTS[self.effect[b]]}: expected {wanted}"
        )

    def _check_read(self, use: int) -> None:
        """Check that earlier rOperators write all that is read; of updated values, some of it."""
        key = (self.boxes[use], self.updated[self.value[use]], *map(id, self._written[use]))
        if key in self._complete:
            return
        self._complete.add(key)
        task, begin, end, _ = self._runs(use)
        self._work += len(task)
        require_few(self._work, "bytes that are read", _MOST_WORK)
        written = sum(self._written[use], np.zeros(len(task), np.int64))
        first, missing = self._schedule.base[self.operator[use]], written < end - begin
        if self.updated[self.value[use]]:
            missing = ~np.isin(task, task[written > 0])
        refuse(missing, lambda at: (
            f"rule 4 (defined): {self._schedule.name(int(first + task[at]))} reads bytes of "
            f"{self._artifact.values[self.value[use]]}: expected earlier rOperators to write them, "
            f"found {written[at]} of {end[at] - begin[at]} bytes"
        ))  # fmt: skip

    def _check_output(self, value: int) -> None:
        """Check that all bytes of an output are written."""
        uses = self._by_value[self._begin[value] : self._begin[value + 1]]
        uses = uses[self.effect[uses] != READ]
        require_few(sum(self._runs(use).shape[1] for use in uses.tolist()), "runs of bytes")
        parts = [self._runs(use)[1:3] + self.shift[use] for use in uses.tolist()]
        begin, end = np.concatenate([np.zeros((2, 1), np.int64), *parts], axis=1)
        order = np.argsort(begin)
        reach = np.maximum.accumulate(end[order])
        found = int((np.diff(reach) - np.maximum(begin[order][1:] - reach[:-1], 0)).clip(0).sum())
        if found != self._artifact.num_bytes[value]:
            raise ScheduleError(
                f"rule 4 (defined): output {self._artifact.values[value]}: expected all its "
                f"{self._artifact.num_bytes[value]} bytes to be written, found {found}"
            )

    def _check_sharing(self) -> None:
        """Check that values that share bytes of the arena are used one after the other.

        In a possible order of execution, each value has to end before the next one on each byte.
        """
        schedule, values, places = self._schedule, self._artifact.values, self._artifact.places
        shape = len(values), schedule.known.shape[1]
        require_few(shape[0] * shape[1], "values, times vEUs", MOST_CLOCKS)
        known, reached = np.full(shape, MOST, np.int32), np.zeros(shape, np.int32)
        first = np.full(shape[0], MOST)
        np.minimum.at(known, self.value, schedule.known[self.operator])
        np.maximum.at(reached, self.value, schedule.reached[self.operator])
        np.minimum.at(first, self.value, schedule.begin[self.operator])
        used = np.flatnonzero((places[:, 0] == ARENA) & (first < MOST))
        used = used[np.argsort(first[used], kind="stable")]
        begin, end = places[used, 2], places[used, 2] + self._artifact.num_bytes[used]
        cuts = np.unique(np.concatenate((begin, end)))
        low, high = np.searchsorted(cuts, begin), np.searchsorted(cuts, end)
        owner, part = entries(high - low)
        order = np.argsort(part + low[owner], kind="stable")
        owner, part = used[owner[order]], (part + low[owner])[order]
        a, b = (some[part[1:] == part[:-1]] for some in (owner[:-1], owner[1:]))
        late = np.array((reached[a] > known[b]).any(axis=1))
        refuse(late, lambda at: (
            f"rule 5 (memory): {values[a[at]]} and {values[b[at]]} share bytes: expected all "
            "uses of the first to end before the second is used, found no barriers that order them"
        ))  # fmt: skip
