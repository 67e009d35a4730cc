"""Tests that graphs are changed so that their intermediates fit into a memory limit.

They fit in every schedule of the changed graph.
"""

from __future__ import annotations

import pickle
import random

import pytest

from rammer_mlir.errors import ScheduleError
from rammer_mlir.scheduling.devices.catalog import cpu_device
from rammer_mlir.scheduling.graph import TaskGraph
from rammer_mlir.scheduling.memory import aligned, plan_memory
from rammer_mlir.scheduling.memory_limit import MemoryLimitError, limited, live_spans
from rammer_mlir.scheduling.policies import get_policy
from rammer_mlir.scheduling.policies.checked import ask
from rammer_mlir.scheduling.verifier import verify
from tests.scheduling.graphs import SMALL, GraphMaker, random_graph
from tests.scheduling.interleavings import Tasks, in_use_together, judge

GRAPHS = {
    **{name: make() for name, make in SMALL.items()},
    **{f"random{seed}": random_graph(seed, length=6) for seed in range(8)},
}


def least(graph: TaskGraph) -> int:
    """Return the smallest memory limit, in bytes, for which ``limited`` finds a changed graph."""
    total = sum(aligned(b.num_bytes) for b in graph.buffers if b.kind == "intermediate")
    for limit in range(0, total + 1, 64):
        try:
            limited(graph, limit)
        except ScheduleError:
            continue
        return limit
    raise AssertionError("all intermediates side by side do not fit")


@pytest.mark.parametrize("policy", ["wavefront", "sequential", "list"])
@pytest.mark.parametrize("name", GRAPHS)
def test_no_two_values_that_shared_memory_are_in_use_together(name: str, policy: str) -> None:
    graph = GRAPHS[name]
    smallest = least(graph)
    for limit in (smallest, smallest + 128):
        ordered = limited(graph, limit)
        plan = ask(get_policy(policy), ordered.graph, cpu_device(2))
        verify(graph, plan)
        memory = plan_memory(graph, plan, ordered.offsets)
        tasks = Tasks(graph, plan.kernels)
        verdict = judge(tasks, plan)
        assert not in_use_together(tasks, verdict, memory.offsets)
        for buffer in ordered.graph.buffers:
            for before in buffer.after:
                assert graph.buffers[before].kind == "intermediate"
        assert memory.sizes.arena_bytes <= limit


def branches(count: int) -> TaskGraph:
    """Return a graph of ``count`` branches that read one input, and the sum of their results.

    Each branch is an elementwise operator followed by a reduction.
    """
    g = GraphMaker()
    x = g.tensor(8, 64, kind="input")
    ends = [g.reduce(g.elementwise(x, tile=(4, 64)), 4) for _ in range(count)]
    g.elementwise(*ends, tile=(4,), out=g.tensor(8, kind="output"))
    return g.graph()


def test_branches_wait_for_memory_only_where_it_is_short() -> None:
    graph = branches(4)
    free = ask(get_policy("wavefront"), graph, cpu_device(2))
    wide = plan_memory(graph, free).sizes.arena_bytes
    assert wide >= 4 * 8 * 64 * 4
    for buffers in (1, 2, 3):
        limit = buffers * 8 * 64 * 4 + 4 * 64
        fitting = limited(graph, limit)
        plan = ask(get_policy("wavefront"), fitting.graph, cpu_device(2))
        assert plan_memory(graph, plan, fitting.offsets).sizes.arena_bytes <= limit
    unbound = limited(graph, wide + 4 * 64)
    assert not any(buffer.after for buffer in unbound.graph.buffers)


def test_too_small_a_limit_names_what_is_needed() -> None:
    with pytest.raises(ScheduleError, match="fit into 64 bytes, found 2304 in the order"):
        limited(branches(4), 64)


@pytest.mark.parametrize("seed", range(6))
def test_live_spans_cover_every_use(seed: int) -> None:
    graph = random_graph(seed, length=random.Random(seed).randrange(3, 9))
    spans = live_spans(graph, dict.fromkeys(range(len(graph.buffers)), 1))
    for number, operator in enumerate(graph.operators):
        for view in operator.operands:
            first, last = spans[view.buffer]
            assert first <= number <= last


def test_errors_pass_between_processes() -> None:
    error = MemoryLimitError(limit=64, needed=128)
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), copy.needed, str(copy)) == (MemoryLimitError, 128, str(error))
