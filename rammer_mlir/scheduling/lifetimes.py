"""Computes the lifetimes of buffers in the happens-before order of a plan (a schedule)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.scheduling.clocks import Clocks
from rammer_mlir.scheduling.execution_order import execution_order
from rammer_mlir.scheduling.graph import Int64Array, TaskGraph
from rammer_mlir.scheduling.program import Barrier, Plan, RProgram

_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Lifetimes:
    """The lifetime of each buffer of a plan, in the happens-before order of its rTasks.

    Two buffers may share memory if all uses of one certainly end before any use of the other
    starts. There are two tests:

    - The exact test (``disjoint``) compares ``end`` of one buffer with ``start`` of the other.
    - A faster, conservative test is ``last[a] < horizon[b]``: then every use of buffer a ends
      before any use of buffer b.

    rTasks are counted over all programs of the plan. A position is the index of a run in one
    possible execution order of all runs.

    Attributes:
        start: [num_buffers, num_veus]: number of rTasks of each vEU that are complete, in every
            execution, before any rTask that touches the buffer starts.
        end: [num_buffers, num_veus]: number of rTasks of each vEU up to and including the vEU's
            last rTask that touches the buffer; 0 if the vEU does not touch the buffer.
        horizon: [num_buffers]: position of the first run that may still be incomplete when some
            rTask that touches the buffer starts.
        last: [num_buffers]: position of the last run that touches the buffer.
    """

    start: Int64Array
    end: Int64Array
    horizon: Int64Array
    last: Int64Array

    def disjoint(self, a: int, others: Int64Array) -> NDArray[np.bool_]:
        """Return, for each buffer in ``others``, whether it may share memory with buffer ``a``.

        Two buffers may share memory if all uses of one of them end before any use of the other
        starts.
        """
        before = (self.end[a] <= self.start[others]).all(axis=1)
        after = (self.end[others] <= self.start[a]).all(axis=1)
        return before | after


def lifetimes(graph: TaskGraph, plan: Plan) -> Lifetimes:
    """Return the lifetimes of all buffers of a graph.

    Raises:
        ScheduleError: if waits of the plan block each other.
    """
    uses = _Uses(graph, plan)
    for program in plan.programs:
        uses.execute(program)
    return uses.of_buffers()


class _Uses:
    """Executes a plan's programs step by step, and collects from the runs the lifetimes of buffers.

    Call ``execute`` for each program in order, then ``of_buffers``.
    """

    def __init__(self, graph: TaskGraph, plan: Plan) -> None:
        self._graph = graph
        num_veus = max((program.num_veus for program in plan.programs), default=0)
        shape = (len(graph.operators), num_veus)
        self._start = np.full(shape, _NEVER, dtype=np.int64)
        self._end = np.zeros(shape, dtype=np.int64)
        self._last = np.full(len(graph.operators), -1, dtype=np.int64)
        self._done = np.zeros(num_veus, dtype=np.int64)
        self._run_ends: list[list[int]] = [[] for _ in range(num_veus)]
        self._run_places: list[list[int]] = [[] for _ in range(num_veus)]
        self._place = 0

    def execute(self, program: RProgram) -> None:
        base = self._done.copy()
        clocks = Clocks(program.num_veus)
        for veu, item in execution_order(program):
            if isinstance(item, Barrier):
                required = np.zeros(program.num_veus, dtype=np.int64)
                for other, order in item.waits:
                    required[other] = max(int(required[other]), order + 1)
                clocks.wait(veu, clocks.goal(required))
                continue
            known = base.copy()
            known[: program.num_veus] += clocks.now(veu)
            known[veu] = self._done[veu]
            clocks.done[veu] += item.count
            self._done[veu] += item.count
            self._record(veu, item.operator, known)

    def _record(self, veu: int, operator: int, known: Int64Array) -> None:
        np.minimum(self._start[operator], known, out=self._start[operator])
        self._end[operator, veu] = self._done[veu]
        self._last[operator] = self._place
        self._run_ends[veu].append(int(self._done[veu]))
        self._run_places[veu].append(self._place)
        self._place += 1

    def of_buffers(self) -> Lifetimes:
        shape = (len(self._graph.buffers), self._start.shape[1])
        start = np.full(shape, _NEVER, dtype=np.int64)
        end = np.zeros(shape, dtype=np.int64)
        last = np.full(len(self._graph.buffers), -1, dtype=np.int64)
        for number, operator in enumerate(self._graph.operators):
            for buffer in {view.buffer for view in operator.operands}:
                np.minimum(start[buffer], self._start[number], out=start[buffer])
                np.maximum(end[buffer], self._end[number], out=end[buffer])
                last[buffer] = max(last[buffer], self._last[number])
        return Lifetimes(start, end, self._horizons(start), last)

    def _horizons(self, start: Int64Array) -> Int64Array:
        horizon = np.full(len(start), _NEVER, dtype=np.int64)
        for veu, (ends, places) in enumerate(zip(self._run_ends, self._run_places, strict=True)):
            first = np.searchsorted(np.array(ends, dtype=np.int64), start[:, veu], side="right")
            padded = np.array([*places, _NEVER], dtype=np.int64)
            np.minimum(horizon, padded[first], out=horizon)
        return horizon
