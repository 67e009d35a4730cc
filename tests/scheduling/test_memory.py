"""Tests that the arena, lifetimes and happens-before order of small plans are right.

They are compared with all executions of the plans.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rammer_mlir.scheduling.devices.catalog import cpu_device
from rammer_mlir.scheduling.graph import TaskGraph
from rammer_mlir.scheduling.lifetimes import lifetimes
from rammer_mlir.scheduling.memory import plan_memory
from rammer_mlir.scheduling.policies import get_policy
from rammer_mlir.scheduling.program import Plan
from rammer_mlir.scheduling.verifier.history import history
from tests.scheduling.graphs import SMALL, chain, random_graph, stencils
from tests.scheduling.interleavings import Tasks, all_before, in_use_together, judge

GRAPHS = {
    **{name: make() for name, make in SMALL.items()},
    **{f"random{seed}": random_graph(seed, length=6) for seed in range(8)},
}


def plans(graph: TaskGraph) -> list[Plan]:
    """Return eight plans of a graph, by two policies on several devices.

    One device makes barriers expensive, so that its plans have several rPrograms.
    """
    devices = [cpu_device(num_veus) for num_veus in (1, 2, 3)]
    devices.append(replace(cpu_device(3), launch_seconds=1e-9, barrier_seconds=1.0))
    names = ("wavefront", "sequential")
    return [get_policy(name).schedule(graph, device) for name in names for device in devices]


@pytest.mark.parametrize("name", GRAPHS)
def test_no_two_buffers_in_use_share_memory(name: str) -> None:
    graph = GRAPHS[name]
    for plan in plans(graph):
        tasks = Tasks(graph, plan.kernels)
        memory = plan_memory(graph, plan)
        assert not in_use_together(tasks, judge(tasks, plan), memory.offsets)
        kinds = {graph.buffers[number].kind for number in memory.offsets}
        assert kinds <= {"intermediate"}
        assert all(offset % 64 == 0 for offset in memory.offsets.values())
        ends = [memory.offsets[n] + graph.buffers[n].num_bytes for n in memory.offsets]
        assert max(ends) <= memory.sizes.arena_bytes <= memory.sizes.sum_bytes


@pytest.mark.parametrize("name", GRAPHS)
def test_lifetimes_are_exact(name: str) -> None:
    graph = GRAPHS[name]
    everyone = np.arange(len(graph.buffers))
    for plan in plans(graph):
        tasks = Tasks(graph, plan.kernels)
        verdict = judge(tasks, plan)
        lives = lifetimes(graph, plan)
        for a in everyone.tolist():
            disjoint = lives.disjoint(a, everyone)
            for b in everyone.tolist():
                before = all_before(tasks, verdict, a, b)
                assert disjoint[b] == (before or all_before(tasks, verdict, b, a))
                assert before or lives.last[a] >= lives.horizon[b]


@pytest.mark.parametrize("name", GRAPHS)
def test_happens_before_is_exact(name: str) -> None:
    graph = GRAPHS[name]
    for plan in plans(graph):
        ahead = judge(Tasks(graph, plan.kernels), plan).ahead
        found = history(graph, plan)
        everyone = np.arange(len(ahead))
        for task, mask in enumerate(ahead):
            precedes = found.precedes(everyone, np.full(len(ahead), task))
            assert precedes.tolist() == [bool(mask >> other & 1) for other in range(len(ahead))]


def test_memory_is_shared_along_a_chain() -> None:
    """The nine intermediates of a chain share the memory of two, which is the lower bound."""
    graph = chain(length=9, size=64)
    memory = plan_memory(graph, get_policy("sequential").schedule(graph, cpu_device(1)))
    assert (memory.sizes.arena_bytes, memory.sizes.live_bytes, memory.sizes.sum_bytes) == (
        512,
        512,
        9 * 256,
    )


@pytest.mark.parametrize("name", GRAPHS)
def test_arena_is_not_below_the_lower_bound_in_sequential_order(name: str) -> None:
    graph = GRAPHS[name]
    for num_veus in (1, 3):
        plan = get_policy("sequential").schedule(graph, cpu_device(num_veus))
        memory = plan_memory(graph, plan)
        assert memory.sizes.live_bytes <= memory.sizes.arena_bytes <= memory.sizes.sum_bytes


def test_programs_order_uses() -> None:
    """Intermediates of different rPrograms share memory without waits.

    A launch begins when the previous launch is complete.
    """
    graph = stencils(length=6, size=64, tile=16)
    device = replace(cpu_device(2), launch_seconds=1e-9, barrier_seconds=1.0)
    plan = get_policy("wavefront").schedule(graph, device)
    assert len(plan.programs) > 2
    assert plan.num_waits == 0
    memory = plan_memory(graph, plan)
    assert memory.sizes.arena_bytes == memory.sizes.live_bytes == 512
