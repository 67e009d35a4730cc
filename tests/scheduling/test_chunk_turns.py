"""Tests that chunks of a chain are placed on vEUs so that few chunks are in progress.

The plans are correct.
"""

from __future__ import annotations

import pytest

from rammer_mlir.scheduling.chunk_turns import Chunk, in_turns
from rammer_mlir.scheduling.devices.catalog import cpu_device
from rammer_mlir.scheduling.graph import TaskGraph
from rammer_mlir.scheduling.policies import get_policy
from rammer_mlir.scheduling.policies.checked import ask
from rammer_mlir.scheduling.policies.policy import keeps_homes
from rammer_mlir.scheduling.program import Plan, Run
from rammer_mlir.scheduling.simulator import simulate
from rammer_mlir.scheduling.verifier import verify
from tests.scheduling.graphs import GraphMaker

STEPS = 3
"""Number of operators of a chunk."""


def chunked(count: int) -> tuple[TaskGraph, dict[int, Chunk]]:
    """Return a graph of a chain in ``count`` chunks, and the chunk of each operator.

    Each chunk has two elementwise operators and one that writes a result of the graph. The first
    operator of the graph computes the input of all chunks, and belongs to none.
    """
    maker = GraphMaker()
    x = maker.elementwise(maker.tensor(8, 16, kind="input"), tile=(2, 16))
    chunks: dict[int, Chunk] = {}
    for chunk in range(count):
        value = x
        for _ in range(STEPS - 1):
            chunks[len(maker.operators)] = (0, chunk)
            value = maker.elementwise(value, tile=(2, 16))
        chunks[len(maker.operators)] = (0, chunk)
        maker.output(value, tile=(2, 16))
    return maker.graph(), chunks


def veus_of(plan: Plan, operator: int) -> set[int]:
    """Return the vEUs that run rTasks of an operator."""
    return {
        number
        for program in plan.programs
        for number, veu in enumerate(program.veus)
        for item in veu
        if isinstance(item, Run) and item.operator == operator
    }


def most_in_progress(graph: TaskGraph, plan: Plan, chunks: dict[int, Chunk], veus: int) -> int:
    """Return the greatest number of chunks in progress at any time of a simulated run.

    A chunk is in progress from the start of its first rTask to the end of its last one. ``veus`` is
    the number of vEUs.
    """
    begin: dict[Chunk, float] = {}
    end: dict[Chunk, float] = {}
    for event in simulate(graph, plan, cpu_device(veus)).events:
        if isinstance(event.item, Run) and event.item.operator in chunks:
            chunk = chunks[event.item.operator]
            begin[chunk] = min(event.start, begin.get(chunk, event.start))
            end[chunk] = max(event.end, end.get(chunk, event.end))
    return max(sum(begin[c] <= time < end[c] for c in begin) for time in begin.values())


@pytest.mark.parametrize("policy", ["wavefront", "list", "auto", "sequential", "ios"])
@pytest.mark.parametrize(("count", "veus"), [(8, 1), (8, 2), (7, 2), (3, 2), (9, 4), (2, 4)])
def test_plans_are_correct_and_few_chunks_are_in_progress(
    count: int, veus: int, policy: str
) -> None:
    graph, chunks = chunked(count)
    chosen = get_policy(policy)
    ordered = in_turns(graph, chunks, veus, homes=keeps_homes(chosen))
    plan = ask(chosen, ordered, cpu_device(veus))
    verify(ordered, plan)
    verify(graph, plan)
    assert most_in_progress(graph, plan, chunks, veus) <= veus


@pytest.mark.parametrize("policy", ["wavefront", "list", "auto"])
@pytest.mark.parametrize(("count", "veus"), [(8, 2), (12, 4), (19, 2)])
def test_a_veu_computes_consecutive_chunks(count: int, veus: int, policy: str) -> None:
    graph, chunks = chunked(count)
    ordered = in_turns(graph, chunks, veus, homes=True)
    plan = ask(get_policy(policy), ordered, cpu_device(veus))
    share = -(-count // veus)
    for operator, (_, chunk) in chunks.items():
        assert ordered.operators[operator].home == chunk // share
        assert veus_of(plan, operator) == {chunk // share}


@pytest.mark.parametrize(("count", "veus"), [(3, 2), (7, 2), (8, 3), (9, 4), (2, 4)])
def test_veus_share_chunks_that_would_leave_some_idle(count: int, veus: int) -> None:
    graph, chunks = chunked(count)
    ordered = in_turns(graph, chunks, veus, homes=True)
    assert {operator.home for operator in ordered.operators} == {None}


def test_other_operators_have_no_home() -> None:
    graph, chunks = chunked(8)
    homes = [operator.home for operator in in_turns(graph, chunks, 2, homes=True).operators]
    assert homes[0] is None and None not in homes[1:]
    assert in_turns(graph, {}, 2, homes=True) is graph
    assert {o.home for o in in_turns(graph, chunks, 2, homes=False).operators} == {None}
    assert {operator.home for operator in in_turns(graph, chunks, 1, homes=True).operators} == {
        None
    }


def test_chains_have_turns_of_their_own() -> None:
    """If the chunks of two chains alternate in the graph, each vEU computes half of each chain."""
    graph, chunks = chunked(8)
    both = {operator: (chunk % 2, chunk // 2) for operator, (_, chunk) in chunks.items()}
    ordered = in_turns(graph, both, 2, homes=True)
    plan = ask(get_policy("wavefront"), ordered, cpu_device(2))
    verify(graph, plan)
    assert all(veus_of(plan, operator) == {chunk // 2} for operator, (_, chunk) in both.items())
