"""Simulates a plan on a device whose running rTasks share the memory bandwidth.

This is a discrete event simulation. At each moment, all rTasks that load data get the same share of
the device's bandwidth, at most the bandwidth of a single vEU. In contrast, ``simulator.simulate``
gives an rTask a fixed share, which depends on the rTask's own rOperator and not on the rTasks that
run at the same time, so ``simulate`` need not process the rTasks of all vEUs in order of time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any, Literal

from rammer_mlir.scheduling.costs import rtask_seconds
from rammer_mlir.scheduling.device_costs import Device
from rammer_mlir.scheduling.execution_order import execution_order
from rammer_mlir.scheduling.graph import RKernel, TaskGraph
from rammer_mlir.scheduling.program import Barrier, Plan, RProgram
from rammer_mlir.scheduling.simulator import Event, Simulation


@dataclass(frozen=True)
class Work:
    """The work of an rTask: a computation and a load from memory, which overlap.

    ``seconds`` is the time of the computation, which other rTasks do not affect. ``num_bytes`` is
    the count of bytes to load.
    """

    seconds: float
    num_bytes: float


def work_of(kernel: RKernel, device: Device) -> Work:
    """Return the work of one rTask of an rKernel.

    For a measured rKernel, and for an exclusive rKernel, which runs alone on the device,
    ``seconds`` already includes the time of the loads, so ``num_bytes`` is 0.
    """
    if kernel.measured is not None or kernel.is_exclusive:
        return Work(rtask_seconds(kernel, device) - device.rtask_seconds, 0.0)
    seconds = kernel.flops_per_rtask / device.rate(kernel.matrix_element)
    return Work(seconds, kernel.bytes_per_rtask)


def simulate_sharing(graph: TaskGraph, plan: Plan, device: Device) -> Simulation:
    """Return the simulation of a plan whose concurrent rTasks share the memory bandwidth.

    The vEUs' own caches are not modeled.

    Raises:
        ScheduleError: if a wait blocks forever.
    """
    works = [
        work_of(operator.kernels[kernel], device)
        for operator, kernel in zip(graph.operators, plan.kernels, strict=True)
    ]
    now, started = 0.0, 0
    events: list[Event] = []
    for number, program in enumerate(plan.programs):
        if program.num_rtasks:
            now += device.start_seconds(started)
            started += 1
            running = _Execution(number, program, works, device, now)
            events.extend(running.run())
            now = running.now
    return Simulation(tuple(events), now)


Happening = Literal["load", "computed", "next"]
"""The types of events: ``load``, ``computed`` and ``next``.

