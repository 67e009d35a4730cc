"""The `list` policy: schedules single rTasks by critical-path list scheduling."""

from __future__ import annotations

import heapq
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rammer_mlir.scheduling.costs import fastest, most_efficient
from rammer_mlir.scheduling.device_costs import Device
from rammer_mlir.scheduling.graph import Int64Array, TaskGraph
from rammer_mlir.scheduling.program import Plan
from rammer_mlir.scheduling.tasks import Placement, TaskTable, plan_of, task_table

_SHARES = (0.05, 0.2, 0.5)
"""Maximum relative changes of priorities; each sampled plan uses a randomly drawn maximum."""


@dataclass(frozen=True)
class ListScheduling:
    """Place the ready rTask with the longest path after it on the vEU that completes it first.

    If an rTask reads results of another vEU, the rTask's vEU executes a barrier, unless an earlier
    barrier on this vEU has waited for these results. Up to four plans are made, and the plan of
    smallest predicted time is kept. The plans combine two choices: the fastest or the most
    efficient rKernels for all operators, and path lengths with or without the time of a barrier for
    each dependency.
    """

    name: ClassVar[str] = "list"
    keeps_homes: ClassVar[bool] = True

    def schedule(self, graph: TaskGraph, device: Device) -> Plan:
        """Return the plan of smallest predicted time, of one rProgram."""
        choices = {
            tuple(choose(operator, device) for operator in graph.operators)
            for choose in (fastest, most_efficient)
        }
        plans: list[Plan] = []
        for kernels in sorted(choices):
            table = task_table(graph, device, kernels)
            for delay in (0.0, device.barrier_seconds):
                placement = place(table, device, table.bottom_levels(delay))
                plans.append(plan_of(graph, device, table, placement))
        return min(plans, key=lambda plan: plan.predicted_seconds)


def sampled_plan(graph: TaskGraph, device: Device, table: TaskTable, samples: int) -> Plan:
    """Return the plan of smallest predicted time among ``samples`` plans of list scheduling.

    The priority of an rTask is the length of the longest path from it to the program's end, times a
    random factor. The seed is fixed, so that results are repeatable. ``table`` has the rTasks of
    the graph.
    """
    chance = random.Random(0)
    levels = table.bottom_levels(device.barrier_seconds)

    def plan(share: float) -> Plan:
        priority = [level * (1 + share * chance.uniform(-1, 1)) for level in levels]
        return plan_of(graph, device, table, place(table, device, priority))

    plans = (plan(chance.choice(_SHARES)) for _ in range(samples))
    return min(plans, key=lambda plan: plan.predicted_seconds)


class _Veus:
    """The state of all vEUs during a placement, as arrays with a row for each vEU.

    Attributes:
        free: [num_veus]: the time in seconds at which each vEU is free.
        known: [num_veus, num_veus]: ``known[v, w]`` is the number of rTasks of vEU w that are
            surely complete after the barriers on vEU v so far.
        tasks: the indices of each vEU's rTasks in order.
    """

    def __init__(self, table: TaskTable, device: Device) -> None:
        count = device.num_veus
        self._table, self._barrier_seconds = table, device.barrier_seconds
        self.free = np.zeros(count)
        self.known = np.zeros((count, count), np.int64)
        self.tasks: list[list[int]] = [[] for _ in range(count)]
        self._rows = list(self.known.copy())
        self._veu = [0] * len(table.seconds)
        self._order = [0] * len(table.seconds)
        self._end = [0.0] * len(table.seconds)
        # For each placed rTask, the row of ``known`` of its vEU when the rTask began.
        self._knew: list[Int64Array] = [self._rows[0]] * len(table.seconds)

    def place(self, task: int) -> None:
        """Append an rTask, whose sources are all placed, to the vEU where it can start first.

        If the rTask can start equally early on several vEUs, choose the vEU that is idle for the
        shortest time before this start. An rTask with a home is placed on its home.
        """
        sources = self._latest(task)
        others = np.array([self._veu[source] for source in sources], np.intp)
        orders = np.array([self._order[source] for source in sources], np.int64)
        ends = np.array([self._end[source] for source in sources])
        # Sources of which each vEU does not know that they are complete.
        unknown = self.known[:, others] <= orders
        unknown[others, np.arange(len(sources))] = False
        awaited = np.where(unknown, ends, -1.0).max(axis=1, initial=-1.0)
        waiting = np.maximum(self.free, awaited) + self._barrier_seconds
        starts = np.where(awaited < 0, self.free, waiting)
        veu = self._table.homes[task]
        if veu is None:
            earliest = np.flatnonzero(starts == starts.min())
            veu = int(earliest[self.free[earliest].argmax()])
        if unknown[veu].any():
            new = unknown[veu].nonzero()[0]
            row = np.maximum.reduce([self.known[veu], *(self._knew[sources[n]] for n in new)])
            row[others[new]] = np.maximum(row[others[new]], orders[new] + 1)
            self.known[veu] = self._rows[veu] = row
        self._veu[task], self._order[task] = veu, len(self.tasks[veu])
        self._knew[task] = self._rows[veu]
        self._end[task] = float(starts[veu]) + self._table.seconds[task]
        self.free[veu] = self._end[task]
        self.tasks[veu].append(task)

    def _latest(self, task: int) -> list[int]:
        """Return for each vEU the last of its rTasks that rTask ``task`` reads from.

        The rTasks of a vEU run in order, so ``task`` needs to wait only for the returned rTasks. A
        vEU without an rTask that ``task`` reads from is left out.
        """
        latest: dict[int, int] = {}
        for source in self._table.sources[task]:
            veu = self._veu[source]
            if veu not in latest or self._order[latest[veu]] < self._order[source]:
                latest[veu] = source
        return list(latest.values())


def place(table: TaskTable, device: Device, priority: Sequence[float]) -> Placement:
    """Return a placement of all rTasks by list scheduling.

    The ready rTask with the highest priority is placed next, on its home if it has one, else on the
    vEU where the rTask ends first. An rTask starts when its vEU is free and all rTasks that it
    reads from have ended. If an rTask reads from an rTask on another vEU, a barrier comes before
    the reader, unless an earlier barrier on the reader's vEU has waited for this result.
    ``priority`` has the priority of each rTask of ``table``.
    """
    veus = _Veus(table, device)
    missing = [len(sources) for sources in table.sources]
    ready = [(-priority[t], t) for t, count in enumerate(missing) if not count]
    heapq.heapify(ready)
    while ready:
        _, task = heapq.heappop(ready)
        veus.place(task)
        for reader in table.readers[task]:
            missing[reader] -= 1
            if not missing[reader]:
                heapq.heappush(ready, (-priority[reader], reader))
    return veus.tasks
