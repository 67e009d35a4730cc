"""Tests that the policies `list` and `auto` make correct plans that are near the best.

The best plans are found by brute force. Wrong costs of a device are refused.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from math import inf, nan

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rammer_mlir.errors import OptionError
from rammer_mlir.scheduling.device_costs import Device
from rammer_mlir.scheduling.devices.catalog import cpu_device
from rammer_mlir.scheduling.memory import plan_memory
from rammer_mlir.scheduling.policies import POLICIES, get_policy
from rammer_mlir.scheduling.policies.auto import Auto
from rammer_mlir.scheduling.policies.list_scheduling import place
from rammer_mlir.scheduling.tasks import Placement, TaskTable, task_table
from rammer_mlir.scheduling.verifier import verify
from tests.scheduling.graphs import random_graph
from tests.scheduling.placements import best_seconds, one_rtask_operators


def test_list_is_near_the_best_of_all_placements() -> None:
    device = replace(cpu_device(2), barrier_seconds=2e-6)
    ratios: list[float] = []
    for seed in range(30):
        graph = one_rtask_operators(seed, 5)
        table = task_table(graph, device, [0] * 5)
        plan = get_policy("list").schedule(graph, device)
        ratios.append(plan.predicted_seconds / best_seconds(graph, device, table))
    assert min(ratios) > 1 - 1e-9, "nothing is faster than the best of all"
    assert sum(ratios) / len(ratios) < 1.03


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    num_veus=st.integers(1, 5),
    name=st.sampled_from(sorted(set(POLICIES.names()) - {"optimal"})),
)
def test_every_policy_makes_correct_plans(seed: int, num_veus: int, name: str) -> None:
    graph = random_graph(seed, length=8)
    plan = get_policy(name).schedule(graph, cpu_device(num_veus))
    verify(graph, plan, plan_memory(graph, plan).offsets)


def test_auto_is_never_slower_than_what_it_tries() -> None:
    for seed in range(8):
        graph, device = random_graph(seed, length=10), cpu_device(3)
        others = [
            get_policy(n).schedule(graph, device) for n in ("wavefront", "sequential", "list")
        ]
        best = min(plan.predicted_seconds for plan in others)
        assert get_policy("auto").schedule(graph, device).predicted_seconds == best


@pytest.mark.parametrize("budget", [0, -1.0, nan])
def test_a_budget_without_time_is_refused(budget: float) -> None:
    with pytest.raises(OptionError, match="search budget: expected more than 0 seconds, found"):
        Auto(budget_seconds=budget)


@pytest.mark.parametrize("field", ["flops_per_second", "bytes_per_second", "barrier_seconds"])
@pytest.mark.parametrize("value", [-1.0, inf, nan])
def test_senseless_figures_are_refused(field: str, value: float) -> None:
    with pytest.raises(OptionError, match=f"device 'cpu': {field}: expected .*, found"):
        replace(cpu_device(2), **{field: value})


def test_a_rate_of_zero_is_refused() -> None:
    with pytest.raises(OptionError, match="flops_per_second: expected a positive"):
        replace(cpu_device(2), flops_per_second=0.0)


def placed_one_by_one(table: TaskTable, device: Device, priority: Sequence[float]) -> Placement:
    """Return the placement that the function ``place`` of list scheduling should return.

    It is computed in a simple way: a set has, for each vEU, the rTasks that the vEU knows to be
    complete. ``priority`` has the priority of each rTask of ``table``.
    """
    tasks: list[list[int]] = [[] for _ in range(device.num_veus)]
    free = [0.0] * device.num_veus
    complete: list[set[int]] = [set() for _ in range(device.num_veus)]
    known: dict[int, set[int]] = {}
    end: dict[int, float] = {}
    while len(end) < len(table.seconds):
        ready = [
            task
            for task, sources in enumerate(table.sources)
            if task not in end and all(source in end for source in sources)
        ]
        task = min(ready, key=lambda task: (-priority[task], task))

        def start(veu: int, task: int = task) -> float:
            waits = [end[s] for s in table.sources[task] if s not in complete[veu]]
            return max(free[veu], *waits) + device.barrier_seconds if waits else free[veu]

        veu = min(range(device.num_veus), key=lambda veu: (start(veu), -free[veu], veu))
        free[veu] = end[task] = start(veu) + table.seconds[task]
        for source in table.sources[task]:
            complete[veu] |= known[source]
        complete[veu].add(task)
        known[task] = set(complete[veu])
        tasks[veu].append(task)
    return tasks


@pytest.mark.parametrize("seed", range(60))
def test_placements_equal_a_plain_reading_of_the_rule(seed: int) -> None:
    rng = random.Random(seed)
    graph = random_graph(seed, length=12)
    device = Device("random", rng.randint(1, 9), 1e9, 1e9, 1e9, 1e-7, rng.choice((0.0, 1e-7)), 1e-6)
    kernels = [rng.randrange(len(operator.kernels)) for operator in graph.operators]
    table = task_table(graph, device, kernels)
    priority = table.bottom_levels(device.barrier_seconds)
    assert place(table, device, priority) == placed_one_by_one(table, device, priority)
