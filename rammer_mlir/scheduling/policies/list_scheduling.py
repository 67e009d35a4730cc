"""The `list` policy: critical-path list scheduling of single rTasks."""

from __future__ import annotations

import heapq
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rammer_mlir.scheduling.costs import fastest, most_efficient
from rammer_mlir.scheduling.device_costs import Device
from rammer_mlir.scheduling.graph import TaskGraph
from rammer_mlir.scheduling.program import Plan
from rammer_mlir.scheduling.tasks import Placement, TaskTable, plan_of, task_table

_SHARES = (0.05, 0.2, 0.5)
"""Maximum relative changes of priorities; each sampled plan uses a randomly drawn maximum."""


@dataclass(frozen=True)
class ListScheduling:
    """Place the ready rTask with the longest path after it on the vEU that completes it first.

    A vEU that has not yet waited for a producer on another vEU pays a barrier. The policy tries the
    fastest and the most efficient rKernels of all operators, and paths with and without a barrier
    on each edge, and keeps the plan of smallest predicted time.
    """

    name: ClassVar[str] = "list"

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

    The priority of an rTask is the length of the longest path from it, scaled by a random factor;
    the seed is fixed, so that results are repeatable. ``table`` has the rTasks of the graph.
    """
    chance = random.Random(0)
    levels = table.bottom_levels(device.barrier_seconds)

    def plan(share: float) -> Plan:
        priority = [level * (1 + share * chance.uniform(-1, 1)) for level in levels]
        return plan_of(graph, device, table, place(table, device, priority))

    plans = (plan(chance.choice(_SHARES)) for _ in range(samples))
    return min(plans, key=lambda plan: plan.predicted_seconds)


@dataclass
class _Veu:
    """The state of a vEU during placement.

    Attributes:
        known: for each vEU w, the number of rTasks of w that this vEU knows to be complete.
        tasks: the numbers of this vEU's rTasks in order.
        free: the time in seconds at which this vEU is free.
    """

    known: list[int]
    tasks: list[int]
    free: float = 0.0


def place(table: TaskTable, device: Device, priority: Sequence[float]) -> Placement:
    """Return a placement of all rTasks by list scheduling.

    The ready rTask with the highest ``priority`` is placed next, on the vEU where it ends first.
    ``priority`` is by the rTask's number in ``table``.
    """
    veus = [_Veu([0] * device.num_veus, []) for _ in range(device.num_veus)]
    where: dict[int, tuple[int, int]] = {}
    knew: dict[int, list[int]] = {}
    ends = [0.0] * len(table.seconds)
    missing = [len(sources) for sources in table.sources]
    ready = [(-priority[t], t) for t, count in enumerate(missing) if not count]
    heapq.heapify(ready)
    while ready:
        _, task = heapq.heappop(ready)
        sources = table.sources[task]
        starts = [
            _start(number, veu, sources, where, ends, device) for number, veu in enumerate(veus)
        ]
        number = min(range(len(veus)), key=lambda n: (starts[n], -veus[n].free, n))
        veu = veus[number]
        for source in sources:
            other, order = where[source]
            if other != number and veu.known[other] <= order:
                veu.known = [max(a, b) for a, b in zip(veu.known, knew[source], strict=True)]
                veu.known[other] = max(veu.known[other], order + 1)
        where[task] = number, len(veu.tasks)
        knew[task] = veu.known
        veu.tasks.append(task)
        veu.free = ends[task] = starts[number] + table.seconds[task]
        for reader in table.readers[task]:
            missing[reader] -= 1
            if not missing[reader]:
                heapq.heappush(ready, (-priority[reader], reader))
    return [veu.tasks for veu in veus]


def _start(
    number: int,
    veu: _Veu,
    sources: Sequence[int],
    where: dict[int, tuple[int, int]],
    ends: Sequence[float],
    device: Device,
) -> float:
    """Return the earliest start, in seconds, of an rTask on vEU ``number``.

    A barrier precedes the rTask if it reads from rTasks that the vEU does not know to be complete.
    ``veu`` is the state of the vEU, ``sources`` are the rTasks that the rTask reads from. For each
    placed rTask, ``where`` has its vEU and order, and ``ends`` its end in seconds.
    """
    awaited = -1.0
    for source in sources:
        other, order = where[source]
        if other != number and veu.known[other] <= order:
            awaited = max(awaited, ends[source])
    return veu.free if awaited < 0 else max(veu.free, awaited) + device.barrier_seconds
