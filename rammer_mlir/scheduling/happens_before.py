"""The happens-before order of a plan's rTasks, found by executing its barriers.

Independent of the code that made the plan. Every rTask gets the vector clock of its start: how many
rTasks of each vEU had to be complete. Programs of a plan run one after the other, so each begins
with everything before it complete.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rammer_mlir.errors import ScheduleError
from rammer_mlir.scheduling.execution import execution_order
from rammer_mlir.scheduling.graph import Int64Array, TaskGraph
from rammer_mlir.scheduling.program import Barrier, Plan, RProgram


@dataclass(frozen=True)
class TaskTimes:
    """Where one operator's rTasks run: vEU, order over the whole plan, and clock of the start.

    ``clock`` holds rows of ``History.clocks``; -1 everywhere marks an rTask that never runs.
    """

    veu: Int64Array
    order: Int64Array
    clock: Int64Array


@dataclass(frozen=True)
class History:
    """The happens-before order of a plan."""

    clocks: Int64Array
    """[number of distinct clocks, num_veus]: rTasks of each vEU known to be complete."""

    tasks: tuple[TaskTimes, ...]
    """By operator."""

    program_starts: tuple[Int64Array, ...]
    """For each program, how many rTasks each vEU had run before it."""

    def precedes(
        self, first: TaskTimes, a: Int64Array, second: TaskTimes, b: Int64Array
    ) -> np.ndarray:
        """For each pair (a[i], b[i]), whether rTask a of one operator ends before b starts."""
        known = self.clocks[second.clock[b], first.veu[a]]
        same = first.veu[a] == second.veu[b]
        return np.where(same, first.order[a] < second.order[b], first.order[a] < known)

    def describe(self, graph: TaskGraph, operator: int, rtask: int) -> str:
        """Name an rTask and its place for a message."""
        times = self.tasks[operator]
        veu, order = int(times.veu[rtask]), int(times.order[rtask])
        start = max(
            (s for s in self.program_starts if s[veu] <= order),
            key=lambda s: int(s[veu]),
        )
        return f"{graph.task_name(operator, rtask)} (vEU {veu} order {order - int(start[veu])})"


def history(graph: TaskGraph, plan: Plan) -> History:
    """Execute a plan's barriers and return its happens-before order.

    Raises:
        ScheduleError: if an rTask is unknown, runs twice or never, a wait names a vEU or order
            that does not exist, or waits block each other.
    """
    recorder = _Recorder(graph, plan)
    for number, program in enumerate(plan.programs):
        _check_shape(program, number)
        recorder.program(program)
    recorder.check_complete()
    return recorder.history()


def _check_shape(program: RProgram, number: int) -> None:
    if len(program.veus) != program.num_veus:
        raise ScheduleError(
            f"program {number}: expected {program.num_veus} vEUs, found {len(program.veus)}"
        )
    steps = [sum(i.count for i in veu if not isinstance(i, Barrier)) for veu in program.veus]
    for veu, items in enumerate(program.veus):
        for item in items:
            if isinstance(item, Barrier):
                for other, order in item.waits:
                    _check_wait(number, veu, other, order, steps)


def _check_wait(number: int, veu: int, other: int, order: int, steps: Sequence[int]) -> None:
    where = f"program {number}, vEU {veu}: wait for vEU {other} order {order}"
    if not 0 <= other < len(steps) or other == veu:
        raise ScheduleError(f"{where}: expected another vEU from 0 to {len(steps) - 1}")
    if not 0 <= order < steps[other]:
        raise ScheduleError(f"{where}: expected an order below {steps[other]}, its rTasks")


class _Recorder:
    def __init__(self, graph: TaskGraph, plan: Plan) -> None:
        if len(plan.kernels) != len(graph.operators):
            raise ScheduleError(
                f"plan: expected an rKernel for each of {len(graph.operators)} operators, "
                f"found {len(plan.kernels)}"
            )
        self._graph = graph
        self._counts = [
            operator.kernels[kernel].num_rtasks
            for operator, kernel in zip(graph.operators, plan.kernels, strict=True)
        ]
        self._tasks = [
            TaskTimes(*(np.full(count, -1, dtype=np.int64) for _ in range(3)))
            for count in self._counts
        ]
        num_veus = max((program.num_veus for program in plan.programs), default=0)
        self._done = np.zeros(num_veus, dtype=np.int64)
        self._clocks: list[Int64Array] = []
        self._starts: list[Int64Array] = []

    def program(self, program: RProgram) -> None:
        start = self._done.copy()
        self._starts.append(start)
        current = [self._add(start)] * program.num_veus
        changes: list[list[tuple[int, int]]] = [
            [(int(start[veu]), current[veu])] for veu in range(program.num_veus)
        ]
        for veu, item in execution_order(program):
            if isinstance(item, Barrier):
                clock = self._clocks[current[veu]].copy()
                for other, order in item.waits:
                    position = int(start[other]) + order
                    row = next(c for since, c in reversed(changes[other]) if since <= position)
                    np.maximum(clock, self._clocks[row], out=clock)
                    clock[other] = max(int(clock[other]), position + 1)
                current[veu] = self._add(clock)
                changes[veu].append((int(self._done[veu]), current[veu]))
                continue
            self._record(veu, item.operator, item.first, item.count, current[veu])
            self._done[veu] += item.count

    def _add(self, clock: Int64Array) -> int:
        self._clocks.append(clock)
        return len(self._clocks) - 1

    def _record(self, veu: int, operator: int, first: int, count: int, clock: int) -> None:
        if not 0 <= operator < len(self._tasks):
            raise ScheduleError(
                f"vEU {veu} runs operator {operator}: expected one below {len(self._tasks)}"
            )
        total = self._counts[operator]
        if first < 0 or count < 1 or first + count > total:
            raise ScheduleError(
                f"vEU {veu} runs rTasks {first} to {first + count - 1} of "
                f"'{self._graph.operators[operator].name}': expected ids from 0 to {total - 1}"
            )
        times = self._tasks[operator]
        part = slice(first, first + count)
        if (times.veu[part] >= 0).any():
            again = first + int(np.argmax(times.veu[part] >= 0))
            raise ScheduleError(
                f"{self._graph.task_name(operator, again)} runs on vEU {int(times.veu[again])} and "
                f"again on vEU {veu}: expected every rTask to run exactly once"
            )
        times.veu[part] = veu
        times.order[part] = self._done[veu] + np.arange(count)
        times.clock[part] = clock

    def check_complete(self) -> None:
        for operator, times in enumerate(self._tasks):
            if (times.veu < 0).any():
                missing = int(np.argmax(times.veu < 0))
                raise ScheduleError(
                    f"{self._graph.task_name(operator, missing)} never runs: expected every rTask "
                    "to run exactly once"
                )

    def history(self) -> History:
        clocks = np.array(self._clocks, dtype=np.int64).reshape(len(self._clocks), -1)
        return History(clocks, tuple(self._tasks), tuple(self._starts))
