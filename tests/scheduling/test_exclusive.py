"""Tests that exclusive rTasks run alone in every policy's plan.

The verifier refuses any other plan.
"""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise

import pytest

from rammer_mlir.errors import ScheduleError
from rammer_mlir.scheduling.costs import rtask_seconds, runtime
from rammer_mlir.scheduling.device_costs import Device
from rammer_mlir.scheduling.devices.catalog import cpu_device, find_device
from rammer_mlir.scheduling.exclusive import segments
from rammer_mlir.scheduling.graph import RKernel, ROperator, TaskGraph
from rammer_mlir.scheduling.memory import plan_memory
from rammer_mlir.scheduling.per_operator import one_by_one
from rammer_mlir.scheduling.policies import get_policy
from rammer_mlir.scheduling.policies.checked import ask
from rammer_mlir.scheduling.program import Barrier, Plan, RProgram, Run
from rammer_mlir.scheduling.simulator import simulate
from rammer_mlir.scheduling.supersteps import fold, supersteps
from rammer_mlir.scheduling.verifier import verify
from rammer_mlir.timeline.predicted import predicted_timeline
from tests.scheduling.graphs import GraphMaker

SHAPE = (4, 6)

POLICIES = ["wavefront", "sequential", "list", "ios", "auto"]


def some_exclusive(seed: int, length: int = 9) -> TaskGraph:
    """Return a random graph: about 60 % of the rOperators with a single rTask are exclusive."""
    rng, maker = random.Random(seed), GraphMaker()
    pool = [maker.tensor(*SHAPE, kind="input") for _ in range(2)]
    for _ in range(length):
        tile = rng.choice([(1, 6), (2, 3), SHAPE, SHAPE])
        xs = rng.sample(pool[-4:], k=rng.randint(1, 2))
        pool.append(maker.elementwise(*xs, tile=tile))
    for x in pool[-2:]:
        maker.output(x, (2, 6))
    graph = maker.graph()
    operators = [
        _exclusive(o) if o.kernels[0].num_rtasks == 1 and rng.random() < 0.6 else o
        for o in graph.operators
    ]
    return replace(graph, operators=tuple(operators))


def _exclusive(operator: ROperator) -> ROperator:
    return replace(operator, kernels=(replace(operator.kernels[0], is_exclusive=True),))


def exclusive_operators(graph: TaskGraph) -> list[int]:
    """Return the indices of the operators whose first candidate rKernel is exclusive."""
    return [n for n, operator in enumerate(graph.operators) if operator.kernels[0].is_exclusive]


def runs_of(program: RProgram) -> list[Run]:
    return [item for veu in program.veus for item in veu if isinstance(item, Run)]


@pytest.mark.parametrize("num_veus", [1, 2, 3])
@pytest.mark.parametrize("policy", POLICIES)
def test_each_has_an_rprogram_of_its_own(policy: str, num_veus: int) -> None:
    device = cpu_device(num_veus)
    for seed in range(8):
        graph = some_exclusive(seed)
        found = exclusive_operators(graph)
        plan = ask(get_policy(policy), graph, device)
        memory = plan_memory(graph, plan)
        verify(graph, plan, memory.offsets, memory.sizes.arena_bytes)
        alone = [runs_of(program) for program in plan.programs if _holds(program, found)]
        assert sorted(alone, key=str) == sorted(([Run(n, 0, 1)] for n in found), key=str)
        for program in plan.programs:
            if _holds(program, found):
                assert program.veus[0] and not any(program.veus[1:]), "the caller's thread"
        assert plan.predicted_seconds == simulate(graph, plan, device).seconds
        verify(graph, one_by_one(graph, plan, device))


def _holds(program: RProgram, operators: list[int]) -> bool:
    return any(run.operator in operators for run in runs_of(program))


def test_the_simulator_lets_nothing_run_beside_one() -> None:
    for seed in range(8):
        graph, device = some_exclusive(seed), cpu_device(3)
        plan = ask(get_policy("list"), graph, device)
        events = sorted(simulate(graph, plan, device).events, key=lambda event: event.start)
        for event in events:
            if isinstance(event.item, Run) and event.item.operator in exclusive_operators(graph):
                others = [other for other in events if other is not event]
                assert all(o.end <= event.start or o.start >= event.end for o in others)


def test_predicted_timelines_name_them() -> None:
    graph, device = some_exclusive(1), cpu_device(2)
    plan = ask(get_policy("wavefront"), graph, device)
    spans = list(predicted_timeline(graph, plan, device, "predicted").spans)
    found = [span.name for span in spans if span.is_exclusive]
    assert sorted(found) == sorted(graph.operators[n].name for n in exclusive_operators(graph))
    assert found and any(span.kind == "rtask" and not span.is_exclusive for span in spans)


