"""Rules 1, 2 and 6, by executing records beside the table that encodes them."""

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
        message = f"expected {wanted[:8]}, as program.json says, found {found[:8]}"
        raise ScheduleError(f"rule 6 (encoded): words from {at} on: {message}")


class Schedule:
    """When each rTask runs; rTask ``t`` of rOperator ``o`` has number ``base[o] + t``.

    Each vEU is executed as far as its barriers allow; steps count over all launches. For each rTask
    there are ``veu``, ``step`` (from 1) and ``clock``, a row of ``clocks``: the steps of each vEU
    that are complete when it starts, of its own fewer than there are. For each rOperator, ``known``
    are the steps that are complete when any rTask of it starts, ``reached`` those at its end.
    """

    def __init__(self, artifact: Artifact):
        self._artifact, self._words = artifact, artifact.words()
        tasks = artifact.num_rtasks[artifact.kernels]
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
            self._awaited |= set(enumerate(self._totals))  # the next run counts runs by them
        self._begin, self._steps = self._steps, list(self._steps)
        self._row, self._clocks = [len(self._rows)] * len(veus), [np.array(self._begin)] * len(veus)
        self._rows.append(self._clocks[0])
        self._ends: list[list[tuple[int, int]]] = [[] for _ in veus]
        asleep: list[list[int]] = [[] for _ in veus]
        going = [self._advance(v, *of) for v, of in enumerate(zip(begins, veus, strict=True))]
        ready, seen, work = [*range(len(veus))], list(self._begin), 0
        while ready:
            veu = ready.pop()
            if (awaited := next(going[veu], None)) is not None:
                asleep[awaited].append(veu)
            if self._steps[veu] > seen[veu]:  # those that await it look again
                seen[veu], woken, asleep[veu] = self._steps[veu], asleep[veu], []
                limit(work := work + len(woken), "waits that are not met")
                ready += woken
        refuse(np.array([*map(len, asleep)]) > 0, lambda at: (
            f"rule 2 (ends): vEU {asleep[at][0]} waits for vEU {at} in a circle: expected an end"
        ))  # fmt: skip

    def _advance(self, veu: int, at: int, records: Sequence[Any]) -> Iterator[int]:
        """Execute a vEU's records; while a wait is not met, yield the vEU that is awaited."""
        for record in records:
            if type(record[0]) is int:
                self._run(veu, at, *record)
                at += 4 if self._artifact.is_cpu else 5
                continue
            _expect(self._table, at, [-1, len(record), *chain.from_iterable(record)])
            at += 2 + 2 * len(record)
            clock, self._row[veu] = self._clocks[veu].copy(), -1
            for other, steps in record:
                known = 0 <= other < len(self._steps) and other != veu
                if not known or not 1 <= steps <= self._totals[other]:
                    found = f"found vEU {veu} to wait for step {steps} of vEU {other}"
                    raise ScheduleError(f"rule 2 (ends): expected a step of another vEU, {found}")
                while self._steps[other] < steps:
                    yield other
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
            done = range(before + 1, before + count + 1)
            if self._table[at + 4] or any((veu, step) in self._awaited for step in done):
                _expect(self._table, at + 4, [before + count])
        if self._row[veu] < 0:
            self._row[veu] = len(self._rows)
            self._rows.append(self._clocks[veu])
            limit(len(self._rows) * len(self._steps), "clocks", 1 << 26)
        self._runs.append((operator, first, count, veu, self._steps[veu], self._row[veu]))
        self._steps[veu] += count
        self._ends[veu].append((self._steps[veu], self._row[veu]))

    def _arrange(self, runs: Array) -> None:
        """Check rule 1, and list when each rTask runs."""
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
        rows[np.arange(len(runs)), veu] = step
        np.minimum.at(self.known, operator, rows)
        np.maximum.at(self.reached, (operator, veu), step + count)

    def name(self, task: int) -> str:
        """Name an rTask, and tell when it runs."""
        operator = int(np.searchsorted(self.base, task, side="right")) - 1
        name = f"{self._artifact.names[operator]}[{task - self.base[operator]}]"
        return f"{name} (vEU {self.veu[task]}, step {self.step[task]})"
