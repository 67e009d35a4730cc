"""Tests that the policy `wavefront` forms waves, places rTasks and sets barriers as intended."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rammer_mlir.errors import OptionError
from rammer_mlir.scheduling.assignment import earliest, earliest_by_rtask, spread_evenly
from rammer_mlir.scheduling.builder import Context, Needs, ProgramBuilder
from rammer_mlir.scheduling.devices.catalog import cpu_device
from rammer_mlir.scheduling.graph import TaskGraph
from rammer_mlir.scheduling.memory import plan_memory
from rammer_mlir.scheduling.policies import get_policy
from rammer_mlir.scheduling.policies.wavefront import (
    Readiness,
    Wavefront,
    least_seconds,
    schedule_wave,
    waves,
)
from rammer_mlir.scheduling.program import Barrier, Run
from rammer_mlir.scheduling.verifier import verify
from tests.scheduling.graphs import SMALL, GraphMaker, random_graph


def names(graph: TaskGraph) -> list[list[str]]:
    """Return the waves of a graph in order, each as the list of its operators' names."""
    found = waves(Context(graph, cpu_device(2)))
    return [[graph.operators[number].name for number in wave] for wave in found]


def test_waves_are_the_depths_of_the_graph() -> None:
    maker = GraphMaker()
    x, y = maker.tensor(4, kind="input"), maker.tensor(4, kind="input")
    deep = maker.elementwise(maker.elementwise(x, tile=(2,)), tile=(2,))
    shallow = maker.elementwise(y, tile=(2,))
    maker.output(maker.elementwise(deep, shallow, tile=(2,)), (2,))
    assert names(maker.graph()) == [["map0"], ["map1", "map2"], ["map3"], ["map4"]]


def padded_chain(length: int) -> TaskGraph:
    """Return a chain of window operators, each after a padding.

    The operator that writes a padding's border reads nothing.
    """
    maker = GraphMaker()
    x = maker.tensor(8, 8, kind="input")
    for _ in range(length):
        x = maker.window(maker.pad(x, 1, (4, 8)), 3, (4, 8))
    maker.output(x, (4, 8))
    return maker.graph()


def test_what_reads_nothing_goes_just_before_its_reader() -> None:
    """An operator without inputs is scheduled in the wave just before its reader.

    In the first wave, the borders of all padded buffers would occupy memory at once.
    """
    graph = padded_chain(3)
    assert names(graph) == [
        ["frame0", "map1"],
        ["window3_2"],
        ["frame3", "map4"],
        ["window3_5"],
        ["frame6", "map7"],
        ["window3_8"],
        ["map9"],
    ]
    for num_veus in (1, 2):
        device = cpu_device(num_veus)
        arenas = {
            plan_memory(g, Wavefront().schedule(g, device)).sizes.arena_bytes
            for g in (padded_chain(3), padded_chain(8))
        }
        assert len(arenas) == 1, "the arena must not grow with the depth"


def test_rtasks_go_where_they_start_first() -> None:
    """Each rTask is placed on the vEU that can start it first.

    Two vEUs are busy for the time of two rTasks, so the idle vEU gets three of five rTasks.
    """
    nothing = Needs(np.zeros((5, 3), dtype=np.int64), np.zeros((5, 3)))
    veus = earliest(nothing, np.array([2.0, 0.0, 2.0]), seconds=1.0, barrier_seconds=0.1)
    assert veus.tolist() == [0, 1, 1, 1, 2]


@pytest.mark.parametrize(("barrier", "expected"), [(0.5, [1]), (5.0, [0])])
def test_an_rtask_stays_with_its_producer_unless_waiting_is_shorter(
    barrier: float, expected: list[int]
) -> None:
    """An rTask moves to an idle vEU if the barrier costs less than waiting for its producer's vEU.

    The producer's vEU is busy with other work for 2 seconds after the producer's end.
    """
    needs = Needs(np.array([[1, 0]]), np.array([[1.0, 0.0]]))
    assert earliest(needs, np.array([3.0, 0.0]), 1.0, barrier).tolist() == expected


def placed_one_by_one(
    needs: Needs, available: list[float], known: list[list[int]], seconds: float, barrier: float
) -> list[int]:
    """Return the vEU of each rTask of an operator: the one on which it starts first.

    All vEUs are tried for one rTask after the other, in plain Python.

    Args:
        needs: for each rTask, the rTasks that must be complete, and the time at which they are.
        available: time at which each vEU becomes free.
        known: for each vEU, how many rTasks of every vEU it knows to be complete.
        seconds: time of an rTask.
        barrier: time of a barrier in seconds.
    """
    free, known = list(available), [list(row) for row in known]
    veus: list[int] = []
    for steps, ready in zip(needs.steps.tolist(), needs.ready.tolist(), strict=True):
        starts: list[float] = []
        for veu, row in enumerate(known):
            missing = [w for w, step in enumerate(steps) if w != veu and step > row[w]]
            after = max((ready[w] for w in missing), default=0.0)
            starts.append(max(free[veu], after) + barrier if missing else free[veu])
        best = min(range(len(free)), key=lambda veu: (starts[veu], -free[veu], veu))
        free[best] = starts[best] + seconds
        known[best] = [max(a, b) for a, b in zip(known[best], steps, strict=True)]
        veus.append(best)
    return veus


