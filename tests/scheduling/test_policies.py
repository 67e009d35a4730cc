"""Tests that all policies make correct plans.

They choose rKernels as RAMMER does, and divide a plan into several rPrograms where this is faster.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rammer_mlir.errors import OptionError, ScheduleError
from rammer_mlir.scheduling.builder import Context, ProgramBuilder, finish_plan
from rammer_mlir.scheduling.device_costs import Device
from rammer_mlir.scheduling.devices.catalog import cpu_device
from rammer_mlir.scheduling.graph import RKernel, ROperator, TaskGraph
from rammer_mlir.scheduling.memory import plan_memory
from rammer_mlir.scheduling.policies import POLICIES, get_policy, register_policy
from rammer_mlir.scheduling.program import Barrier, Plan, Run
from rammer_mlir.scheduling.simulator import simulate
from rammer_mlir.scheduling.verifier import verify
from tests.scheduling.graphs import SMALL, GraphMaker, chain, random_graph, stencils
from tests.scheduling.interleavings import Tasks, judge

BUILT_IN = sorted(set(POLICIES.names()) - {"optimal"})
"""All built-in policies but `optimal`, which needs an extra and has tests of its own."""

GRAPHS = {
    **{name: make() for name, make in SMALL.items()},
    **{f"random{seed}": random_graph(seed, length=12) for seed in range(12)},
}


def device(**changes: float) -> Device:
    """Return a CPU of two vEUs whose costs in ``changes`` are replaced."""
    return replace(cpu_device(2), **changes)


@pytest.mark.parametrize("policy", BUILT_IN)
@pytest.mark.parametrize("name", GRAPHS)
def test_plans_are_correct(name: str, policy: str) -> None:
    graph = GRAPHS[name]
    for num_veus in (1, 2, 3, 8):
        plan = get_policy(policy).schedule(graph, cpu_device(num_veus))
        verify(graph, plan)
        verify(graph, plan, plan_memory(graph, plan).offsets)
        assert num_veus > 1 or plan.num_waits == 0


@pytest.mark.parametrize("name", SMALL)
def test_plans_of_small_graphs_are_correct_in_every_execution(name: str) -> None:
    graph = GRAPHS[name]
    for policy in BUILT_IN:
        plan = get_policy(policy).schedule(graph, cpu_device(4))
        assert not judge(Tasks(graph, plan.kernels), plan).harmful


def test_sequential_never_overlaps_operators() -> None:
    graph = GRAPHS["branches"]
    plan = get_policy("sequential").schedule(graph, cpu_device(3))
    tasks = Tasks(graph, plan.kernels)
    ahead = judge(tasks, plan).ahead
    for first, end in pairwise(tasks.base):
        earlier = (1 << first) - 1
        assert all(not earlier & ~ahead[task] for task in range(first, end))


def test_neighbors_stay_on_one_veu() -> None:
    """A chain of elementwise operators with equal tiles needs no barrier."""
    for num_veus in (2, 3, 8):
        assert get_policy("wavefront").schedule(chain(), cpu_device(num_veus)).num_waits == 0


def kernel(name: str, num_rtasks: int, microseconds: float) -> RKernel:
    """Return an rKernel without operands, whose rTasks take ``microseconds`` on ``cpu_device``."""
    return RKernel(name, num_rtasks, (), (), flops_per_rtask=int(microseconds * 40e3))


def test_few_rtasks_take_the_fastest_rkernel() -> None:
    """If the rTasks do not fill the device, `wavefront` chooses the rKernel that ends first.

    If they fill the device, it chooses the rKernel with the smallest sum of all rTasks' times.
    """
    wide, narrow = kernel("wide", 4, 3.0), kernel("narrow", 1, 10.0)
    one = TaskGraph((), (ROperator("a", (narrow, wide), ()),))
    assert get_policy("wavefront").schedule(one, cpu_device(8)).kernels == (1,)
    many = TaskGraph((), tuple(ROperator(f"o{i}", (narrow, wide), ()) for i in range(16)))
    assert get_policy("wavefront").schedule(many, cpu_device(8)).kernels == (0,) * 16
    assert get_policy("sequential").schedule(many, cpu_device(8)).kernels == (1,) * 16


def test_efficient_rkernels_only_where_they_are_predicted_faster() -> None:
    """Four short rTasks are chosen over a long one, although their total time is larger.

    Three operators with a single long rTask each would leave five of eight vEUs idle.
    """
    wide, narrow = kernel("wide", 4, 3.0), kernel("narrow", 1, 10.0)
    graph = TaskGraph((), tuple(ROperator(f"o{i}", (narrow, wide), ()) for i in range(3)))
    plan = get_policy("wavefront").schedule(graph, cpu_device(8))
    assert plan.kernels == (1,) * 3


def test_rkernels_that_do_not_fit_are_left_out() -> None:
    big = replace(kernel("big", 4, 1.0), shared_memory=1 << 30)
    graph = TaskGraph((), (ROperator("a", (big, kernel("small", 4, 9.0)), ()),))
    assert get_policy("wavefront").schedule(graph, cpu_device(2)).kernels == (1,)


def test_cheap_launches_and_dear_barriers_cut_the_plan() -> None:
    graph = stencils(length=4)
    cut = get_policy("wavefront").schedule(graph, device(barrier_seconds=1.0, launch_seconds=1e-9))
    assert len(cut.programs) == 4, "one for each stencil; the copy behind needs no barrier"
    assert cut.num_waits == 0
    verify(graph, cut, plan_memory(graph, cut).offsets)
    whole = get_policy("wavefront").schedule(
        graph, device(barrier_seconds=1e-9, launch_seconds=1.0)
    )
    assert len(whole.programs) == 1
    assert whole.num_waits > 0


def test_a_cut_plan_is_predicted_faster_than_a_whole_one() -> None:
    graph = stencils(length=4)
    some = device(barrier_seconds=2e-6, launch_seconds=1e-6)
    plan = get_policy("wavefront").schedule(graph, some)
    assert len(plan.programs) > 1
    context = Context(graph, some)
    context.kernels = list(plan.kernels)
    builder = ProgramBuilder(context)
    for number in range(len(graph.operators)):
        needs = builder.needs(number)
        builder.append(number, np.arange(len(needs.steps)) % 2, needs)
    assert plan.predicted_seconds < finish_plan([builder])[1]


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("policy", BUILT_IN)
def test_prediction_is_what_the_simulator_finds(name: str, policy: str) -> None:
    graph = GRAPHS[name]
    for num_veus in (1, 2, 3):
        some = cpu_device(num_veus)
        plan = get_policy(policy).schedule(graph, some)
        assert simulate(graph, plan, some).seconds == pytest.approx(plan.predicted_seconds)


@dataclass(frozen=True)
class LastVeu:
    """A user's policy that places all rTasks on the last vEU."""

    name: ClassVar[str] = "test-last-veu"

    def schedule(self, graph: TaskGraph, device: Device) -> Plan:
        """Return a plan of one rProgram whose other vEUs are idle."""
        context = Context(graph, device)
        builder = ProgramBuilder(context)
        for number in range(len(graph.operators)):
            needs = builder.needs(number)
            builder.append(number, np.full(len(needs.steps), device.num_veus - 1), needs)
        programs, seconds, requested = finish_plan([builder])
        return Plan(programs, tuple(context.kernels), seconds, requested)


