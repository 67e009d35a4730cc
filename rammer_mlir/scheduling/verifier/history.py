"""Finds the happens-before order of a plan's rTasks by executing its barriers.

Every rTask gets the vector clock of its start: for each vEU, the count of its first rTasks that
have surely ended by then. The programs of a plan run one after another, so a program begins when
all rTasks of earlier programs have ended.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.errors import ScheduleError
from rammer_mlir.scheduling.graph import Int64Array, TaskGraph
from rammer_mlir.scheduling.program import Barrier, Plan, RProgram, Run
from rammer_mlir.scheduling.verifier.stepper import Stepper


@dataclass(frozen=True)
class History:
    """The happens-before order of a plan's rTasks.

    rTasks are numbered consecutively over all operators: rTask ``r`` of operator ``o`` has index
    ``base[o] + r``. ``veu``, ``order``, ``clock`` and ``place`` have an element for each rTask.

    Attributes:
        graph: the rOperators, whose names are used in messages.
        base: [num_operators + 1]: index of each operator's first rTask; the last element is the
            count of all rTasks.
        clocks: [number of vector clocks, num_veus]: each row is a vector clock, which has for each
            vEU the number of rTasks of this vEU that are surely complete.
        veu: for each rTask, its vEU.
        order: for each rTask, its position among the rTasks of its vEU in all programs.
        clock: for each rTask, the row of ``clocks`` that is its vector clock at its start.
        place: for each rTask, its position among all rTasks in a possible order of execution.
        program_starts: for each program, how many rTasks each vEU has run in earlier programs.
    """

    graph: TaskGraph
    base: Int64Array
    clocks: NDArray[np.int32]
    veu: Int64Array
    order: Int64Array
    clock: Int64Array
    place: Int64Array
    program_starts: tuple[Int64Array, ...]

    def tasks(self, operator: int) -> Int64Array:
        """Return the indices of an operator's rTasks among all rTasks."""
        return np.arange(self.base[operator], self.base[operator + 1])

    def completes(self, veu: Int64Array, order: Int64Array, task: Int64Array) -> NDArray[np.bool_]:
        """Return for each i whether a first rTask is known to end before a second rTask starts.

        The first rTask is on vEU ``veu[i]``, at position ``order[i]`` among the rTasks of this vEU
        in all programs. The second rTask has index ``task[i]``.
        """
        known = self.clocks[self.clock[task], veu]
        return order < np.where(self.veu[task] == veu, self.order[task], known)

    def precedes(self, first: Int64Array, second: Int64Array) -> NDArray[np.bool_]:
        """Return for each i whether rTask ``first[i]`` ends before rTask ``second[i]`` starts."""
        return self.completes(self.veu[first], self.order[first], second)

    def describe(self, task: int) -> str:
        """Return an rTask's name, vEU and order, for a message."""
        operator = int(np.searchsorted(self.base, task, side="right")) - 1
        veu, order = int(self.veu[task]), int(self.order[task])
        before = max(int(s[veu]) for s in self.program_starts if s[veu] <= order)
        name = self.graph.task_name(operator, task - int(self.base[operator]))
        return f"{name} on vEU {veu} order {order - before}"


def history(graph: TaskGraph, plan: Plan) -> History:
    """Return the happens-before order of a plan's rTasks, found by executing its barriers.

    Raises:
        ScheduleError: if an rTask is unknown, runs twice or never, a wait names a vEU or order that
            does not exist, or waits block each other.
    """
    recorder = _Recorder(graph, plan)
    for number, program in enumerate(plan.programs):
        _check_shape(program, number)
        recorder.execute(program)
    return recorder.finish()


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


def _first_tasks(graph: TaskGraph, plan: Plan) -> Int64Array:
    """Return the index of each operator's first rTask, followed by the count of all rTasks.

    Raises:
        ScheduleError: if an operator has no rKernel in the plan, or an unknown rKernel.
    """
    if len(plan.kernels) != len(graph.operators):
        raise ScheduleError(
            f"plan: expected an rKernel for each of {len(graph.operators)} operators, "
            f"found {len(plan.kernels)}"
        )
    base = np.zeros(len(graph.operators) + 1, dtype=np.int64)
    for number, (operator, kernel) in enumerate(zip(graph.operators, plan.kernels, strict=True)):
        if not 0 <= kernel < len(operator.kernels):
            raise ScheduleError(
                f"plan: '{operator.name}' uses rKernel {kernel}: expected one of its "
                f"{len(operator.kernels)} candidates"
            )
        base[number + 1] = base[number] + operator.kernels[kernel].num_rtasks
    return base


