"""Check that an artifact's programs obey the rules of ``docs/program.md``.

The records of the vEUs are executed symbolically, which gives the order of the rTasks. Then the
ranges of bytes that rTasks read and write are compared, to find conflicts that have no order.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np

from rammer_mlir.checker.artifact import MOST, Array, Artifact, entries, limit, refuse, starts
from rammer_mlir.errors import ScheduleError


def _expect(words: list[int], at: int, wanted: list[int]) -> None:
    found = words[max(at, 0) : at + len(wanted)]
    if found != wanted:
        raise ScheduleError(f"rule 6 (encoded): at {at}: expected {wanted[:9]}, found {found[:9]}")


class Schedule:
    """The check of rules 1, 2 and 6 of ``docs/program.md``, and the order of rTasks that it finds.

    The rules say that each rTask is in exactly one run, that every barrier's wait ends, and that
    the task table encodes the proof's records. A run is consecutive rTasks of an rOperator on a
    vEU.

    The rTask with index ``t`` in rOperator ``o`` has the global index ``base[o] + t``. Three arrays
    have an element for each global index:

    - ``veu``: the vEU of the rTask.
    - ``step``: the rTask's step on this vEU, counted from 1 over all launches.
    - ``clock``: the rTask's row in ``clocks``. For each vEU, the row has the number of steps that
      are known to be complete when the rTask starts. This number may be too low for the rTask's own
      vEU.

    Two arrays are indexed by rOperator and vEU:

    - ``known``: the number of the vEU's steps that are complete before any rTask of the rOperator
      starts.
    - ``reached``: the last step at which the vEU executes an rTask of the rOperator, or 0.
    """

    def __init__(self, artifact: Artifact):
        self._artifact, self._words = artifact, artifact.words()
        tasks = artifact.num_rtasks[artifact.kernels]
        # A sum of floats cannot overflow, unlike a sum of untrusted integers.
        limit(float(tasks.sum(dtype=float)), "rTasks", MOST >> 1)
        self._tasks, self._kernels = tasks.tolist(), artifact.kernels.tolist()
        self.base, self.waits, self._work = starts(tasks), 0, 0
        self._runs, self._rows = list[tuple[int, ...]](), list[Any]()
        self._begin = self._steps = [0] * len(artifact.launches[0])
        for table, veus in zip(artifact.tables, artifact.launches, strict=True):
            self._launch(table, veus)
        self._arrange(np.array(self._runs, np.int64).reshape(-1, 6))

    def _launch(self, table: list[list[int]], veus: list[list[Any]]) -> None:
        self._table, self._arguments, begins, self._totals = table
        _expect(self._totals, 0, [sum(r[2] for r in veu if type(r[0]) is int) for veu in veus])
        barriers = (record for record in chain(*veus) if type(record[0]) is list)
        self._awaited = {(veu, steps) for veu, steps in chain(*barriers)}
        if self._awaited:
            limit(len(self._artifact.launches), "rule 6 (encoded): launches with barriers", 1)
            self._awaited |= set(enumerate(self._totals))  # the next run counts by them
        self._begin, self._steps = self._steps, list(self._steps)
        self._row, self._clocks = [len(self._rows)] * len(veus), [np.array(self._begin)] * len(veus)
        self._rows.append(self._clocks[0])
        self._ends: list[list[tuple[int, int]]] = [[] for _ in veus]
        asleep: list[list[int]] = [[] for _ in veus]
        # Each generator advances a vEU until a barrier has to wait.
        going = [self._advance(v, *of) for v, of in enumerate(zip(begins, veus, strict=True))]
        ready, seen, work = [*range(len(veus))], list(self._begin), 0
        while ready:
            veu = ready.pop()
            if (awaited := next(going[veu], None)) is not None:
                asleep[awaited].append(veu)
            if self._steps[veu] > seen[veu]:  # wake the vEUs that wait for it
                seen[veu], woken, asleep[veu] = self._steps[veu], asleep[veu], []
                limit(work := work + len(woken), "waits that are not met")
                ready += woken
        refuse(np.array([*map(len, asleep)]) > 0, lambda at: (
            f"rule 2 (ends): vEU {asleep[at][0]} waits for vEU {at} in a circle: expected an end"
        ))  # fmt: skip

    def _advance(self, veu: int, at: int, records: Sequence[Any]) -> Iterator[int]:
        for record in records:
            if type(record[0]) is int:
                self._run(veu, at, *record)
                at += 4 if self._artifact.is_cpu else 5
                continue
            _expect(self._table, at, [-1, len(record), *chain.from_iterable(record)])
            at += 2 + 2 * len(record)
            # -1: the clock has changed, so the next run stores a new row.
            clock, self._row[veu] = self._clocks[veu].copy(), -1
            for other, steps in record:
                known = 0 <= other < len(self._steps) and other != veu
                if not known or not 1 <= steps <= self._totals[other]:
                    found = f"found vEU {veu} to wait for step {steps} of vEU {other}"
                    raise ScheduleError(f"rule 2 (ends): expected a step of another vEU, {found}")
                while self._steps[other] < steps:
                    yield other  # the vEU that must advance first
                # The clock at the awaited step: whatever that vEU knew then happened before, too.
                row = self._ends[other][bisect_left(self._ends[other], (steps, -1))][1]
                np.maximum(clock, self._rows[row], out=clock)
                clock[other] = max(clock[other], steps)
                self.waits += 1
            self._clocks[veu] = clock
        _expect(self._table, at, [-2])

    def _run(self, veu: int, at: int, operator: int, first: int, count: int) -> None:
        if operator < 0 or first < 0 or count < 1 or first + count > self._tasks[operator]:
            found = f"expected some of {self._tasks[operator]} rTasks, found {count} from {first}"
            raise ScheduleError(f"rule 1 (complete): {self._artifact.names[operator]}: {found}")
        self._work += count + len(self._words[operator])
        limit(self._work, "steps and arguments of runs")
        _expect(self._table, at, [self._kernels[operator], first, count])
        _expect(self._arguments, self._table[at + 3], self._words[operator])
        before = self._steps[veu] - self._begin[veu]
        if not self._artifact.is_cpu:
            # A GPU's run publishes its last step only if some barrier or the next launch awaits it.
            done = range(before + 1, before + count + 1)
            if self._table[at + 4] or any((veu, step) in self._awaited for step in done):
                _expect(self._table, at + 4, [before + count])
        # Runs between the same two barriers share a row of clocks.
        if self._row[veu] < 0:
            self._row[veu] = len(self._rows)
            self._rows.append(self._clocks[veu])
            limit(len(self._rows) * len(self._steps), "clocks", 1 << 26)
        self._runs.append((operator, first, count, veu, self._steps[veu], self._row[veu]))
        self._steps[veu] += count
        self._ends[veu].append((self._steps[veu], self._row[veu]))

    def _arrange(self, runs: Array) -> None:
        operator, first, count, veu, step, clock = runs.T
        run, within = entries(count)
        task = self.base[operator[run]] + first[run] + within
        times = np.bincount(task, minlength=int(self.base[-1]))
        self.veu, self.step, self.clock = columns = np.zeros((3, len(times)), np.int64)
        columns[:, task] = veu[run], step[run] + within + 1, clock[run]
        refuse(times != 1, lambda at: (
            f"rule 1 (complete): {self.name(at)}: expected one run of it, found {times[at]}"
        ))  # fmt: skip
        shape = len(self._tasks), len(self._steps)
        limit(max(len(runs), shape[0]) * shape[1], "runs, times vEUs", 1 << 26)
        self.clocks = np.array(self._rows).reshape(-1, shape[1])
        self.known, self.reached = np.full(shape, MOST), np.zeros(shape, int)
        rows = self.clocks[clock]
        # The earlier steps of a run's own vEU are complete without a barrier.
        rows[np.arange(len(runs)), veu] = step
        np.minimum.at(self.known, operator, rows)
        np.maximum.at(self.reached, (operator, veu), step + count)

    def name(self, task: int) -> str:
        operator = int(np.searchsorted(self.base, task, side="right")) - 1
        name = f"{self._artifact.names[operator]}[{task - self.base[operator]}]"
        return f"{name} (vEU {self.veu[task]}, step {self.step[task]})"


class Memory:
    """The check of rules 3 to 5 of ``docs/program.md``.

    The rules say that conflicting accesses are ordered, that bytes are written before they are
    read, and that values that share memory are not live at the same time.

    An access is a pair of an rOperator and one of its arguments, of which each rTask reads, writes
    or updates a box. The argument is a pointer into a value; for each access, ``_shift`` has the
    pointer's offset in bytes from the start of the value.
    """

    def __init__(self, artifact: Artifact, schedule: Schedule):
        self._artifact, self._schedule, kernels = artifact, schedule, artifact.kernels.tolist()
        limit(sum(len(artifact.accesses[kernel]) for kernel in kernels), "accesses", 1 << 20)
        rows = [(o, *access) for o, k in enumerate(kernels) for access in artifact.accesses[k]]
        uses = np.array(rows, np.int64).reshape(-1, 4)
        bounds = np.array([boxes.bounds for boxes in artifact.boxes], np.int64).reshape(-1, 2)
        uses = uses[bounds[uses[:, 3], 0] < bounds[uses[:, 3], 1]]
        self._operator, argument, effect, self._boxes = uses.T
        operand = artifact.first[self._operator] + argument
        self._value, self._shift = artifact.value[operand], artifact.byte[operand]
        self._reads, self._updates = effect == 0, effect == 2
        self._given = artifact.has_kind["input"] | artifact.has_kind["constant"]
        self._updated = artifact.has_kind["inout"].copy()
        self._updated[self._value[self._updates]] = True
        low, high = bounds[self._boxes].T + self._shift
        wrong = (low < 0) | (high > artifact.num_bytes[self._value])
        refuse(wrong | (self._given[self._value] & ~self._reads), lambda at: (
            f"rule 5 (memory): {artifact.names[self._operator[at]]}: expected bytes of "
            f"{artifact.values[self._value[at]]}, not to write a given one, found byte {low[at]} on"
        ))  # fmt: skip

        self._check_bytes()
        self._check_sharing()

    def _check_bytes(self) -> None:
        """Check that conflicting accesses are ordered, and that bytes are written before reads.

        These are rules 3 and 4 of ``docs/program.md``. The check compares ranges of bytes in an
        address space in which no two values overlap.
        """
        artifact, schedule = self._artifact, self._schedule
        use, task, begin, end = self._runs()
        reads, value, operator = self._reads[use], self._value[use], self._operator[use]
        task += schedule.base[operator]
        # Pairs of a run i that is written, in ascending order, and another run j.
        writes = np.flatnonzero(~reads)
        writes = writes[np.argsort(begin[writes], kind="stable")]
        # The running maximum of the ends is sorted, although the ends are not.
        first = np.searchsorted(np.maximum.accumulate(end[writes]), begin, side="right")
        j, place = entries(np.maximum(np.searchsorted(begin[writes], end) - first, 0))
        i = writes[first[j] + place]
        common = np.minimum(end[i], end[j]) - np.maximum(begin[i], begin[j])
        i, j, common = (column[(common > 0) & (i != j)] for column in (i, j, common))
        early, own = operator[i] < operator[j], operator[i] == operator[j]
        a, b = np.where(early, (task[i], task[j]), (task[j], task[i]))
        ordered = schedule.step[a] <= schedule.clocks[schedule.clock[b], schedule.veu[a]]
        ordered |= (schedule.veu[a] == schedule.veu[b]) & (schedule.step[a] < schedule.step[b])
        both, updated = self._updates[use], self._updated[value]
        free = (task[i] == task[j]) | (both[i] & (both[j] | reads[j]))
        refuse(~(np.where(own, free, ordered) & (reads[j] | updated[j])), lambda at: (
            f"rule 3 (ordered): {schedule.name(int(task[i[at]]))} writes bytes of "
            f"{artifact.values[value[i[at]]]} that {schedule.name(int(task[j[at]]))} touches: "
            "expected barriers that order them as their rOperators, and one write of each byte"
        ))  # fmt: skip
        written = np.bincount(j, common * (early | (own & updated[j])), len(use))
        missing, box = written < end - begin, use[updated] * MOST + task[updated]
        missing[updated] = ~np.isin(box, box[written[updated] > 0])  # any byte of the box is enough
        refuse(missing & reads & ~artifact.has_kind["inout"][value], lambda at: (
            f"rule 4 (defined): {schedule.name(task[at])} reads {artifact.values[value[at]]}: "
            f"expected writes before, found {written[at]:.0f} of {end[at] - begin[at]} bytes"
        ))  # fmt: skip
        found = np.bincount(value, (end - begin) * ~reads, len(artifact.values))
        wrong = artifact.has_kind["output"] & ~self._updated & (found != artifact.num_bytes)
        refuse(wrong, lambda at: (
            f"rule 4 (defined): output {artifact.values[at]}: expected writes of "
            f"{artifact.num_bytes[at]} bytes, found {found[at]:.0f}"
        ))  # fmt: skip

    def _runs(self) -> tuple[Array, ...]:  # use, rTask, begin, end of runs that may conflict
        use = np.flatnonzero(~self._given[self._value])
        distinct, number = np.unique(self._boxes[use], return_inverse=True)
        lists, total = [np.zeros((3, 0), np.int64)], 0
        for boxes in distinct.tolist():
            lists.append(self._artifact.boxes[boxes].runs())
            limit(total := total + lists[-1].shape[1], "runs of bytes")
        first, runs = starts([found.shape[1] for found in lists[1:]]), np.concatenate(lists, axis=1)
        owner, place = entries(np.diff(first)[number])
        task, begin, end = runs[:, first[number[owner]] + place]
        use = use[owner]
        space = starts(self._artifact.num_bytes)[self._value[use]] + self._shift[use]
        return use, task, begin + space, end + space

    def _check_sharing(self) -> None:
        """Check that values with common bytes are in the arena, and have disjoint live ranges."""
        schedule, artifact = self._schedule, self._artifact
        in_arena, veus = artifact.has_kind["intermediate"], schedule.known.shape[1]
        limit(len(in_arena) * veus, "values, times vEUs", 1 << 26)
        known, reached = np.full((len(in_arena), veus), MOST), np.zeros((len(in_arena), veus), int)
        np.minimum.at(known, self._value, schedule.known[self._operator])
        np.maximum.at(reached, self._value, schedule.reached[self._operator])
        used = np.flatnonzero((~in_arena | reached.any(axis=1)) & (artifact.num_bytes > 0))
        used = used[np.argsort(artifact.addresses[used], kind="stable")]
        begin, size = artifact.addresses[used], artifact.num_bytes[used]
        owner, place = entries(np.searchsorted(begin, begin + size) - np.arange(len(used)) - 1)
        limit(len(owner) * veus, "pairs of values that share bytes, times vEUs", 1 << 26)
        a, b = used[owner], used[owner + place + 1]  # the second begins before the end of the first
        both = (reached[a] > known[b]).any(axis=1) & (reached[b] > known[a]).any(axis=1)
        refuse(~in_arena[a] | both, lambda at: (
            f"rule 5 (memory): {artifact.values[a[at]]} and {artifact.values[b[at]]} share bytes: "
            "expected all uses of one to end before the other is used"
        ))  # fmt: skip


def check_exclusive(artifact: Artifact, schedule: Schedule) -> None:
    """Check that no other rTask runs at the same time as an exclusive rTask.

    This is rule 7 of ``docs/program.md``.
    """
    exclusive = np.flatnonzero(np.repeat(artifact.is_exclusive, np.diff(schedule.base)))
    limit(len(exclusive) * len(schedule.veu), "exclusive rTasks, times rTasks", 1 << 26)
    for task in exclusive.tolist():
        _check_alone(schedule, task)


def _check_alone(schedule: Schedule, task: int) -> None:
    before = schedule.step <= schedule.clocks[schedule.clock[task], schedule.veu]
    behind = schedule.step[task] <= schedule.clocks[schedule.clock, schedule.veu[task]]
    refuse(~(before | behind | (schedule.veu == schedule.veu[task])), lambda at: (
        f"rule 7 (alone): {schedule.name(at)} may run beside {schedule.name(task)}, which uses the "
        "whole device: expected barriers that order them"
    ))  # fmt: skip
