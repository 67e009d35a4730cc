"""Tests that the simulator's times and order of execution, and summaries of plans, are right."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

import pytest

from rammer_mlir.errors import ScheduleError
from rammer_mlir.scheduling.costs import rtask_seconds
from rammer_mlir.scheduling.device_costs import Device
from rammer_mlir.scheduling.devices.catalog import cpu_device
from rammer_mlir.scheduling.execution_order import execution_order
from rammer_mlir.scheduling.graph import RKernel, ROperator, TaskGraph
from rammer_mlir.scheduling.memory import plan_memory
from rammer_mlir.scheduling.policies import get_policy
from rammer_mlir.scheduling.program import Barrier, Plan, RProgram, Run
from rammer_mlir.scheduling.report import summary
from rammer_mlir.scheduling.simulator import Event, simulate
from tests.scheduling.graphs import SMALL, random_graph

GRAPHS = {
    **{name: make() for name, make in SMALL.items()},
    **{f"random{seed}": random_graph(seed, length=10) for seed in range(6)},
}


def ends_of_rtasks(
    events: list[Event], graph: TaskGraph, plan: Plan, device: Device
) -> list[float]:
    """Return the end of each rTask of a vEU in order, in seconds.

    ``events`` are the simulated events of that vEU; an event of a run has several rTasks.
    """
    ends: list[float] = []
    for event in events:
        if isinstance(event.item, Run):
            kernel = graph.operators[event.item.operator].kernels[plan.kernels[event.item.operator]]
            seconds = rtask_seconds(kernel, device)
            ends += [event.start + seconds * (i + 1) for i in range(event.item.count)]
            assert event.end == pytest.approx(ends[-1])
    return ends


@pytest.mark.parametrize("policy", ["wavefront", "sequential"])
@pytest.mark.parametrize("name", GRAPHS)
def test_items_follow_each_other_and_barriers_wait(name: str, policy: str) -> None:
    graph, device = GRAPHS[name], cpu_device(3)
    plan = get_policy(policy).schedule(graph, device)
    simulation = simulate(graph, plan, device)
    assert simulation == simulate(graph, plan, device)
    lists: defaultdict[int, list[Event]] = defaultdict(list)
    for event in simulation.events:
        lists[event.veu].append(event)
    for veu, items in enumerate(plan.programs[0].veus):
        assert tuple(event.item for event in lists[veu]) == items
        assert all(a.end == b.start for a, b in pairwise(lists[veu]))
    ends = {veu: ends_of_rtasks(events, graph, plan, device) for veu, events in lists.items()}
    for event in simulation.events:
        if isinstance(event.item, Barrier):
            awaited = max(ends[veu][order] for veu, order in event.item.waits)
            begin = max(event.start, awaited)
            assert event.end == pytest.approx(begin + device.barrier_seconds)
    assert simulation.seconds == max(event.end for event in simulation.events)


@pytest.mark.parametrize("name", GRAPHS)
def test_execution_order_meets_every_wait(name: str) -> None:
    (program,) = get_policy("wavefront").schedule(GRAPHS[name], cpu_device(4)).programs
    done = [0] * 4
    items: list[list[object]] = [[] for _ in range(4)]
    for veu, item in execution_order(program):
        items[veu].append(item)
        if isinstance(item, Barrier):
            assert all(done[other] > order for other, order in item.waits)
        else:
            done[veu] += item.count
    assert tuple(tuple(own) for own in items) == program.veus


def operators(count: int, num_rtasks: int = 1) -> TaskGraph:
    """Return ``count`` independent operators, whose rTasks take a microsecond on ``cpu_device``."""
    kernel = RKernel("k", num_rtasks, (), (), flops_per_rtask=38_000)
    return TaskGraph((), tuple(ROperator(f"o{n}", (kernel,), ()) for n in range(count)))


def test_times_by_hand() -> None:
    """Simulated times of a small plan equal times that were calculated by hand.

    vEU 1 waits for the first of two rTasks of vEU 0.
    """
    graph, device = operators(2, num_rtasks=2), cpu_device(2)
    program = RProgram(2, ((Run(0, 0, 2),), (Barrier(((0, 0),)), Run(1, 0, 2))))
    simulation = simulate(graph, Plan((program, program), (0, 0)), device)
    times = [
        (e.program, e.veu, round(e.start * 1e6, 3), round(e.end * 1e6, 3))
        for e in simulation.events
    ]
    assert sorted(times) == [
        (0, 0, 4.0, 6.0),
        (0, 1, 4.0, 5.25),
        (0, 1, 5.25, 7.25),
        (1, 0, 11.25, 13.25),
        (1, 1, 11.25, 12.5),
        (1, 1, 12.5, 14.5),
    ]
    assert simulation.waiting_seconds == pytest.approx(2.5e-6)


def test_a_deadlock_names_every_wait_of_the_circle() -> None:
    program = RProgram(
        2,
        (
            (Barrier(((1, 1),)), Run(0, 0, 1)),
            (Run(1, 0, 1), Barrier(((0, 0),)), Run(2, 0, 1)),
        ),
    )
    with pytest.raises(ScheduleError) as failure:
        simulate(operators(3), Plan((program,), (0, 0, 0)), cpu_device(2))
    assert str(failure.value) == (
        "deadlock: vEU 0 before its first rTask waits for vEU 1 order 1; vEU 1 after order 0 waits "
        "for vEU 0 order 0: expected waits that some order of execution satisfies"
    )


def test_summary() -> None:
    graph = SMALL["stencils"]()
    plan = get_policy("wavefront").schedule(graph, cpu_device(2))
    assert summary(graph, plan).splitlines() == [
        "rPrograms        1 on 2 vEUs",
        "rOperators       4 with 2 distinct rKernels",
        "rTasks           16",
        "barriers         4 with 4 waits (4 before minimizing)",
        f"predicted time   {plan.predicted_seconds * 1e3:.3f} ms",
    ]
    text = summary(graph, plan, plan_memory(graph, plan).sizes)
    assert text.splitlines()[-1] == (
        "arena            0.00 MiB for 0.00 MiB of intermediates "
        "(lower bound on the sequential order 0.00 MiB)"
    )