@pytest.mark.parametrize("equal", [False, True], ids=["own-inputs", "equal-inputs"])
@pytest.mark.parametrize("num_rtasks", [0, 1, 7])
def test_each_rtask_goes_where_its_own_inputs_let_it_start_first(
    num_rtasks: int, equal: bool
) -> None:
    chance = np.random.default_rng(7)
    for _ in range(200):
        num_veus = int(chance.integers(1, 5))
        rows = min(num_rtasks, 1) if equal else num_rtasks
        steps = chance.integers(0, 3, (rows, num_veus))
        ends = np.append(0.0, np.cumsum(chance.integers(1, 4, 3)))
        ready = ends[steps]
        if equal:
            steps = np.repeat(steps, num_rtasks, axis=0)[:num_rtasks]
            ready = np.repeat(ready, num_rtasks, axis=0)[:num_rtasks]
        needs = Needs(steps, ready)
        available = chance.integers(0, 6, num_veus).astype(float)
        known = chance.integers(0, 3, (num_veus, num_veus))
        barrier = float(chance.integers(0, 3))
        expected = placed_one_by_one(needs, available.tolist(), known.tolist(), 2.0, barrier)
        assert earliest_by_rtask(needs, available, known, 2.0, barrier).tolist() == expected


@pytest.mark.parametrize(
    ("readiness", "cache_bytes", "num_barriers"),
    [("auto", 0, 0), ("auto", 1 << 20, 2), ("rtask", 1 << 20, 0), ("operator", 0, 2)],
)
def test_rtasks_follow_their_producers_if_each_is_placed_by_itself(
    readiness: Readiness, cache_bytes: int, num_barriers: int
) -> None:
    """Four rTasks are placed on their producers' vEUs, if each rTask is placed by itself.

    The producers alternate between two vEUs, and no barrier is needed. If the operator is placed
    as a whole, each vEU gets two neighboring rTasks, and needs a barrier.
    """
    maker = GraphMaker()
    x = maker.elementwise(maker.tensor(4, kind="input"), tile=(1,))
    maker.output(x, (1,))
    device = replace(cpu_device(2), cache_bytes=cache_bytes, barrier_seconds=1.0)
    context = Context(maker.graph(), device)
    builder = ProgramBuilder(context)
    builder.append(0, np.array([0, 1, 0, 1]), builder.needs(0))
    schedule_wave([1], builder, context, readiness)
    items = [item for veu in builder.finish().veus for item in veu]
    assert sum(isinstance(item, Barrier) for item in items) == num_barriers


@pytest.mark.parametrize("readiness", ["auto", "operator", "rtask"])
def test_plans_of_every_readiness_are_correct(readiness: Readiness) -> None:
    policy = get_policy(f"wavefront{{readiness={readiness}}}")
    assert policy == Wavefront(readiness)
    for seed in range(10):
        graph = random_graph(seed, length=15)
        verify(graph, policy.schedule(graph, cpu_device(3)))


def test_a_readiness_that_does_not_exist_is_refused() -> None:
    message = "expected one of auto, operator, rtask, found 'tile'"
    wrong: Any = "tile"
    with pytest.raises(OptionError, match=message):
        Wavefront(wrong)
    with pytest.raises(OptionError):
        get_policy("wavefront{readiness=tile}")


@pytest.mark.parametrize("num_rtasks", [0, 1, 3, 4, 5, 17])
def test_even_spreading(num_rtasks: int) -> None:
    veus = spread_evenly(num_rtasks, 4)
    counts = np.bincount(veus, minlength=4)
    assert veus.tolist() == sorted(veus.tolist())
    assert counts.max() - counts.min() <= 1


def late_consumer() -> TaskGraph:
    """Return a graph of eight rTasks, a long rTask, and eight rTasks that read the first eight."""
    maker = GraphMaker()
    x = maker.elementwise(maker.tensor(8, kind="input"), tile=(1,))
    maker.output(maker.tensor(80, kind="input"), (80,))
    maker.output(x, (1,))
    return maker.graph()


def test_one_barrier_for_all_that_is_complete_by_then() -> None:
    """A single barrier waits for all producers if all have ended long before the first consumer."""
    builder = ProgramBuilder(Context(late_consumer(), cpu_device(2)))
    builder.append(0, np.zeros(8, dtype=np.int64), builder.needs(0))
    builder.append(1, np.ones(1, dtype=np.int64), builder.needs(1))
    builder.append(2, np.ones(8, dtype=np.int64), builder.needs(2))
    assert builder.finish().veus[1] == (Run(1, 0, 1), Barrier(((0, 7),)), Run(2, 0, 8))


def test_a_barrier_each_where_producers_are_still_at_work() -> None:
    """Each consumer has its own barrier if waiting for all producers would delay the first ones."""
    graph = late_consumer()
    device = replace(cpu_device(2), barrier_seconds=0.0)
    builder = ProgramBuilder(Context(graph, device))
    builder.append(0, np.zeros(8, dtype=np.int64), builder.needs(0))
    builder.append(2, np.ones(8, dtype=np.int64), builder.needs(2))
    waits = [item for item in builder.finish().veus[1] if isinstance(item, Barrier)]
    assert waits == [Barrier(((0, order),)) for order in range(8)]


@pytest.mark.parametrize("num_veus", [1, 2, 5])
@pytest.mark.parametrize("seed", range(6))
def test_the_bound_of_a_wave_holds(seed: int, num_veus: int) -> None:
    """The lower bound of a wave's time is never above the time of its schedule."""
    context = Context(random_graph(seed, length=12), cpu_device(num_veus))
    for wave in waves(context):
        alone = ProgramBuilder(context)
        schedule_wave(wave, alone, context)
        assert least_seconds(wave, context) <= alone.seconds() * (1 + 1e-12)


@pytest.mark.parametrize("name", SMALL)
def test_plans_do_not_change_from_call_to_call(name: str) -> None:
    graph, device = SMALL[name](), cpu_device(3)
    assert Wavefront().schedule(graph, device) == Wavefront().schedule(graph, device)
