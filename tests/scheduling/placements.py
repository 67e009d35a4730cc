"""Random graphs of few rTasks, and an exhaustive enumeration of their placements and plans."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import combinations, product

import numpy as np

from rammer_mlir.errors import ScheduleError
from rammer_mlir.scheduling.device_costs import Device
from rammer_mlir.scheduling.graph import (
    Access,
    Boxes,
    Buffer,
    RKernel,
    ROperator,
    TaskGraph,
    View,
)
from rammer_mlir.scheduling.program import Plan
from rammer_mlir.scheduling.tasks import Placement, TaskTable, plan_of


def one_rtask_operators(seed: int, length: int, edge_share: float = 0.4) -> TaskGraph:
    """Return a random graph of operators with one rTask each, of 1 to 40 us on ``cpu_device``.

    ``edge_share`` is the probability that an operator reads the element of an earlier one.
    """
    rng = random.Random(seed)
    buffers = tuple(Buffer(f"b{i}", 1, 4, "intermediate") for i in range(length))
    operators: list[ROperator] = []
    for number in range(length):
        sources = [i for i in range(number) if rng.random() < edge_share]
        reads = tuple(Access(i, _element()) for i in range(len(sources)))
        kernel = RKernel(
            f"k{number}",
            1,
            reads,
            (Access(len(sources), _element()),),
            flops_per_rtask=rng.randint(1, 40) * 40_000,
        )
        views = tuple(View(buffer) for buffer in (*sources, number))
        operators.append(ROperator(f"o{number}", (kernel,), views))
    return TaskGraph(buffers, tuple(operators))


def small_operators(seed: int, total: int = 5) -> TaskGraph:
    """Return a random graph of operators of one to three equal rTasks, ``total`` rTasks in all.

    An rTask reads a random interval of earlier operators' elements.
    """
    rng = random.Random(seed)
    counts: list[int] = []
    while sum(counts) < total:
        counts.append(min(rng.randint(1, 3), total - sum(counts)))
    buffers = tuple(Buffer(f"b{i}", count, 4, "intermediate") for i, count in enumerate(counts))
    operators: list[ROperator] = []
    for number, count in enumerate(counts):
        sources = [i for i in range(number) if rng.random() < 0.7]
        reads = tuple(
            Access(i, _parts([_interval(rng, counts[source]) for _ in range(count)]))
            for i, source in enumerate(sources)
        )
        written = Access(len(sources), _parts([(element, 1) for element in range(count)]))
        flops = rng.randint(1, 40) * 40_000
        kernel = RKernel(f"k{number}", count, reads, (written,), flops_per_rtask=flops)
        views = tuple(View(buffer) for buffer in (*sources, number))
        operators.append(ROperator(f"o{number}", (kernel,), views))
    return TaskGraph(buffers, tuple(operators))


def _interval(rng: random.Random, size: int) -> tuple[int, int]:
    first = rng.randrange(size)
    return first, rng.randint(1, size - first)


def _parts(intervals: list[tuple[int, int]]) -> Boxes:
    """Return one-dimensional boxes, given the first element and the number of elements of each."""
    table = np.array(intervals, dtype=np.int64)
    return Boxes(table[:, 0], table[:, 1:], (1,))


def _element() -> Boxes:
    return Boxes(np.zeros(1, dtype=np.int64), np.ones((1, 1), dtype=np.int64), (1,))


def placements(table: TaskTable, num_veus: int) -> Iterator[Placement]:
    """Yield every placement that respects the dependencies: the rTasks of each vEU in order."""
    seen: set[tuple[tuple[int, ...], ...]] = set()

    def extend(veus: tuple[tuple[int, ...], ...], done: frozenset[int]) -> Iterator[Placement]:
        if veus in seen:
            return
        seen.add(veus)
        if len(done) == len(table.seconds):
            yield veus
        for task, sources in enumerate(table.sources):
            if task not in done and done.issuperset(sources):
                for v in range(num_veus):
                    more = (*veus[:v], (*veus[v], task), *veus[v + 1 :])
                    yield from extend(more, done | {task})

    yield from extend(((),) * num_veus, frozenset())


def waits(table: TaskTable, placement: Placement) -> Iterator[list[set[int]]]:
    """Yield choices of waits for a placement: for each rTask, the set of rTasks that it waits for.

    An rTask waits for its sources. If one of them is on another vEU, it may also wait for sources
    of later rTasks of its vEU.
    """
    choices: list[list[set[int]]] = [[] for _ in table.seconds]
    for tasks in placement:
        for position, task in enumerate(tasks):
            own = set(table.sources[task])
            later = {s for t in tasks[position + 1 :] for s in table.sources[t]} - own - set(tasks)
            outside = bool(own - set(tasks))
            for count in range(len(later) + 1 if outside else 1):
                choices[task].extend(own | set(more) for more in combinations(later, count))
    yield from map(list, product(*choices))


def all_plans(
    graph: TaskGraph, device: Device, table: TaskTable
) -> Iterator[tuple[Placement, Plan]]:
    """Yield every placement with each of its plans: one for each choice of ``waits``.

    Choices whose waits would form a cycle are left out.
    """
    for placement in placements(table, device.num_veus):
        for awaited in waits(table, placement):
            try:
                plan = plan_of(graph, device, table, placement, awaited)
            except ScheduleError:  # waiting for more closed a cycle
                continue
            yield placement, plan


def best_seconds(graph: TaskGraph, device: Device, table: TaskTable) -> float:
    """Return the smallest predicted time of all the plans that ``all_plans`` enumerates."""
    return min(plan.predicted_seconds for _, plan in all_plans(graph, device, table))
