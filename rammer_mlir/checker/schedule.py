"""Rules 1, 2 and 6, by executing records beside the table that encodes them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.checker.artifact import (
    MOST,
    Array,
    Artifact,
    Mask,
    Table,
    entries,
    refuse,
    require_few,
    starts,
)  # fmt: skip
from rammer_mlir.errors import ScheduleError

MOST_CLOCKS = 1 << 26
"""Numbers of all vector clocks."""


def _is_run(record: Sequence[Any]) -> bool:
    return bool(record) and type(record[0]) is not list


class Schedule:
    """When each rTask runs; rTask ``t`` of rOperator ``o`` has number ``base[o] + t``.

    Each vEU is executed as far as its barriers allow; steps count over all launches. For each rTask
    there are ``veu``, ``step`` (from 1) and ``clock``, a row of ``clocks``: the steps of each vEU
    that are complete when it starts, of its own fewer than there are. For each rOperator, ``known``
    are the steps that are complete when any rTask of it starts, ``reached`` those at its end.
    """

    def __init__(self, artifact: Artifact) -> None:
        self._artifact, self._words = artifact, artifact.words()
        tasks = artifact.num_rtasks[artifact.kernels]
        require_few(float(tasks.sum(dtype=float)), "rTasks", MOST >> 1)
        self._tasks, self._kernels = tasks.tolist(), artifact.kernels.tolist()
        self.base = starts(tasks)
        self.veu, self._work = np.zeros(0, np.int64), 0
        self.waits, self._runs, self._rows = 0, list[tuple[int, ...]](), list[NDArray[np.int32]]()
        self._steps = [0] * len(artifact.launches[0])
        for table, veus in zip(artifact.tables, artifact.launches, strict=True):
            self._launch(table, veus)
        self._arrange(np.array(self._runs, np.int64).reshape(-1, 6))

    def _launch(self, table: Table, veus: Sequence[Sequence[Any]]) -> None:
        self._table, self._before, number = table, list(self._steps), range(len(veus))
        totals = [sum(record[2] for record in records if _is_run(record)) for records in veus]
        _expect(table.totals, 0, totals, "totals")
        self._awaited = set[tuple[int, int]]()
        if not self._artifact.is_cpu:
            barriers = (record for records in veus for record in records if not _is_run(record))
            self._awaited = {(other, steps) for barrier in barriers for other, steps in barrier}
        if self._awaited:
            if len(self._artifact.launches) > 1:
                raise ScheduleError("rule 6 (encoded): expected no barriers between launches")
            self._awaited |= set(enumerate(totals))  # the next run reads how many there were
        self._rows.append(np.array(self._steps, np.int32))
        self._clocks, self._row = [self._rows[-1]] * len(veus), [len(self._rows) - 1] * len(veus)
        self._ends: list[list[tuple[int, int]]] = [[] for _ in number]
        asleep: list[list[tuple[int, int]]] = [[] for _ in number]
        going, ready = [self._advance(veu, veus[veu]) for veu in number], [*number][::-1]
        while ready:
            veu = ready.pop()
            if wait := next(going[veu], None):
                heappush(asleep[wait[0]], (wait[1], veu))
            while asleep[veu] and asleep[veu][0][0] <= self._steps[veu]:
                ready.append(heappop(asleep[veu])[1])
        for other, (steps, veu) in ((other, heap[0]) for other, heap in enumerate(asleep) if heap):
            raise ScheduleError(
                f"rule 2 (ends): vEU {veu} waits for step {steps - self._before[other]} of vEU "
                f"{other}: expected waits that end, found some that form a circle"
            )

    def _advance(self, veu: int, records: Sequence[Any]) -> Iterator[tuple[int, int]]:
        """Execute a vEU's records; yield each wait that is not met yet."""
        at, words = self._table.starts[veu], self._table.words
        for record in records:
            if _is_run(record):
                self._run(veu, at, *record)
                at += 4 if self._artifact.is_cpu else 5
                continue
            _expect(words, at, [-1, len(record), *chain.from_iterable(record)], "a barrier")
            at += 2 + 2 * len(record)
            self._clocks[veu], self._row[veu] = self._clocks[veu].copy(), -1
            for other, steps in record:
                known = 0 <= other < len(self._steps) and other != veu
                if not known or not 1 <= steps <= self._table.totals[other]:
                    raise ScheduleError(
                        f"rule 2 (ends): vEU {veu} waits for step {steps} of vEU {other}: expected "
                        f"another vEU, and a step from 1 to its last"
                    )
                if self._steps[other] < self._before[other] + steps:
                    yield other, self._before[other] + steps
                self._join(self._clocks[veu], other, self._before[other] + steps)
        _expect(words, at, [-2], "the end of a vEU")

    def _join(self, clock: NDArray[np.int32], other: int, steps: int) -> None:
        """Add what is complete when another vEU has completed so many steps."""
        self.waits += 1
        row = self._ends[other][bisect_left(self._ends[other], (steps, -1))][1]
        np.maximum(clock, self._rows[row], out=clock)
        clock[other] = max(clock[other], steps)

    def _run(self, veu: int, at: int, operator: int, first: int, count: int) -> None:
        before = self._steps[veu] - self._before[veu]
        if operator < 0 or first < 0 or count < 1 or first + count > self._tasks[operator]:
            raise ScheduleError(
                f"rule 1 (complete): a run of {self._artifact.names[operator]}[{first}] has "
                f"{count} rTasks: expected at least one, and none from {self._tasks[operator]} on"
            )
        words, after = self._table.words, before + count
        self._work += count + len(self._words[operator])
        require_few(self._work, "steps and arguments of runs")
        _expect(words, at, [self._kernels[operator], first, count], "a run")
        _expect(self._table.arguments, words[at + 3], self._words[operator], "arguments")
        if not self._artifact.is_cpu:
            needed = any((veu, step) in self._awaited for step in range(before + 1, after + 1))
            if needed or words[at + 4]:
                _expect(words, at + 4, [after], "published steps")
        if self._row[veu] < 0:
            require_few(len(self._rows) * len(self._steps), "clocks", MOST_CLOCKS)
            self._row[veu] = len(self._rows)
            self._rows.append(self._clocks[veu])
        self._runs.append((operator, first, count, veu, self._steps[veu], self._row[veu]))
        self._steps[veu] += count
        self._ends[veu].append((self._steps[veu], self._row[veu]))

    def _arrange(self, runs: Array) -> None:
        """Check rule 1, and list when each rTask runs."""
        operator, first, count, veu, step, clock = runs.T
        run, within = entries(count)
        task = self.base[operator[run]] + first[run] + within
        times = np.bincount(task, minlength=int(self.base[-1]))
        refuse(times != 1, lambda at: (
            f"rule 1 (complete): {self.name(at)} is in {times[at]} runs: expected one"
        ))  # fmt: skip
        columns, order = (veu[run], step[run] + within + 1, clock[run]), np.argsort(task)
        self.veu, self.step, self.clock = (column[order] for column in columns)
        shape = len(self._tasks), len(self._steps)
        require_few(max(len(runs), shape[0]) * shape[1], "runs, times vEUs", MOST_CLOCKS)
        self.clocks = np.array(self._rows, np.int32).reshape(-1, shape[1])
        self.known, self.reached = np.full(shape, MOST, np.int32), np.zeros(shape, np.int32)
        self.begin, rows = np.full(shape[0], len(runs)), self.clocks[clock]
        rows[np.arange(len(runs)), veu] = step
        np.minimum.at(self.known, operator, rows)
        np.maximum.at(self.reached, (operator, veu), (step + count).astype(np.int32))
        np.minimum.at(self.begin, operator, np.arange(len(runs)))

    def precedes(self, a: Array, b: Array) -> Mask:
        """Whether each rTask ``a[i]`` ends before ``b[i]`` starts."""
        veu, step = self.veu[a], self.step[a]
        known = self.clocks[self.clock[b], veu]
        return (step <= known) | ((veu == self.veu[b]) & (step < self.step[b]))

    def name(self, task: int) -> str:
        """Name an rTask and where it runs."""
        operator = int(np.searchsorted(self.base, task, side="right")) - 1
        where = f" (vEU {self.veu[task]}, step {self.step[task]})" if len(self.veu) else ""
        return f"{self._artifact.names[operator]}[{task - self.base[operator]}]{where}"


def _expect(words: list[int], at: int, wanted: list[int], what: str) -> None:
    found = words[at : at + len(wanted)] if at >= 0 else []
    if found != wanted:
        raise ScheduleError(
            f"rule 6 (encoded): {what}, words from {at} on: expected {wanted[:8]}, as program.json "
            f"says, found {found[:8]}"
        )
