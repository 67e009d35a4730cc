"""Deterministic execution of a plan against a device: when each item starts and ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rammer_mlir.scheduling.costs import rtask_seconds
from rammer_mlir.scheduling.device import Device
from rammer_mlir.scheduling.execution import execution_order
from rammer_mlir.scheduling.graph import TaskGraph
from rammer_mlir.scheduling.program import Barrier, Item, Plan, RProgram


@dataclass(frozen=True)
class Event:
    """One item of a vEU's list: start and end in seconds from the first launch."""

    program: int
    veu: int
    item: Item
    start: float
    end: float


@dataclass(frozen=True)
class Simulation:
    """A simulated run."""

    events: tuple[Event, ...]
    seconds: float

    @property
    def waiting_seconds(self) -> float:
        """Time that vEUs spend in barriers, summed over them."""
        return sum(e.end - e.start for e in self.events if isinstance(e.item, Barrier))


def simulate(graph: TaskGraph, plan: Plan, device: Device) -> Simulation:
    """Execute a plan.

    Raises:
        ScheduleError: if a wait blocks forever.
    """
    costs = [
        rtask_seconds(operator.kernels[kernel], device)
        for operator, kernel in zip(graph.operators, plan.kernels, strict=True)
    ]
    now = 0.0
    events: list[Event] = []
    for number, program in enumerate(plan.programs):
        now += device.launch_seconds
        part = _simulate_program(number, program, costs, device, now)
        events.extend(part)
        now = max((event.end for event in part), default=now)
    return Simulation(tuple(events), now)


def _simulate_program(
    number: int, program: RProgram, costs: Sequence[float], device: Device, start: float
) -> list[Event]:
    clock = [start] * program.num_veus
    ends: list[list[float]] = [[] for _ in range(program.num_veus)]
    events: list[Event] = []
    for veu, item in execution_order(program):
        begin = clock[veu]
        if isinstance(item, Barrier):
            awaited = max((ends[other][order] for other, order in item.waits), default=begin)
            clock[veu] = max(begin, awaited) + device.barrier_seconds
        else:
            seconds = costs[item.operator]
            ends[veu].extend((begin + seconds * np.arange(1, item.count + 1)).tolist())
            clock[veu] = begin + seconds * item.count
        events.append(Event(number, veu, item, begin, clock[veu]))
    return events
