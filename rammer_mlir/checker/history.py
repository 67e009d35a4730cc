"""Happens-before, by executing the records: rules 1 and 2."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.checker.archive import Int64Array, ranges, require_few, starts
from rammer_mlir.checker.program import MOST_TASKS, Program, Records
from rammer_mlir.errors import ScheduleError

MOST_CLOCKS = 1 << 26
"""Numbers of all vector clocks together."""

_AT_ONCE = 1 << 22
"""Numbers of clocks that are compared at once."""


@dataclass(frozen=True, eq=False)
class History:
    """When each rTask runs; rTask ``t`` of rOperator ``o`` has number ``base[o] + t``.

    Attributes:
        names: of the rOperators.
        base: [rOperators + 1].
        veu: [rTasks].
        step: [rTasks], from 1, counted over all launches.
        launch_steps: [launches, vEUs], steps before each launch.
        clock: [rTasks], the row of ``clocks`` with what is complete when it starts.
        clocks: [rows, vEUs], steps; of the own vEU fewer than there are.
        first: [rOperators], when its first rTask runs in one possible order of execution.
        known: [rOperators, vEUs], steps that are complete when the first of its rTasks starts.
        reached: [rOperators, vEUs], steps that are complete when all its rTasks are.
    """

    names: Sequence[str]
    base: Int64Array
    veu: Int64Array
    step: Int64Array
    launch_steps: Int64Array
    clock: Int64Array
    clocks: NDArray[np.int32]
    first: Int64Array
    known: NDArray[np.int32]
    reached: NDArray[np.int32]

    def precedes(self, a: Int64Array, b: Int64Array) -> NDArray[np.bool_]:
        """For each i, whether rTask ``a[i]`` ends before ``b[i]`` starts."""
        veu, step = self.veu[a], self.step[a]
        return (step <= self.clocks[self.clock[b], veu]) | (
            (veu == self.veu[b]) & (step < self.step[b])
        )

    def follow(self, a: Int64Array, b: Int64Array) -> NDArray[np.bool_]:
        """For each i, whether rOperator ``a[i]`` ends as a whole before ``b[i]`` starts."""
        require_few(len(a) * self.known.shape[1], 1 << 30, "pairs of rOperators that share a value")
        size = max(1, _AT_ONCE // self.known.shape[1])
        parts = [slice(begin, begin + size) for begin in range(0, len(a), size)]
        return np.concatenate(
            [np.zeros(0, bool)]
            + [(self.reached[a[part]] <= self.known[b[part]]).all(axis=1) for part in parts]
        )

    def name(self, task: int) -> str:
        """Name an rTask and where it runs."""
        operator = int(np.searchsorted(self.base, task, side="right")) - 1
        veu, step = int(self.veu[task]), int(self.step[task])
        before = self.launch_steps[:, veu]
        launch = int(np.searchsorted(before, step, side="left")) - 1
        where = f"launch {launch}, " if len(before) > 1 else ""
        number = task - int(self.base[operator])
        return f"{self.names[operator]}[{number}] ({where}vEU {veu}, step {step - before[launch]})"


def history(program: Program, num_rtasks: Int64Array) -> History:
    """Execute all launches.

    Args:
        program: the records.
        num_rtasks: rTasks of each rOperator.
    """
    base = starts(num_rtasks)
    require_few(float(num_rtasks.sum(dtype=float)), MOST_TASKS, "rTasks")
    records = [record for veus in program.launches for veu in veus for record in veu]
    runs = np.array([r for r in records if type(r) is tuple], np.int64).reshape(-1, 3)
    _check_complete(program, runs, num_rtasks, base)
    execution = _Execution(program.num_veus)
    for veus in program.launches:
        execution.launch(veus)
    runs = np.array(execution.runs, np.int64).reshape(-1, 6)
    operator, first, count, veu, step, clock = runs.T
    owner, task = ranges(base[operator] + first, count)
    within = np.arange(len(task)) - np.repeat(starts(count)[:-1], count)
    by_task = np.empty_like(task)
    by_task[task] = np.arange(len(task))
    columns = (veu[owner], (step[owner] + within + 1), clock[owner])
    veus, steps, clocks = (column[by_task] for column in columns)
    before, rows = np.array(execution.before), np.array(execution.clocks, np.int32)
    known, reached = _bounds(runs, rows, len(num_rtasks))
    begin = np.full(len(num_rtasks), len(task))
    np.minimum.at(begin, operator, starts(count)[:-1])
    return History(program.names, base, veus, steps, before, clocks, rows, begin, known, reached)


def _bounds(
    runs: Int64Array, clocks: NDArray[np.int32], operators: int
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return what is complete when each rOperator's first rTask starts, and when its last ends."""
    shape = (operators, clocks.shape[1])
    require_few(max(len(runs), operators) * shape[1], MOST_CLOCKS, "runs, times vEUs")
    known = np.full(shape, np.iinfo(np.int32).max, np.int32)
    reached = np.zeros(shape, np.int32)
    operator, _, count, veu, step, clock = runs[np.argsort(runs[:, 0], kind="stable")].T
    rows = clocks[clock]
    rows[np.arange(len(rows)), veu] = step
    present, begin = np.unique(operator, return_index=True)
    if len(present):
        known[present] = np.minimum.reduceat(rows, begin)
    np.maximum.at(reached, (operator, veu), (step + count).astype(np.int32))
    return known, reached


