"""Tests that the plans and lower bounds of the policy `optimal` equal those of brute force.

Graphs that are too large are refused.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from math import inf, nan

import pytest

from rammer_mlir.errors import OptionError
from rammer_mlir.scheduling.devices.catalog import cpu_device
from rammer_mlir.scheduling.graph import TaskGraph
from rammer_mlir.scheduling.policies.optimal import Optimal
from rammer_mlir.scheduling.tasks import task_table
from rammer_mlir.scheduling.verifier import verify
from tests.scheduling.graphs import random_graph
from tests.scheduling.placements import best_seconds, one_rtask_operators, small_operators


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


def check_proof(seed: int, num_veus: int, barrier: float) -> None:
    """Check the plan and the lower bound of `optimal` for a random graph against brute force.

    ``barrier`` is the cost of a barrier in seconds.
    """
    device = replace(cpu_device(num_veus), barrier_seconds=barrier, launch_seconds=0.0)
    graph = small_operators(seed)
    table = task_table(graph, device, [0] * len(graph.operators))
    best = best_seconds(graph, device, table)
    proof = Optimal().prove(graph, device)
    verify(graph, proof.plan)
    assert proof.plan.predicted_seconds == pytest.approx(best)
    assert best * (1 - 1e-5) <= proof.bound <= best * (1 + 1e-9)


def test_operators_of_several_rtasks_are_proven() -> None:
    pytest.importorskip("ortools")
    for seed in range(30):
        check_proof(seed, 2, 2e-6)


@pytest.mark.slow
@pytest.mark.parametrize("barrier", [0.0, 0.5e-6, 5e-6, 30e-6])
def test_many_operators_of_several_rtasks_are_proven(barrier: float) -> None:
    pytest.importorskip("ortools")
    for seed in range(100):
        check_proof(1000 + seed, 2, barrier)
    for seed in range(5):
        check_proof(2000 + seed, 3, barrier)


def test_plans_are_correct_and_never_slower_than_list() -> None:
    pytest.importorskip("ortools")
    for seed in range(6):
        graph = random_graph(seed, length=5)
        proof = Optimal(limit_seconds=1).prove(graph, cpu_device(3))
        verify(graph, proof.plan)
        assert 0 <= proof.gap < 1
    assert Optimal().prove(TaskGraph((), ()), cpu_device(2)).gap == 0


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