def test_users_policy() -> None:
    register_policy(LastVeu())
    try:
        with pytest.raises(OptionError, match="'test-last-veu' exists already"):
            register_policy(LastVeu())
        graph = GRAPHS["branches"]
        plan = get_policy("test-last-veu").schedule(graph, cpu_device(3))
    finally:
        POLICIES.unregister("test-last-veu")
    verify(graph, plan)
    assert plan.programs[0].veus[:2] == ((), ())


def test_unknown_policy_lists_the_known_ones() -> None:
    with pytest.raises(
        OptionError, match="unknown policy 'x': expected one of auto, ios, list, optimal"
    ):
        get_policy("x")


def test_no_veu() -> None:
    with pytest.raises(OptionError, match="expected at least 1, found 0"):
        cpu_device(0)


def test_empty_graph() -> None:
    graph = TaskGraph((), ())
    for policy in BUILT_IN:
        plan = get_policy(policy).schedule(graph, cpu_device(2))
        verify(graph, plan, plan_memory(graph, plan).offsets)
        assert plan.predicted_seconds == 0


def placed(graph: TaskGraph, num_veus: int, data: st.DataObject) -> Plan:
    """Return a random plan that ``ProgramBuilder.append`` builds operator by operator.

    ``data`` draws the rKernels, the order of the operators, and the vEU of each rTask.
    """
    context = Context(graph, cpu_device(num_veus))
    context.kernels = [data.draw(st.integers(0, len(o.kernels) - 1)) for o in graph.operators]
    builder = ProgramBuilder(context)
    waiting = list(range(len(graph.operators)))
    done: set[int] = set()
    while waiting:
        edges = context.dependencies.edges
        ready = [n for n in waiting if {e.producer for e in edges(n, context.kernels)} <= done]
        number = data.draw(st.sampled_from(ready))
        waiting.remove(number)
        done.add(number)
        needs = builder.needs(number)
        veu = st.integers(0, num_veus - 1)
        count = len(needs.steps)
        veus = data.draw(st.lists(veu, min_size=count, max_size=count))
        builder.append(number, np.array(veus, dtype=np.int64), needs)
    programs, seconds, requested = finish_plan([builder])
    return Plan(programs, tuple(context.kernels), seconds, requested)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10_000), num_veus=st.integers(1, 4), data=st.data())
