"""Tests that times that are predicted with shared bandwidth are right.

The reference is a simulation in small time steps.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from rammer_mlir.errors import ScheduleError
from rammer_mlir.scheduling.device_costs import Device
from rammer_mlir.scheduling.graph import TaskGraph
from rammer_mlir.scheduling.per_operator import one_by_one
from rammer_mlir.scheduling.policies import get_policy
from rammer_mlir.scheduling.program import Barrier, Plan, RProgram, Run
from rammer_mlir.scheduling.shared_bandwidth import simulate_sharing
from rammer_mlir.scheduling.simulator import simulate
from tests.scheduling.graphs import random_graph

DEVICE = Device(
    name="test", num_veus=3, flops_per_second=1e9, bytes_per_second=4e9,
    total_bytes_per_second=6e9, rtask_seconds=2e-7, barrier_seconds=3e-7, launch_seconds=4e-6,
    queued_launch_seconds=1e-6,
)  # fmt: skip
STEP = 1e-9


class Stepped:
    """A simulation of a program in small time steps.

    All rTasks that load at the same time get an equal part of the bandwidth.
    """

    def __init__(self, graph: TaskGraph, plan: Plan, program: RProgram, device: Device) -> None:
        self._graph, self._plan, self._device = graph, plan, device
        self._items = [
            [one for item in items for one in (
                [item] if isinstance(item, Barrier) else [item.operator] * item.count)]
            for items in program.veus
        ]  # fmt: skip
        self._place = [0] * len(self._items)
        self._done = [0] * len(self._items)
        self._left = [self._demand(veu) for veu in range(len(self._items))]

    def _demand(self, veu: int) -> list[float]:
        """Return the work of a vEU's next item.

        It consists of the seconds to start the item, the seconds of arithmetic, and the bytes to
        load; all are 0 at the end of the vEU's list.
        """
        if self._place[veu] == len(self._items[veu]):
            return [0.0] * 3
        item = self._items[veu][self._place[veu]]
        if isinstance(item, Barrier):
            return [self._device.barrier_seconds, 0.0, 0.0]
        kernel = self._graph.operators[item].kernels[self._plan.kernels[item]]
        seconds = kernel.flops_per_rtask / self._device.flops_per_second
        return [self._device.rtask_seconds, seconds, float(kernel.bytes_per_rtask)]

    def seconds(self) -> float:
        """Simulate the program, and return the time at which the last item ends."""
        steps = 0
        while running := [v for v, p in enumerate(self._place) if p < len(self._items[v])]:
            steps += 1
            loading = [v for v in running if self._left[v][0] <= 0 and self._left[v][2] > 0]
            shared = self._device.total_bytes_per_second / max(1, len(loading))
            for veu in [veu for veu in running if not self._is_blocked(veu)]:
                self._step(veu, min(self._device.bytes_per_second, shared))
            for veu in running:
                if max(self._left[veu]) <= 0:
                    self._done[veu] += isinstance(self._items[veu][self._place[veu]], int)
                    self._place[veu] += 1
                    self._left[veu] = self._demand(veu)
        return steps * STEP

    def _is_blocked(self, veu: int) -> bool:
        item = self._items[veu][self._place[veu]]
        return isinstance(item, Barrier) and any(self._done[o] <= n for o, n in item.waits)

    def _step(self, veu: int, rate: float) -> None:
        left = self._left[veu]
        if left[0] > 0:
            left[0] -= STEP
        else:
            left[1:] = [left[1] - STEP, left[2] - rate * STEP]


def stepped(graph: TaskGraph, plan: Plan, device: Device) -> float:
    """Return the seconds of a plan, simulated in small time steps, with its launches."""
    programs = [program for program in plan.programs if program.num_rtasks]
    launches = sum(device.start_seconds(number) for number in range(len(programs)))
    return launches + sum(Stepped(graph, plan, one, device).seconds() for one in programs)


@pytest.mark.parametrize("policy", ["wavefront", "sequential", "list"])
@pytest.mark.parametrize("seed", range(4))
def test_small_steps_of_time_find_the_same(seed: int, policy: str) -> None:
    graph = random_graph(seed, length=6)
    plan = get_policy(policy).schedule(graph, DEVICE)
    found = simulate_sharing(graph, plan, DEVICE)
    assert found.seconds == pytest.approx(stepped(graph, plan, DEVICE), rel=0.02)
    assert found.seconds == max(event.end for event in found.events)


@pytest.mark.parametrize("seed", range(8))
def test_without_contention_it_is_the_simulator(seed: int) -> None:
    graph = random_graph(seed, length=10)
    device = replace(DEVICE, total_bytes_per_second=1e15)
    for policy in ("wavefront", "sequential"):
        plan = get_policy(policy).schedule(graph, device)
        for one in (plan, one_by_one(graph, plan, device)):
            found, other = simulate_sharing(graph, one, device), simulate(graph, one, device)
            assert found.seconds == pytest.approx(other.seconds)
            assert found.waiting_seconds == pytest.approx(other.waiting_seconds)
            assert len(found.events) == len(other.events)
            more = replace(DEVICE, total_bytes_per_second=1e8)
            assert simulate_sharing(graph, one, more).seconds >= found.seconds


def test_later_launches_are_queued() -> None:
    graph = random_graph(3, length=5)
    plan = get_policy("sequential").schedule(graph, DEVICE)
    each = one_by_one(graph, plan, DEVICE)
    dear = replace(DEVICE, queued_launch_seconds=0.0)
    launches = sum(program.num_rtasks > 0 for program in each.programs)
    assert launches > 1
    for run in (simulate, simulate_sharing):
        saved = run(graph, each, dear).seconds - run(graph, each, DEVICE).seconds
        assert saved == pytest.approx((launches - 1) * 3e-6)


def test_a_wait_that_blocks_forever() -> None:
    graph = random_graph(0, length=2)
    blocked = RProgram(2, ((Barrier(((1, 0),)), Run(0, 0, 1)), (Barrier(((0, 0),)), Run(1, 0, 1))))
    plan = Plan((blocked,), (0,) * len(graph.operators))
    with pytest.raises(ScheduleError, match="deadlock: vEU "):
        simulate_sharing(graph, plan, DEVICE)
