"""Tests that the predicted cache misses of a repeated plan equal a simple count of missing blocks.

A block has 1 KiB of adjacent memory.
"""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from rammer_mlir.scheduling.device_costs import Device
from rammer_mlir.scheduling.graph import (
    COLD_BYTES,
    FAR_BYTES,
    Access,
    Boxes,
    Buffer,
    MeasuredSeconds,
    RKernel,
    ROperator,
    TaskGraph,
    View,
)
from rammer_mlir.scheduling.memory import plan_memory
from rammer_mlir.scheduling.policies import get_policy
from rammer_mlir.scheduling.program import Barrier, Plan, RProgram, Run
from rammer_mlir.scheduling.replay import ReplayedCosts
from rammer_mlir.scheduling.simulator import simulate
from tests.scheduling.graphs import random_graph

KB = 1024
BLOCK = KB // 4
"""Number of elements of a block of memory, which has a kilobyte."""


def device(num_veus: int, cache: int, lost: int = 0) -> Device:
    """Return a device whose vEUs load a kilobyte per second, and compute in no time.

    ``cache`` and ``lost`` are working-set sizes in bytes: the largest that is kept, and the
    smallest of which nothing is kept. If ``lost`` is 0, it is ``cache``.
    """
    return Device(
        "d", num_veus, 1e30, KB, KB * num_veus, 0.0, 0.0, 0.0,
        cache_bytes=cache, cache_kept_bytes=cache, cache_lost_bytes=lost or cache,
    )  # fmt: skip


def _whole(argument: int, blocks: int) -> Access:
    return Access(argument, Boxes(np.zeros(1, np.int64), np.full((1, 1), blocks * BLOCK), (1,)))


