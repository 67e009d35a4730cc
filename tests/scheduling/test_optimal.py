"""The `optimal` policy: bounds and plans against brute force, and its errors."""

from __future__ import annotations

import random
import sys
from dataclasses import replace
from itertools import product
from math import inf, nan

import pytest

from rammer_mlir.errors import OptionError
from rammer_mlir.scheduling.devices.catalog import cpu_device
from rammer_mlir.scheduling.graph import TaskGraph
from rammer_mlir.scheduling.policies.lower_bounds import makespan_bound, packing_bound
from rammer_mlir.scheduling.policies.optimal import Optimal
from rammer_mlir.scheduling.tasks import task_table
from rammer_mlir.scheduling.verifier import verify
from tests.scheduling.graphs import random_graph
from tests.scheduling.placements import best_seconds, one_rtask_operators


def test_the_plan_is_the_best_of_all_placements_and_barriers() -> None:
    pytest.importorskip("ortools")
    for barrier, launch in ((0.0, 0.0), (2e-6, 4e-6)):
        device = replace(cpu_device(2), barrier_seconds=barrier, launch_seconds=launch)
        for seed in range(12):
            graph = one_rtask_operators(seed, 5)
            best = best_seconds(graph, device, task_table(graph, device, [0] * 5))
            proof = Optimal().prove(graph, device)
            verify(graph, proof.plan)
            assert proof.plan.predicted_seconds == pytest.approx(best)
            assert proof.bound <= best * (1 + 1e-9)
            assert proof.gap < 1e-5


def test_plans_are_correct_and_never_slower_than_list() -> None:
    pytest.importorskip("ortools")
    for seed in range(6):
        graph = random_graph(seed, length=5)
        proof = Optimal(limit_seconds=1).prove(graph, cpu_device(3))
        verify(graph, proof.plan)
        assert 0 <= proof.gap < 1
    assert Optimal().prove(TaskGraph((), ()), cpu_device(2)).gap == 0


def test_bounds_hold_for_all_placements_and_are_no_weaker_than_path_and_work() -> None:
    for seed in range(16):
        for num_veus in (2, 3):
            device = replace(cpu_device(num_veus), barrier_seconds=0.0, launch_seconds=0.0)
            graph = one_rtask_operators(seed, 5, edge_share=0.2 + 0.1 * (seed % 4))
            table = task_table(graph, device, [0] * 5)
            bound = makespan_bound(table, num_veus)
            assert bound <= best_seconds(graph, device, table) * (1 + 1e-9)
            least = max(*table.bottom_levels(), sum(table.seconds) / num_veus)
            assert bound >= least * (1 - 1e-9)


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


def test_missing_solver_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ortools.sat.python.cp_model", None)
    with pytest.raises(OptionError, match=r"pip install 'rammer-mlir\[optimal\]'"):
        Optimal().schedule(random_graph(0), cpu_device(2))


@pytest.mark.parametrize("limit", [0.0, -1.0, inf, nan])
def test_a_search_without_time_is_refused(limit: float) -> None:
    with pytest.raises(OptionError, match="time limit of policy 'optimal': expected a positive"):
        Optimal(limit_seconds=limit)


def test_graphs_that_are_too_large_are_refused() -> None:
    pytest.importorskip("ortools")
    graph, device = one_rtask_operators(1, 5), cpu_device(3)
    table = task_table(graph, device, [0] * 5)
    size = 3 * (5 + sum(map(len, table.sources)))
    verify(graph, Optimal(max_clauses=size).schedule(graph, device))
    with pytest.raises(OptionError, match=f"at most {size - 1} .*, found {size}; choose 'list'"):
        Optimal(max_clauses=size - 1).schedule(graph, device)
