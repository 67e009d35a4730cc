"""Simulates a plan on a device: the start and end of each run and barrier, deterministically.

The simulation answers the third query to the profiler in RAMMER section 3.3: the time of an
rProgram.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field, replace

from rammer_mlir.scheduling.caches import SharedConstants
from rammer_mlir.scheduling.device_costs import Device
from rammer_mlir.scheduling.execution_order import execution_order
from rammer_mlir.scheduling.graph import TaskGraph
from rammer_mlir.scheduling.program import Barrier, Item, Plan, RProgram
from rammer_mlir.scheduling.run_costs import ModelCosts, RunCosts, SharedConstantCosts


@dataclass(frozen=True)
class Event:
    """The execution of a run or barrier, ``item``, by a vEU in rProgram number ``program``.

    ``start`` and ``end`` are in seconds from the beginning of the first launch.
    """

    program: int
    veu: int
    item: Item
    start: float
    end: float


@dataclass(frozen=True)
class Simulation:
    """A simulated run of a plan: the events, and the end of the last event in seconds.

    The events are in a possible order of execution, so the events of each vEU are in order.
    """

    events: tuple[Event, ...]
    seconds: float

    @property
    def waiting_seconds(self) -> float:
        """The seconds that vEUs spend in barriers, summed over vEUs."""
        return sum(e.end - e.start for e in self.events if isinstance(e.item, Barrier))


@dataclass
class _Timeline:
    """The progress of a vEU in a simulation.

    All rTasks of a run are assumed to take the same time.

    Attributes:
        now: the time in seconds at which the last simulated run or barrier of the vEU ends.
        done: count of rTasks in the simulated runs of the vEU.
        first: for each simulated run, the order of its first rTask on the vEU.
        begin: for each simulated run, its start in seconds.
        step: for each simulated run, the seconds of one rTask.
    """

    now: float
    done: int = 0
    first: list[int] = field(default_factory=list[int])
    begin: list[float] = field(default_factory=list[float])
    step: list[float] = field(default_factory=list[float])

    def run(self, count: int, seconds: float) -> None:
        self.first.append(self.done)
        self.begin.append(self.now)
        self.step.append(seconds)
        self.done += count
        self.now += seconds * count

    def end(self, order: int) -> float:
        run = bisect_right(self.first, order) - 1
        return self.begin[run] + self.step[run] * (order - self.first[run] + 1)


def simulate(
    graph: TaskGraph, plan: Plan, device: Device, costs: RunCosts | None = None
) -> Simulation:
    """Return the start and end of each run and barrier of a plan on a device.

    Args:
        graph: the graph.
        plan: a plan for the graph.
        device: the device that the plan runs on.
        costs: predicts the time of the rTasks of each run; ``ModelCosts`` by default.

    Raises:
        ScheduleError: if a wait blocks forever.
    """
    costs = costs or ModelCosts(graph, plan, device)
    now = 0.0
    events: list[Event] = []
    started = 0
    for number, program in enumerate(plan.programs):
        # An empty rProgram is not launched.
        if not program.num_rtasks:
            continue
        now += device.start_seconds(started)
        started += 1
        part = _simulate_program(number, program, costs, device, now)
        events.extend(part)
        now = max((event.end for event in part), default=now)
    return Simulation(tuple(events), now)


def with_prediction(graph: TaskGraph, plan: Plan, device: Device, shared: SharedConstants) -> Plan:
    """Return the plan with ``predicted_seconds`` that account for shared constants in caches.

    The plan is returned unchanged if the vEUs have no caches, or caches that can hold all shared
    constants: then the order of the rTasks does not affect the contents of the caches.
    """
    if not shared.matter:
        return plan
    costs = SharedConstantCosts(plan, device, shared)
    return replace(plan, predicted_seconds=simulate(graph, plan, device, costs).seconds)


def _simulate_program(
    number: int, program: RProgram, costs: RunCosts, device: Device, start: float
) -> list[Event]:
    veus = [_Timeline(start) for _ in range(program.num_veus)]
    events: list[Event] = []
    for veu, item in execution_order(program):
        timeline = veus[veu]
        begin = timeline.now
        if isinstance(item, Barrier):
            awaited = max((veus[other].end(order) for other, order in item.waits), default=begin)
            timeline.now = max(begin, awaited) + device.barrier_seconds
        else:
            timeline.run(item.count, costs.of(veu, item))
        events.append(Event(number, veu, item, begin, timeline.now))
    return events