At ``load``, an rTask begins to load bytes and to compute at the same time; at ``computed``, it has
computed, but may still load; at ``next``, a barrier ends and its vEU continues.
"""


@dataclass
class _Veu:
    """The state of a vEU in the simulation.

    Attributes:
        item: index of the current run or barrier in the vEU's list.
        of_item: number of rTasks of the current run that have ended.
        begin: start of the current run or barrier in seconds.
        done: number of rTasks of the vEU that have ended.
        missing: number of waits of the current barrier that are not satisfied.
        is_loading: whether the current rTask still loads bytes.
        is_computing: whether the current rTask still computes.
    """

    item: int = 0
    of_item: int = 0
    begin: float = 0.0
    done: int = 0
    missing: int = 0
    is_loading: bool = False
    is_computing: bool = False


@dataclass
class _Execution:
    """The event-driven execution of rProgram ``number`` of a plan.

    Attributes:
        works: the work of an rTask of each operator.
        now: current time in seconds.
        each: bytes that an rTask would have loaded so far if it had loaded without a pause since
            the rProgram's start.
        queue: heap of (time in seconds, vEU, type of event).
        loading: heap of (value of ``each`` at which a load ends, vEU of the load).
        sleepers: for each rTask that barriers wait for, as (vEU, order), the vEUs of these
            barriers.
        events: the runs and barriers that have ended.
    """

    number: int
    program: RProgram
    works: list[Work]
    device: Device
    now: float
    each: float = 0.0
    """Bytes that an rTask would have loaded by ``now`` if it loaded since the rProgram's start."""
    queue: list[tuple[float, int, Happening]] = field(default_factory=list[Any])
    loading: list[tuple[float, int]] = field(default_factory=list[Any])
    """For each loading rTask, the value of ``each`` at which its load ends, and its vEU."""
    sleepers: dict[tuple[int, int], list[int]] = field(default_factory=dict[Any, Any])
    events: list[Event] = field(default_factory=list[Event])

    def run(self) -> list[Event]:
        """Execute the rProgram, return its events, and set ``now`` to the end of the last event."""
        self.veus = [_Veu(begin=self.now) for _ in range(self.program.num_veus)]
        for veu in range(self.program.num_veus):
            self._begin(veu)
        while self.queue or self.loading:
            rate = self._rate()
            loaded = self.now + (self.loading[0][0] - self.each) / rate if self.loading else None
            if loaded is None or (self.queue and self.queue[0][0] < loaded):
                time, veu, happening = heappop(self.queue)
                self._advance(time, rate)
                self._react(veu, happening)
            else:
                self._advance(loaded, rate)
                _, veu = heappop(self.loading)
                self.veus[veu].is_loading = False
                self._finish_if_complete(veu)
        if any(v.item < len(items) for v, items in zip(self.veus, self.program.veus, strict=True)):
            # Raises an error that names the waits that block each other.
            tuple(execution_order(self.program))
        return self.events

    def _rate(self) -> float:
        """Return the bytes per second that each loading rTask gets."""
        shared = self.device.total_bytes_per_second / max(1, len(self.loading))
        return min(self.device.bytes_per_second, shared)

    def _advance(self, time: float, rate: float) -> None:
        self.each += (time - self.now) * rate
        self.now = time

    def _react(self, veu: int, happening: Happening) -> None:
        if happening == "load":
            work = self._work(veu)
            state = self.veus[veu]
            state.is_loading = work.num_bytes > 0
            state.is_computing = True
            if state.is_loading:
                heappush(self.loading, (self.each + work.num_bytes, veu))
            heappush(self.queue, (self.now + work.seconds, veu, "computed"))
        elif happening == "computed":
            self.veus[veu].is_computing = False
            self._finish_if_complete(veu)
        else:
            self._end_item(veu)

    def _work(self, veu: int) -> Work:
        item = self.program.veus[veu][self.veus[veu].item]
        assert not isinstance(item, Barrier)
        return self.works[item.operator]

    def _begin(self, veu: int) -> None:
        """Begin the next run or barrier of a vEU, or the next rTask of its current run."""
        state, items = self.veus[veu], self.program.veus[veu]
        if state.item == len(items):
            return
        item = items[state.item]
        if not isinstance(item, Barrier):
            heappush(self.queue, (self.now + self.device.rtask_seconds, veu, "load"))
            return
        for other, order in item.waits:
            if self.veus[other].done <= order:
                self.sleepers.setdefault((other, order), []).append(veu)
                state.missing += 1
        if not state.missing:
            heappush(self.queue, (self.now + self.device.barrier_seconds, veu, "next"))

    def _finish_if_complete(self, veu: int) -> None:
        """End the current rTask of a vEU if its bytes are loaded and its computation has ended."""
        state = self.veus[veu]
        if state.is_loading or state.is_computing:
            return
        item = self.program.veus[veu][state.item]
        assert not isinstance(item, Barrier)
        for sleeper in self.sleepers.pop((veu, state.done), ()):
            waiting = self.veus[sleeper]
            waiting.missing -= 1
            if not waiting.missing:
                heappush(self.queue, (self.now + self.device.barrier_seconds, sleeper, "next"))
        state.done += 1
        state.of_item += 1
        if state.of_item == item.count:
            self._end_item(veu)
        else:
            self._begin(veu)

    def _end_item(self, veu: int) -> None:
        state = self.veus[veu]
        item = self.program.veus[veu][state.item]
        self.events.append(Event(self.number, veu, item, state.begin, self.now))
        state.item, state.of_item, state.begin = state.item + 1, 0, self.now
        self._begin(veu)