def test_cuts_are_the_fewest() -> None:
    """A graph with exclusive operators is divided into as few segments as possible.

    In a segment, exclusive operators run after the others. The number of segments is one more than
    the number of exclusive operators on the longest path.
    """
    maker = GraphMaker()
    x = maker.tensor(*SHAPE, kind="input")
    first = maker.elementwise(x, tile=SHAPE)  # exclusive
    beside = maker.elementwise(x, tile=(1, 6))
    second = maker.elementwise(x, tile=SHAPE)  # exclusive, of the same depth
    third = maker.elementwise(first, second, tile=SHAPE)  # exclusive
    maker.output(maker.elementwise(third, beside, tile=(1, 6)), (1, 6))
    graph = maker.graph()
    operators = [_exclusive(o) if n in (0, 2, 3) else o for n, o in enumerate(graph.operators)]
    found = segments(replace(graph, operators=tuple(operators)))
    assert [(s.together, s.exclusive) for s in found] == [((1,), (0, 2)), ((), (3,)), ((4, 5), ())]


def test_supersteps() -> None:
    """On a bulk-synchronous device, each exclusive rTask has a superstep of its own.

    The rTask stays alone if the schedule is folded onto fewer vEUs.
    """
    device = find_device("ipu").device(5)
    for seed in range(8):
        graph = some_exclusive(seed)
        found = exclusive_operators(graph)
        plan = supersteps(graph, ask(get_policy("wavefront"), graph, device), device)
        for each in (plan, fold(plan, 2)):
            verify(graph, each)
            alone = [runs_of(program) for program in each.programs if _holds(program, found)]
            assert all(len(runs) == 1 for runs in alone) and len(alone) == len(found)


def test_what_runs_beside_one_is_refused() -> None:
    """The verifier refuses a plan in which other rTasks may run beside an exclusive rTask.

    Two rPrograms are joined: the result is refused without a barrier between them, and accepted
    with a barrier.
    """
    refused = 0
    for seed in range(20):
        graph, device = some_exclusive(seed), cpu_device(3)
        found = exclusive_operators(graph)
        plan = ask(get_policy("list"), graph, device)
        for number, (before, program) in enumerate(pairwise(plan.programs)):
            if not _holds(program, found) or _holds(before, found):
                continue
            beside = any(before.veus[1:])
            for waits in (False, True):
                joined = _joined(before, program, waits=waits)
                programs = (*plan.programs[:number], joined, *plan.programs[number + 2 :])
                message = _refusal(graph, replace(plan, programs=programs))
                assert bool(message) == (beside and not waits), (seed, number, message)
                assert not message or "which uses the whole device: expected each" in message
                refused += bool(message)
    assert refused > 5


def _joined(first: RProgram, second: RProgram, *, waits: bool) -> RProgram:
    """Return two rPrograms as one; with ``waits``, vEU 0 waits between them for all other vEUs."""
    steps = [sum(item.count for item in v if isinstance(item, Run)) for v in first.veus]
    others = tuple((veu, n - 1) for veu, n in enumerate(steps) if veu and n)
    barrier = [Barrier(others)] if waits and others else []
    rest = zip(first.veus[1:], second.veus[1:], strict=True)
    head = (*first.veus[0], *barrier, *second.veus[0])
    return RProgram(first.num_veus, (head, *((*a, *b) for a, b in rest)))


def _refusal(graph: TaskGraph, plan: Plan) -> str:
    try:
        verify(graph, plan)
    except ScheduleError as error:
        return str(error)
    return ""


def with_both(flops: int) -> tuple[TaskGraph, Device]:
    """Return a graph whose first operator has a tiled and an exclusive candidate, and a device.

    A third candidate equals the exclusive one, which has one rTask, but is not exclusive. The rTask
    of each of these two has ``flops`` operations.
    """
    maker = GraphMaker()
    x = maker.elementwise(maker.tensor(*SHAPE, kind="input"), tile=(1, 6))
    maker.output(x, (1, 6))
    graph = maker.graph()
    tiled = replace(graph.operators[0].kernels[0], flops_per_rtask=10_000_000)
    single = GraphMaker()
    single.elementwise(single.tensor(*SHAPE, kind="input"), tile=SHAPE)
    whole = replace(single.graph().operators[0].kernels[0], flops_per_rtask=flops)
    kernels = (tiled, replace(whole, is_exclusive=True), whole)
    operators = (replace(graph.operators[0], kernels=kernels), *graph.operators[1:])
    return replace(graph, operators=operators), cpu_device(2)


@pytest.mark.parametrize("policy", POLICIES)
def test_the_faster_candidate_is_taken(policy: str) -> None:
    for flops, wanted in ((1_000_000, 1), (400_000_000, 0)):
        graph, device = with_both(flops)
        plan = ask(get_policy(policy), graph, device)
        verify(graph, plan)
        assert plan.kernels[0] == wanted


def test_one_computes_as_all_veus_together() -> None:
    kernel = RKernel("k", 1, (), (), flops_per_rtask=80_000_000)
    alone = replace(kernel, is_exclusive=True)
    for num_veus in (1, 2, 4):
        device = cpu_device(num_veus)
        fixed = device.rtask_seconds
        shared = rtask_seconds(kernel, device) - fixed
        assert rtask_seconds(alone, device) - fixed == pytest.approx(shared / num_veus)
        assert runtime(alone, device) == rtask_seconds(alone, device)