def test_any_placement_by_append_is_correct(seed: int, num_veus: int, data: st.DataObject) -> None:
    graph = random_graph(seed, length=6)
    plan = placed(graph, num_veus, data)
    verify(graph, plan)
    verify(graph, plan, plan_memory(graph, plan).offsets)
    assert plan.num_waits <= plan.requested_waits


def test_append_in_parts() -> None:
    """An operator's rTasks can be appended in two halves.

    Appending a consumer before all rTasks of its producer is refused.
    """
    maker = GraphMaker()
    x = maker.elementwise(maker.tensor(8, kind="input"), tile=(2,))
    maker.output(maker.normalize(x, (4,)), (8,))
    graph = maker.graph()
    builder = ProgramBuilder(Context(graph, cpu_device(2)))
    half = builder.needs(0)
    part = replace(half, steps=half.steps[:2], ready=half.ready[:2])
    builder.append(0, np.array([0, 1]), part, np.array([0, 2]))
    with pytest.raises(ScheduleError, match="'norm1' is to be appended before all rTasks of 'map0"):
        builder.needs(1)
    builder.append(0, np.array([1, 0]), part, np.array([1, 3]))
    for number in (1, 2):
        needs = builder.needs(number)
        builder.append(number, np.zeros(len(needs.steps), dtype=np.int64), needs)
    program = builder.finish()
    assert program.veus[0][:3] == (Run(0, 0, 1), Run(0, 3, 1), Barrier(((1, 1),)))
    verify(graph, Plan((program,), (0, 0, 0)))


def test_reset_takes_everything_back() -> None:
    graph = stencils()
    builder = ProgramBuilder(Context(graph, cpu_device(2)))
    builder.append(0, np.array([0, 0, 1, 1]), builder.needs(0))
    before, mark = builder.finish(), builder.mark()
    for veus in ([1, 0, 1, 0], [0, 1, 0, 1]):
        builder.append(1, np.array(veus), builder.needs(1))
        builder.append(2, np.array(veus[::-1]), builder.needs(2))
        assert builder.finish() != before
        builder.reset(mark)
        assert builder.finish() == before
        assert builder.steps().tolist() == [2, 2]
    assert builder.requested_waits == 0
