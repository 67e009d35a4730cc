"""Tests that lower bounds hold for all schedules of small graphs.

All placements, orders and waits are tried.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import pytest

from rammer_mlir.scheduling.device_costs import Device
from rammer_mlir.scheduling.devices.catalog import cpu_device
from rammer_mlir.scheduling.graph import TaskGraph
from rammer_mlir.scheduling.policies.heads_tails import heads, tails
from rammer_mlir.scheduling.policies.lower_bounds import makespan_bound
from rammer_mlir.scheduling.policies.packing_bounds import packing_bound
from rammer_mlir.scheduling.policies.veu_loads import Group, possible_loads
from rammer_mlir.scheduling.program import Run
from rammer_mlir.scheduling.simulator import simulate
from rammer_mlir.scheduling.tasks import Placement, TaskTable, task_table
from tests.scheduling.placements import all_plans, best_seconds, one_rtask_operators

SLACK = 1e-12


def device_of(num_veus: int, barrier: float) -> Device:
    """Return a CPU device whose launches cost nothing.

    ``barrier`` is the cost of a barrier in seconds.
    """
    return replace(cpu_device(num_veus), barrier_seconds=barrier, launch_seconds=0.0)


def work_spans(
    graph: TaskGraph, device: Device, table: TaskTable
) -> Iterator[tuple[Placement, list[tuple[float, float]], float]]:
    """Yield the placement and the simulated times, in seconds, of each schedule of a graph.

    The times are the begin and the end of each rTask, and the end of the program.
    """
    for placement, plan in all_plans(graph, device, table):
        spans = [(0.0, 0.0)] * len(table.seconds)
        run = simulate(graph, plan, device)
        for event in run.events:
            if isinstance(event.item, Run):
                spans[table.base[event.item.operator]] = event.start, event.end
        yield placement, spans, run.seconds


def check_bounds(seed: int, length: int, num_veus: int, barrier: float, share: float) -> None:
    """Check that all bounds of a random graph hold for all of its schedules.

    ``length`` is the number of operators, ``barrier`` the cost of a barrier in seconds, and
    ``share`` the probability that an operator reads an earlier one.
    """
    device = device_of(num_veus, barrier)
    graph = one_rtask_operators(seed, length, edge_share=share)
    table = task_table(graph, device, [0] * length)
    bound = makespan_bound(table, num_veus, barrier)
    head = heads(table.seconds, table.sources, num_veus, barrier)
    tail = tails(table.seconds, table.readers, num_veus, barrier)
    groups = [
        Group(round(1e9 * s), [int(1e9 * h)], [int(1e9 * t)])
        for s, h, t in zip(table.seconds, head, tail, strict=True)
    ]
    limit = best_seconds(graph, device, table) * (1 + 0.1 * (seed % 4))
    loads = possible_loads(groups, round(1e9 * limit) + length, 10_000)
    assert loads is not None
    for placement, spans, seconds in work_spans(graph, device, table):
        assert bound <= seconds + SLACK
        for task, (begin, end) in enumerate(spans):
            assert head[task] <= begin + SLACK
            assert tail[task] <= seconds - end + SLACK
        if seconds <= limit:
            for tasks in placement:
                assert tuple(int(task in tasks) for task in range(length)) in loads


@pytest.mark.parametrize("barrier", [0.0, 1e-6, 9e-6])
def test_bounds_hold_for_all_schedules(barrier: float) -> None:
    for seed in range(40):
        check_bounds(seed, 4, 2, barrier, 0.3 + 0.15 * (seed % 4))
    for seed in range(3):
        check_bounds(100 + seed, 4, 3, barrier, 0.4)


@pytest.mark.slow
@pytest.mark.parametrize("barrier", [0.0, 1e-6, 3e-6, 9e-6, 40e-6])
def test_bounds_hold_for_all_schedules_of_many_graphs(barrier: float) -> None:
    for seed in range(150):
        check_bounds(1000 + seed, 4, 2 + seed % 2, barrier, 0.3 + 0.15 * (seed % 4))
    for seed in range(12):
        check_bounds(2000 + seed, 5, 2, barrier, 0.3 + 0.15 * (seed % 4))


def test_bounds_are_no_weaker_than_path_and_work() -> None:
    for seed in range(100):
        num_veus, barrier = 1 + seed % 4, 1e-6 * (seed % 3)
        device = device_of(num_veus, barrier)
        graph = one_rtask_operators(seed, 12, edge_share=0.1 + 0.1 * (seed % 4))
        table = task_table(graph, device, [0] * 12)
        bound = makespan_bound(table, num_veus, barrier)
        least = max(*table.bottom_levels(), sum(table.seconds) / num_veus)
        assert bound >= least * (1 - 1e-9)


def test_barriers_that_no_schedule_can_avoid_are_counted() -> None:
    # Three sources of 5 on three vEUs, or two of them on one: the reader waits, or time is lost.
    assert heads([5, 5, 5, 2], [(), (), (), (0, 1, 2)], 3, 1) == [0, 0, 0, 6]
    assert heads([5, 5, 5, 2], [(), (), (), (0, 1, 2)], 3, 9) == [0, 0, 0, 14]
    assert heads([5, 5, 5, 2], [(), (), (), (0, 1, 2)], 3, 20) == [0, 0, 0, 15]
    assert heads([5, 3], [(), (0,)], 3, 1) == [0, 5]  # on the same vEU
    # Of two readers one is on another vEU; with one vEU it comes second.
    assert tails([5, 4, 4], [(1, 2), (), ()], 2, 1) == [5, 0, 0]
    assert tails([5, 4, 4], [(1, 2), (), ()], 1, 1) == [8, 0, 0]


def test_loads_are_those_that_fit() -> None:
    groups = [Group(5, [0, 0, 0], [3, 3, 3]), Group(3, [6, 6], [0, 0])]
    assert possible_loads(groups, 13, 100) == [
        (0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (2, 0), (2, 1),
    ]  # fmt: skip
    assert possible_loads(groups, 8, 100) == [(0, 0), (1, 0)]
    assert possible_loads(groups, 13, 7) is None
    assert possible_loads([], 13, 7) == [()]


def test_packing_counts_whole_rtasks() -> None:
    assert packing_bound([1.0] * 7, 4) == 2
    assert packing_bound([5.0, 3.0, 3.0, 3.0, 2.0], 2) == 8  # two of the first three, or all work
    assert packing_bound([], 3) == 0
    rng = random.Random(5)
    for _ in range(200):
        seconds = sorted((rng.uniform(1, 9) for _ in range(rng.randint(1, 6))), reverse=True)
        num_veus = rng.randint(1, 3)
        best = min(
            max(sum(s for s, w in zip(seconds, where, strict=True) if w == v) for v in where)
            for where in product(range(num_veus), repeat=len(seconds))
        )
        assert packing_bound(seconds, num_veus) <= best * (1 + 1e-9)