def _check_complete(
    program: Program, runs: Int64Array, num_rtasks: Int64Array, base: Int64Array
) -> None:
    operator, first, count = runs.T
    wrong = np.flatnonzero(operator >= len(num_rtasks))
    if len(wrong):
        raise ScheduleError(
            f"rule 1 (complete): a run of rOperator {operator[wrong[0]]}: expected one below "
            f"{len(num_rtasks)}"
        )
    wrong = np.flatnonzero((count < 1) | (first + count > num_rtasks[operator]))
    if len(wrong):
        o, f, c = runs[wrong[0]].tolist()
        raise ScheduleError(
            f"rule 1 (complete): a run of {program.names[o]}[{f}] has {c} rTasks: expected at "
            f"least one, and none from {num_rtasks[o]} on"
        )
    change = np.zeros(base[-1] + 1, np.int64)
    np.add.at(change, base[operator] + first, 1)
    np.add.at(change, base[operator] + first + count, -1)
    times = np.cumsum(change[:-1])
    wrong = np.flatnonzero(times != 1)
    if len(wrong):
        o = int(np.searchsorted(base, wrong[0], side="right")) - 1
        raise ScheduleError(
            f"rule 1 (complete): {program.names[o]}[{wrong[0] - base[o]}] is in "
            f"{times[wrong[0]]} runs: expected one"
        )


@dataclass
class _Execution:
    """Executes launches, each vEU as far as its barriers allow.

    Attributes:
        runs: rOperator, first rTask, count, vEU, its steps before, its clock's row.
        before: the steps before each launch.
        clocks: rows of vector clocks.
    """

    num_veus: int
    runs: list[tuple[int, ...]] = field(default_factory=list[tuple[int, ...]])
    before: list[list[int]] = field(default_factory=list[list[int]])
    clocks: list[NDArray[np.int32]] = field(default_factory=list[NDArray[np.int32]])

    def __post_init__(self) -> None:
        self._steps = [0] * self.num_veus

    def launch(self, veus: Sequence[Records]) -> None:
        """Execute a launch."""
        self.before.append(list(self._steps))
        self._totals = [sum(r[2] for r in records if type(r) is tuple) for records in veus]
        self._since = [[-1] for _ in veus]
        self._rows = [[len(self.clocks)] for _ in veus]
        self.clocks.append(np.array(self._steps, np.int32))
        self._unmet: dict[int, tuple[int, int]] = {}
        self._asleep: list[list[tuple[int, int]]] = [[] for _ in veus]
        ready = [(veu, self._advance(veu, records)) for veu, records in enumerate(veus)][::-1]
        going = dict(ready)
        while ready:
            veu, execution = ready.pop()
            next(execution, None)
            asleep = self._asleep[veu]
            while asleep and asleep[0][0] <= self._steps[veu]:
                other = heappop(asleep)[1]
                ready.append((other, going[other]))
        if self._unmet:
            raise ScheduleError(self._stuck(min(self._unmet)))

    def _advance(self, veu: int, records: Records) -> Iterator[None]:
        """Execute a vEU's records; stop at each wait that is not met."""
        for record in records:
            if type(record) is tuple:
                operator, first, count = record
                row = self._rows[veu][-1]
                self.runs.append((operator, first, count, veu, self._steps[veu], row))
                self._steps[veu] += count
                continue
            for other, steps in record:
                self._check_wait(veu, other, steps)
                wanted = self.before[-1][other] + steps
                if self._steps[other] < wanted:
                    self._unmet[veu] = (other, steps)
                    heappush(self._asleep[other], (wanted, veu))
                    yield
                    del self._unmet[veu]
            self._join(veu, record)

    def _check_wait(self, veu: int, other: int, steps: int) -> None:
        known = self._totals[other] if other < self.num_veus else 0
        if other == veu or not 1 <= steps <= known:
            raise ScheduleError(
                f"rule 2 (ends): launch {len(self.before) - 1}: vEU {veu} waits for step {steps} "
                f"of vEU {other}: expected another vEU, and a step from 1 to its last, {known}"
            )

    def _join(self, veu: int, barrier: Records) -> None:
        """Add a clock: what the vEU knew, and what those knew that it awaits."""
        clock = self.clocks[self._rows[veu][-1]].copy()
        for other, steps in barrier:
            step = self.before[-1][other] + steps
            row = self._rows[other][bisect_left(self._since[other], step) - 1]
            np.maximum(clock, self.clocks[row], out=clock)
            clock[other] = max(clock[other], step)
        require_few((len(self.clocks) + 1) * self.num_veus, MOST_CLOCKS, "barriers, times vEUs")
        self._rows[veu].append(len(self.clocks))
        self._since[veu].append(self._steps[veu])
        self.clocks.append(clock)

    def _stuck(self, veu: int) -> str:
        """Name waits that form a circle."""
        path: list[int] = []
        while veu not in path:
            path.append(veu)
            veu = self._unmet[veu][0]
        waits = (
            f"vEU {v} at step {self._steps[v] - self.before[-1][v]} waits for step "
            f"{self._unmet[v][1]} of vEU {self._unmet[v][0]}"
            for v in path[path.index(veu) :]
        )
        return f"rule 2 (ends): {'; '.join(waits)}: expected waits that do not form a circle"