def _operator(name: str, graph: list[Buffer], reads: list[int], write: int) -> ROperator:
    sizes = [graph[number].num_elements // BLOCK for number in (*reads, write)]
    accesses = [_whole(argument, size) for argument, size in enumerate(sizes)]
    kernel = RKernel(name, 1, tuple(accesses[:-1]), (accesses[-1],))
    return ROperator(name, (kernel,), tuple(View(number) for number in (*reads, write)))


def _random_chain(seed: int) -> TaskGraph:
    """Return a chain of operators that each read a random constant and the previous result."""
    generator = random.Random(seed)
    buffers = [Buffer("x", 4 * BLOCK, 4, "input")]
    buffers += [Buffer(f"w{n}", generator.randint(1, 9) * BLOCK, 4, "constant") for n in range(4)]
    operators: list[ROperator] = []
    last = 0
    for number in range(12):
        buffers.append(Buffer(f"t{number}", generator.randint(1, 6) * BLOCK, 4, "intermediate"))
        new = len(buffers) - 1
        operators.append(_operator(f"o{number}", buffers, [generator.randint(1, 4), last], new))
        last = new
    return TaskGraph(tuple(buffers), tuple(operators))


def _in_order(graph: TaskGraph) -> Plan:
    runs = tuple(Run(number, 0, 1) for number in range(len(graph.operators)))
    return Plan((RProgram(1, (runs,)),), (0,) * len(runs))


def _plain_misses(graph: TaskGraph, plan: Plan, cache: int) -> list[int]:
    """Return, for each operator, how many memory blocks that it touches are not in the cache.

    The blocks are counted in the third of three executions of ``plan``, from a list of all
    accesses. A block of 1 KiB is missing if the operators from the one that last used it to the one
    before the current operator touch more than ``cache`` bytes in total.
    """
    planned = plan_memory(graph, plan)
    address, end = dict(planned.offsets), planned.sizes.arena_bytes
    for number, buffer in enumerate(graph.buffers):
        if number not in address:
            address[number] = end
            end += buffer.num_bytes
    touched = [
        {
            address[view.buffer] // KB + block
            for view in operator.operands
            for block in range(graph.buffers[view.buffer].num_bytes // KB)
        }
        for operator in graph.operators
    ]
    line = touched * 3
    found: list[int] = []
    for now in range(len(touched) * 2, len(line)):
        missing = 0
        for block in line[now]:
            before = max(n for n in range(now) if block in line[n])
            # What an operator touched counts from its last use on, in blocks.
            since = {b for n in range(before, now) for b in line[n]}
            missing += len(since) * KB > cache
        found.append(missing)
    return found


@pytest.mark.parametrize("cache", [5, 12, 20, 40])
@pytest.mark.parametrize("seed", range(8))
def test_a_run_lacks_what_a_plain_count_says(seed: int, cache: int) -> None:
    graph = _random_chain(seed)
    plan, one = _in_order(graph), device(1, cache * KB)
    events = simulate(graph, plan, one, ReplayedCosts(graph, plan, one)).events
    seconds = [event.end - event.start for event in events]
    assert seconds == pytest.approx(_plain_misses(graph, plan, cache * KB))


def test_a_program_that_fits_lacks_nothing_since_results_share_memory() -> None:
    """Twenty results of 4 memory blocks cause no misses in a cache of 12 blocks.

    They fit because they share an arena of 8 blocks. A block has 1 KiB.
    """
    buffers = [Buffer("x", 4 * BLOCK, 4, "input")]
    operators: list[ROperator] = []
    for number in range(20):
        buffers.append(Buffer(f"t{number}", 4 * BLOCK, 4, "intermediate"))
        operators.append(_operator(f"o{number}", buffers, [number], number + 1))
    graph = TaskGraph(tuple(buffers), tuple(operators))
    plan, small = _in_order(graph), device(1, 12 * KB)
    assert simulate(graph, plan, small, ReplayedCosts(graph, plan, small)).seconds == 0
    smaller = device(1, 7 * KB)
    assert simulate(graph, plan, smaller, ReplayedCosts(graph, plan, smaller)).seconds == 160


def test_what_another_veu_wrote_is_not_in_the_cache() -> None:
    buffers = [Buffer("w", 3 * BLOCK, 4, "constant"), Buffer("t", 5 * BLOCK, 4, "intermediate"),
               Buffer("y", 2 * BLOCK, 4, "output")]  # fmt: skip
    operators = (_operator("a", buffers, [0], 1), _operator("b", buffers, [1], 2))
    graph, two = TaskGraph(tuple(buffers), operators), device(2, 100 * KB)
    program = RProgram(2, ((Run(0, 0, 1),), (Barrier(((0, 0),)), Run(1, 0, 1))))
    plan = Plan((program,), (0, 0))
    events = simulate(graph, plan, two, ReplayedCosts(graph, plan, two)).events
    spent = {e.item.operator: e.end - e.start for e in events if isinstance(e.item, Run)}
    assert spent == {0: 0.0, 1: 5.0}


def test_measured_times_lie_between_hot_and_far() -> None:
    """An rTask's time is interpolated between its hot and cold times by the reuse distance.

    The only operator of the program runs again and again, so the distance is its size.
    """
    blocks = 16
    buffers = [Buffer("w", (blocks - 1) * BLOCK, 4, "constant"), Buffer("y", BLOCK, 4, "output")]
    operator = _operator("a", buffers, [0], 1)
    kernel = replace(operator.kernels[0], measured=MeasuredSeconds(1.0, 3.0, 9.0))
    graph = TaskGraph(tuple(buffers), (replace(operator, kernels=(kernel,)),))
    plan = _in_order(graph)

    def seconds(kept: int, lost: int) -> float:
        one = device(1, kept * KB, lost * KB)
        return simulate(graph, plan, one, ReplayedCosts(graph, plan, one)).seconds

    assert seconds(16, 20) == 1.0
    assert seconds(8, 16) == 3.0
    assert seconds(12, 20) == pytest.approx(2.0)


def test_memory_that_was_brought_in_long_ago_is_far() -> None:
    between = (COLD_BYTES + FAR_BYTES) // 2
    found: list[float] = []
    for size in (COLD_BYTES // 2, between, 2 * FAR_BYTES):
        blocks = size // KB
        buffers = [Buffer("w", (blocks - 1) * BLOCK, 4, "constant"),
                   Buffer("y", BLOCK, 4, "output")]  # fmt: skip
        operator = _operator("a", buffers, [0], 1)
        kernel = replace(operator.kernels[0], measured=MeasuredSeconds(1.0, 3.0, 9.0))
        graph = TaskGraph(tuple(buffers), (replace(operator, kernels=(kernel,)),))
        plan, one = _in_order(graph), device(1, KB)
        found.append(simulate(graph, plan, one, ReplayedCosts(graph, plan, one)).seconds)
    assert found == pytest.approx([3.0, 6.0, 9.0])


@pytest.mark.parametrize("policy", ["wavefront", "sequential"])
@pytest.mark.parametrize("seed", range(6))
def test_smaller_caches_are_never_faster_in_a_replay(seed: int, policy: str) -> None:
    """A smaller cache never makes a run faster, and a second replay takes the same time."""
    graph = random_graph(seed, length=10)
    times: list[float] = []
    for cache in (1 << 30, 4 * KB, 1):
        three = device(3, cache)
        plan = get_policy(policy).schedule(graph, replace(three, cache_bytes=0))
        first, again = (
            simulate(graph, plan, three, ReplayedCosts(graph, plan, three)).seconds
            for _ in range(2)
        )
        assert first == again
        times.append(first)
    assert times[0] <= times[1] <= times[2]
    assert times[2] > 0
