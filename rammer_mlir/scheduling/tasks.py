"""Lists a graph's rTasks with costs and dependencies, and makes plans from placements."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from rammer_mlir.scheduling.costs import rtask_seconds
from rammer_mlir.scheduling.dependencies import Dependencies
from rammer_mlir.scheduling.device_costs import Device
from rammer_mlir.scheduling.graph import TaskGraph
from rammer_mlir.scheduling.minimize import minimize
from rammer_mlir.scheduling.program import Barrier, Item, Plan, RProgram, Run
from rammer_mlir.scheduling.simulator import simulate

Placement = Sequence[Sequence[int]]
"""For each vEU, the indices in a ``TaskTable`` of the rTasks that the vEU runs, in order."""


@dataclass(frozen=True)
class TaskTable:
    """All rTasks of a graph with chosen rKernels, numbered operator by operator.

    Attributes:
        kernels: for each operator, the index of its chosen candidate.
        base: index of each operator's first rTask among all rTasks.
        operators: operator of each rTask.
        homes: the vEU that should run each rTask; None for any.
        seconds: time of each rTask on a vEU.
        sources: for each rTask the rTasks that it reads from, all with smaller indices.
        readers: for each rTask the rTasks that read from it.
    """

    kernels: tuple[int, ...]
    base: tuple[int, ...]
    operators: tuple[int, ...]
    homes: tuple[int | None, ...]
    seconds: tuple[float, ...]
    sources: tuple[tuple[int, ...], ...]
    readers: tuple[tuple[int, ...], ...]

    def bottom_levels(self, delay: float = 0.0) -> list[float]:
        """Return the seconds of the longest path from each rTask's start to the program's end.

        A path follows dependencies from rTask to rTask. Each dependency on a path adds ``delay``
        seconds.
        """
        levels = [0.0] * len(self.seconds)
        for task in reversed(range(len(levels))):
            behind = max((levels[reader] + delay for reader in self.readers[task]), default=0.0)
            levels[task] = self.seconds[task] + behind
        return levels


def task_table(graph: TaskGraph, device: Device, kernels: Sequence[int]) -> TaskTable:
    """Return the table of the rTasks of a graph, in which operator o has rKernel ``kernels[o]``."""
    chosen = [o.kernels[k] for o, k in zip(graph.operators, kernels, strict=True)]
    base = [0, *accumulate(kernel.num_rtasks for kernel in chosen)]
    sources: list[set[int]] = [set() for _ in range(base[-1])]
    dependencies = Dependencies(graph)
    for number in range(len(chosen)):
        for edge in dependencies.edges(number, kernels):
            for rtask in range(chosen[number].num_rtasks):
                found = (base[edge.producer] + edge.pairs.of(rtask)).tolist()
                sources[base[number] + rtask].update(found)
    readers: list[list[int]] = [[] for _ in sources]
    for task, needed in enumerate(sources):
        for source in needed:
            readers[source].append(task)
    return TaskTable(
        tuple(kernels),
        tuple(base[:-1]),
        tuple(o for o, kernel in enumerate(chosen) for _ in range(kernel.num_rtasks)),
        tuple(
            operator.home
            for operator, kernel in zip(graph.operators, chosen, strict=True)
            for _ in range(kernel.num_rtasks)
        ),
        tuple(rtask_seconds(k, device) for k in chosen for _ in range(k.num_rtasks)),
        tuple(tuple(sorted(needed)) for needed in sources),
        tuple(tuple(behind) for behind in readers),
    )


def plan_of(
    graph: TaskGraph,
    device: Device,
    table: TaskTable,
    placement: Placement,
    awaited: Sequence[Collection[int]] | None = None,
) -> Plan:
    """Return a plan of one rProgram for a placement, without redundant waits.

    Barriers ensure that each rTask starts after the rTasks in ``awaited`` have ended. The plan's
    ``predicted_seconds`` come from a simulation.

    Args:
        graph: the graph of the plan.
        device: the device that the plan is for.
        table: the graph's rTasks.
        placement: the rTasks of each vEU, in order.
        awaited: for each rTask the rTasks that must end before it starts. If None, each rTask
            waits for the rTasks that it reads from.

    Raises:
        ScheduleError: if the orders of the vEUs contradict the dependencies, so that a wait would
            block forever.
    """
    needed = table.sources if awaited is None else awaited
    place = {task: (v, i) for v, tasks in enumerate(placement) for i, task in enumerate(tasks)}
    veus: list[tuple[Item, ...]] = []
    requested = 0
    for veu, tasks in enumerate(placement):
        items: list[Item] = []
        for task in tasks:
            latest: dict[int, int] = {}
            for source in needed[task]:
                other, order = place[source]
                if other != veu:
                    latest[other] = max(order, latest.get(other, 0))
            requested += len(latest)
            if latest:
                items.append(Barrier(tuple(sorted(latest.items()))))
            operator = table.operators[task]
            items.append(Run(operator, task - table.base[operator], 1))
        veus.append(tuple(items))
    whole = RProgram(device.num_veus, tuple(veus))
    plan = minimize(Plan((whole,), table.kernels, requested_waits=requested))
    return replace(plan, predicted_seconds=simulate(graph, plan, device).seconds)
