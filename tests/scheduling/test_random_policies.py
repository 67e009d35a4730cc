"""Tests that the verifier accepts exactly the right ones among the plans of a random policy.

Hypothesis draws the policy's decisions; the reference executes small programs in every order.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import ClassVar

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from rammer_mlir.errors import ScheduleError
from rammer_mlir.scheduling.device_costs import Device
from rammer_mlir.scheduling.graph import TaskGraph
from rammer_mlir.scheduling.memory import plan_memory
from rammer_mlir.scheduling.minimize import minimize
from rammer_mlir.scheduling.policies import get_policy
from rammer_mlir.scheduling.policies.checked import ask
from rammer_mlir.scheduling.program import Barrier, Item, Plan, RProgram, Run
from rammer_mlir.scheduling.tasks import task_table
from rammer_mlir.scheduling.verifier import verify
from tests.scheduling.graphs import random_graph
from tests.scheduling.interleavings import Tasks, in_use_together, judge

FLAT = Device("flat", 3, 1e9, 1e9, 1e9, 1e-7, 1e-7, 1e-6)
MOST_RTASKS = 20
"""The most rTasks for which ``judge`` can go through all executions."""

draws = st.randoms(use_true_random=False)


class Careless:
    """A policy that makes random plans, right and wrong ones, to test the verifier.

    Each of its decisions respects the dependencies with probability ``care``.
    """

    name: ClassVar[str] = "careless"

    def __init__(self, rng: random.Random, care: float) -> None:
        self._rng = rng
        self._care = care

    def schedule(self, graph: TaskGraph, device: Device) -> Plan:
        """Return a random plan, which is correct if ``care`` is 1."""
        rng = self._rng
        kernels = [rng.randrange(len(o.kernels)) for o in graph.operators]
        table = task_table(graph, device, kernels)
        order = self._order(table.sources)
        cut = rng.randrange(len(order) + 1) if rng.random() < 0.3 else len(order)
        programs: list[RProgram] = []
        for part in (order[:cut], order[cut:]):
            veus: list[list[Item]] = [[] for _ in range(device.num_veus)]
            place: dict[int, tuple[int, int]] = {}
            done = [0] * device.num_veus
            for task in part:
                veu = rng.randrange(device.num_veus)
                waits = [place[s] for s in table.sources[task] if s in place and self._careful()]
                waits = [wait for wait in waits if wait[0] != veu]
                if not self._careful():
                    waits += [self._any_wait(done, veu)]
                if any(waits):
                    veus[veu].append(Barrier(tuple(wait for wait in waits if wait)))
                operator = table.operators[task]
                if self._careful() or rng.random() < 0.9:
                    veus[veu].append(Run(operator, task - table.base[operator], 1))
                    place[task] = veu, done[veu]
                    done[veu] += 1
            programs.append(RProgram(device.num_veus, tuple(map(tuple, veus))))
        return Plan(tuple(programs), tuple(kernels))

    def _careful(self) -> bool:
        return self._rng.random() < self._care

    def _any_wait(self, done: list[int], veu: int) -> tuple[int, int] | tuple[()]:
        others = [v for v, count in enumerate(done) if v != veu and count]
        if not others:
            return ()
        other = self._rng.choice(others)
        return other, self._rng.randrange(done[other])

    def _order(self, sources: tuple[tuple[int, ...], ...]) -> list[int]:
        """Return the rTasks in a random order, which respects dependencies if ``care`` is 1."""
        left, order = list(range(len(sources))), list[int]()
        while left:
            ready = [t for t in left if not set(sources[t]) & set(left)]
            chosen = self._rng.choice(ready if self._careful() else left)
            left.remove(chosen)
            order.append(chosen)
        return order


def _small_graph(number: int) -> TaskGraph:
    """Return the first random graph, from seed ``number`` on, with few enough rTasks to judge.

    The reference executes it in every order, which is possible for few rTasks only.
    """
    while True:
        graph = random_graph(number, length=3)
        if sum(max(k.num_rtasks for k in o.kernels) for o in graph.operators) <= MOST_RTASKS:
            return graph
        number += 1


def _accepts(graph: TaskGraph, plan: Plan, arena: dict[int, int] | None = None) -> bool:
    try:
        verify(graph, plan, arena)
    except ScheduleError:
        return False
    return True


def _try_to_deceive(number: int, care: float, rng: random.Random) -> None:
    graph = _small_graph(number)
    plan = ask(Careless(rng, care), graph, FLAT)
    verdict = judge(Tasks(graph, plan.kernels), plan)
    assert _accepts(graph, plan) == (not verdict.harmful)
    if care == 1.0:
        assert not verdict.harmful
    if not verdict.harmful:
        fewest = minimize(plan)
        assert fewest.num_waits <= plan.num_waits
        assert not judge(Tasks(graph, plan.kernels), fewest).harmful
        assert _accepts(graph, fewest)


numbers, cares = st.integers(0, 10**6), st.sampled_from([0.6, 0.9, 0.97, 1.0])


@settings(max_examples=200, deadline=None, derandomize=True)
@given(numbers, cares, draws)
def test_random_policies_do_not_deceive_the_verifier(
    number: int, care: float, rng: random.Random
) -> None:
    _try_to_deceive(number, care, rng)


@pytest.mark.slow
@seed(1)
@settings(max_examples=5000, deadline=None, database=None)
@given(numbers, cares, draws)
def test_nor_do_many_of_them(number: int, care: float, rng: random.Random) -> None:
    _try_to_deceive(number, care, rng)


def test_the_search_finds_right_and_wrong_programs() -> None:
    """The random policy returns both right and wrong plans often.

    Otherwise the comparison with the verifier would prove little.
    """
    found: Counter[bool] = Counter()
    for number in range(60):
        graph = _small_graph(number)
        plan = Careless(random.Random(number), 0.97).schedule(graph, FLAT)
        found[judge(Tasks(graph, plan.kernels), plan).harmful] += 1
    assert min(found[True], found[False]) >= 10, found


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.integers(0, 10**6), draws)
def test_random_arenas_do_not_deceive_the_verifier(number: int, rng: random.Random) -> None:
    graph = _small_graph(number)
    plan = Careless(rng, 1.0).schedule(graph, FLAT)
    tasks = Tasks(graph, plan.kernels)
    verdict = judge(tasks, plan)
    arena = dict(plan_memory(graph, plan).offsets)
    assert _accepts(graph, plan, arena)
    for buffer in sorted(arena):
        if rng.random() < 0.4:
            arena[buffer] = rng.choice((rng.randrange(0, 256, 4), *arena.values()))
    assert _accepts(graph, plan, arena) == (not in_use_together(tasks, verdict, arena))


rates = st.sampled_from([1e3, 1e6, 1e9, 1e12, 1e15])
costs = st.sampled_from([0.0, 1e-12, 1e-8, 1e-6, 1e-3, 1.0])
devices = st.builds(
    Device, st.just("drawn"), st.integers(1, 4), rates, rates, rates, costs, costs, costs,
    st.sampled_from([0, 64, 1 << 20]),
)  # fmt: skip


@pytest.mark.parametrize("policy", ["wavefront", "sequential", "ios", "list", "auto"])
@settings(max_examples=40, deadline=None, derandomize=True)
@given(number=st.integers(0, 10**6), device=devices)
def test_no_device_leads_a_policy_astray(policy: str, number: int, device: Device) -> None:
    graph = _small_graph(number)
    plan = ask(get_policy(policy), graph, device)
    assert not judge(Tasks(graph, plan.kernels), plan).harmful
    assert _accepts(graph, plan, dict(plan_memory(graph, plan).offsets))
    assert plan.predicted_seconds >= 0
