"""Tests that the spans, shares and critical paths of predicted timelines are right."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from rammer_mlir.scheduling.devices.catalog import cpu_device
from rammer_mlir.scheduling.minimize import minimize
from rammer_mlir.scheduling.policies import get_policy
from rammer_mlir.scheduling.program import Plan, Run
from rammer_mlir.scheduling.replay import ReplayedCosts
from rammer_mlir.scheduling.simulator import simulate
from rammer_mlir.timeline.critical_path import critical_path
from rammer_mlir.timeline.predicted import predicted_timeline
from rammer_mlir.timeline.spans import Shares, Span, Timeline
from tests.scheduling.graphs import SMALL, random_graph

GRAPHS = {
    **{name: make() for name, make in SMALL.items()},
    **{f"random{seed}": random_graph(seed, length=10) for seed in range(8)},
}
DEVICE = cpu_device(3)


def run(name: str, policy: str) -> Timeline:
    """Return the predicted timeline of a policy's schedule of the graph ``name`` of ``GRAPHS``."""
    plan = minimize(get_policy(policy).schedule(GRAPHS[name], DEVICE))
    return predicted_timeline(GRAPHS[name], plan, DEVICE, name)


def task(veu: int, start: float, end: float, count: int = 1) -> Span:
    """Return a span of a timeline: ``count`` rTasks of an rOperator without a name, on one vEU.

    ``start`` and ``end`` are in seconds.
    """
    return Span(veu, start, end, "rtask", "", count=count)


@pytest.mark.parametrize("policy", ["wavefront", "sequential", "list"])
@pytest.mark.parametrize("name", GRAPHS)
def test_a_critical_path_is_a_chain_from_the_beginning_to_the_end(name: str, policy: str) -> None:
    timeline = run(name, policy)
    path = critical_path(timeline)
    assert path[0].start == 0
    assert path[-1].end == timeline.seconds
    for before, after in pairwise(path):
        assert before.end == after.start
        if before.veu == after.veu:
            assert before.index == after.index - 1
            continue
        # It changes the vEU only where one waited for the other.
        span = timeline.veus[after.veu][after.index]
        steps = next(steps for veu, steps in span.waits if veu == before.veu)
        done = sum(s.count for s in timeline.veus[before.veu][: before.index + 1])
        first = done - timeline.veus[before.veu][before.index].count
        assert first < steps <= done
    for segment in path:
        span = timeline.veus[segment.veu][segment.index]
        assert span.start - 1e-12 <= segment.start <= segment.end <= span.end


@pytest.mark.parametrize("name", GRAPHS)
def test_shares_add_up_to_what_the_simulator_says(name: str) -> None:
    plan = minimize(get_policy("wavefront").schedule(GRAPHS[name], DEVICE))
    simulation = simulate(GRAPHS[name], plan, DEVICE, ReplayedCosts(GRAPHS[name], plan, DEVICE))
    timeline = predicted_timeline(GRAPHS[name], plan, DEVICE, name)
    assert timeline.seconds == simulation.seconds
    shares = timeline.shares
    working = sum(e.end - e.start for e in simulation.events if isinstance(e.item, Run))
    assert shares.working == pytest.approx(working)
    total = shares.working + shares.waiting + shares.idle
    assert total == pytest.approx(len(timeline.veus) * simulation.seconds)
    assert sum(span.count for span in timeline.spans) == plan.programs[0].num_rtasks


def test_programs_follow_each_other() -> None:
    """In a timeline of two rPrograms, the launch of the second waits for all rTasks of the first.

    The steps that barriers of the second rProgram wait for include the rTasks of the first.
    """
    graph = GRAPHS["random0"]
    # With caches, the second program would take less time for the data that the first leaves there.
    device = replace(DEVICE, cache_bytes=0)
    plan = get_policy("wavefront").schedule(graph, device)
    (whole,) = plan.programs
    twice = predicted_timeline(graph, Plan((whole, whole), plan.kernels), device, "twice")
    once = predicted_timeline(graph, plan, device, "once")
    assert twice.seconds == pytest.approx(2 * once.seconds)
    totals = tuple(sum(span.count for span in veu) for veu in once.veus)
    for first, both in zip(once.veus, twice.veus, strict=True):
        again = both[len(first) :]
        assert again[0].kind == "launch"
        assert again[0].waits == tuple(enumerate(totals))
        for before, after in zip(first[1:], again[1:], strict=True):
            moved = tuple((veu, steps + totals[veu]) for veu, steps in before.waits)
            assert (after.kind, after.waits) == (before.kind, moved)


def test_a_path_enters_a_run_of_rtasks_where_it_was_awaited() -> None:
    """If a vEU waits for the second of four rTasks, the first half of their span is on the path."""
    waiting = Span(1, 1.0, 2.5, "barrier", "barrier", waits=((0, 2),))
    timeline = Timeline("", ((task(0, 0, 4, count=4),), (task(1, 0, 1), waiting, task(1, 2.5, 9))))
    assert [(s.veu, s.start, s.end) for s in critical_path(timeline)] == [
        (0, 0.0, 2.0),
        (1, 2.0, 2.5),
        (1, 2.5, 9.0),
    ]
    assert timeline.shares == Shares(working=11.5, waiting=1.5, idle=5.0)


def test_a_barrier_that_did_not_wait_stays_on_its_veu() -> None:
    """The critical path stays on the vEU of a barrier that did not wait.

    The recorded end of an awaited rTask may be later than the end of the wait; the path then leaves
    the rTask at the end of the wait.
    """
    late = Span(1, 3.0, 3.1, "barrier", "barrier", waits=((0, 1),))
    timeline = Timeline("", ((task(0, 0, 1),), (task(1, 0, 3), late, task(1, 3.1, 4))))
    assert [(s.veu, s.index) for s in critical_path(timeline)] == [(1, 0), (1, 1), (1, 2)]
    inverted = Timeline("", ((task(0, 0, 3.5),), (task(1, 0, 3), late, task(1, 3.1, 4))))
    assert [(s.veu, s.start, s.end) for s in critical_path(inverted)] == [
        (0, 0.0, 3.1),
        (1, 3.1, 3.1),
        (1, 3.1, 4.0),
    ]


def test_nothing_has_no_path() -> None:
    empty = Timeline("", ((), ()))
    assert (critical_path(empty), empty.seconds, empty.shares) == ((), 0.0, Shares(0, 0, 0))