class _Recorder:
    def __init__(self, graph: TaskGraph, plan: Plan) -> None:
        self._graph = graph
        self._base = _first_tasks(graph, plan)
        self._veu, self._order, self._clock, self._place = (
            np.full(int(self._base[-1]), -1, dtype=np.int64) for _ in range(4)
        )
        self._num_veus = max((program.num_veus for program in plan.programs), default=0)
        self._done = np.zeros(self._num_veus, dtype=np.int64)
        self._clocks: list[NDArray[np.int32]] = []
        self._starts: list[Int64Array] = []
        self._executed = 0

    def execute(self, program: RProgram) -> None:
        start = self._done.copy()
        self._starts.append(start)
        first = self._add(start.astype(np.int32))
        rows = [[first] for _ in range(program.num_veus)]
        since = [[int(start[veu])] for veu in range(program.num_veus)]
        for veu, item in Stepper(self._graph, program).steps():
            if isinstance(item, Barrier):
                clock = self._clocks[rows[veu][-1]].copy()
                for other, order in item.waits:
                    position = int(start[other]) + order
                    row = rows[other][bisect_right(since[other], position) - 1]
                    np.maximum(clock, self._clocks[row], out=clock)
                    clock[other] = max(int(clock[other]), position + 1)
                rows[veu].append(self._add(clock))
                since[veu].append(int(self._done[veu]))
            else:
                self._record(veu, item, rows[veu][-1])

    def _add(self, clock: NDArray[np.int32]) -> int:
        self._clocks.append(clock)
        return len(self._clocks) - 1

    def _record(self, veu: int, run: Run, clock: int) -> None:
        part = self._tasks(veu, run)
        if (self._veu[part] >= 0).any():
            again = run.first + int(np.argmax(self._veu[part] >= 0))
            task = int(self._base[run.operator]) + again
            raise ScheduleError(
                f"{self._graph.task_name(run.operator, again)} runs on vEU {int(self._veu[task])} "
                f"order {self._local_order(task)} and again on vEU {veu}: expected every rTask to "
                "run exactly once"
            )
        self._veu[part] = veu
        self._order[part] = self._done[veu] + np.arange(run.count)
        self._clock[part] = clock
        self._place[part] = self._executed + np.arange(run.count)
        self._done[veu] += run.count
        self._executed += run.count

    def _tasks(self, veu: int, run: Run) -> slice:
        if not 0 <= run.operator < len(self._graph.operators):
            raise ScheduleError(
                f"vEU {veu} runs operator {run.operator}: expected one from 0 to "
                f"{len(self._graph.operators) - 1}"
            )
        base = int(self._base[run.operator])
        total = int(self._base[run.operator + 1]) - base
        if run.first < 0 or run.count < 1 or run.first + run.count > total:
            raise ScheduleError(
                f"vEU {veu} runs rTasks {run.first} to {run.first + run.count - 1} of "
                f"'{self._graph.operators[run.operator].name}': expected ids from 0 to {total - 1}"
            )
        return slice(base + run.first, base + run.first + run.count)

    def _local_order(self, task: int) -> int:
        veu, order = int(self._veu[task]), int(self._order[task])
        return order - max(int(s[veu]) for s in self._starts if s[veu] <= order)

    def finish(self) -> History:
        missing = np.flatnonzero(self._veu < 0)
        if len(missing):
            operator = int(np.searchsorted(self._base, missing[0], side="right")) - 1
            name = self._graph.task_name(operator, int(missing[0] - self._base[operator]))
            raise ScheduleError(f"{name} never runs: expected every rTask to run exactly once")
        clocks = np.array(self._clocks, dtype=np.int32).reshape(-1, self._num_veus)
        places = (self._veu, self._order, self._clock, self._place)
        return History(self._graph, self._base, clocks, *places, tuple(self._starts))
