"""Predicts the time of a stage of operators, for IOS's search (IOS section 4.2, stage latency)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rammer_mlir.scheduling.costs import rtask_seconds, runtime, work
from rammer_mlir.scheduling.device_costs import Device
from rammer_mlir.scheduling.graph import RKernel
from rammer_mlir.scheduling.ios_blocks import Sources
from rammer_mlir.scheduling.ios_dynamic_programming import Mask, members

Free = list[tuple[float, int]]
"""Pairs of a time in seconds and the number of vEUs that are free from then on, ascending."""


@dataclass(frozen=True)
class OperatorTimes:
    """The quantities that determine a stage's time, for every operator of a graph.

    Attributes:
        sources: for each operator, in a topological order, the operators that it reads from.
        kernels: each operator's rKernel.
        device: the device whose vEUs execute the stage.
    """

    sources: Sources
    kernels: Sequence[RKernel]
    device: Device
    _rtask_seconds: dict[int, float] = field(default_factory=dict[int, float])

    def critical_path(self, operators: Sequence[int]) -> float:
        """Return the seconds of the longest path of dependent operators.

        Each operator has all vEUs to itself; a barrier separates dependent operators.
        """
        ends: dict[int, float] = {}
        for number in sorted(operators):
            alone = runtime(self.kernels[number], self.device)
            ends[number] = self._ready(number, ends) + alone
        return max(ends.values())

    def work(self, operators: Sequence[int]) -> float:
        """Return the seconds of all rTasks of ``operators``, divided by the number of vEUs."""
        seconds = sum(work(self.kernels[number], self.device) for number in operators)
        return seconds / self.device.num_veus

    def simulated(self, operators: Sequence[int]) -> float:
        """Return the seconds of a stage whose operators share the vEUs, without its barrier.

        The operators are placed in order, each on the vEUs that are free first, and wait for whole
        operators. This approximates a placement of separate rTasks, at about a hundredth of its
        cost.
        """
        free = [(0.0, self.device.num_veus)]
        ends: dict[int, float] = {}
        for number in sorted(operators):
            free, ends[number] = _placed(
                free,
                self.kernels[number].num_rtasks,
                self._seconds(number),
                self._ready(number, ends),
            )
        return max(seconds for seconds, _ in free)

    def _ready(self, number: int, ends: dict[int, float]) -> float:
        read = [ends[source] for source in self.sources[number] if source in ends]
        return max(read) + self.device.barrier_seconds if read else 0.0

    def _seconds(self, number: int) -> float:
        if number not in self._rtask_seconds:
            self._rtask_seconds[number] = rtask_seconds(self.kernels[number], self.device)
        return self._rtask_seconds[number]


@dataclass(frozen=True)
class ConcurrentTimes:
    """Times of stages whose groups run concurrently, after a barrier; sets of units are masks.

    Attributes:
        units: the operators of each unit.
        times: times of the operators.
    """

    units: Sequence[Sequence[int]]
    times: OperatorTimes
    _groups: dict[Mask, tuple[float, float]] = field(
        default_factory=dict[Mask, "tuple[float, float]"]
    )
    _stages: dict[Mask, float] = field(default_factory=dict[Mask, float])

    def operators(self, units: Mask) -> list[int]:
        """Return the numbers of the operators of all units in a mask, unit by unit."""
        return [number for index in members(units) for number in self.units[index]]

    def group(self, units: Mask) -> tuple[float, float]:
        """Return two times of the group ``units``, in seconds.

        They are its critical path, and the time of all its rTasks divided by the number of vEUs.
        ``units`` is the bit mask of the group's units.
        """
        if units not in self._groups:
            operators = self.operators(units)
            self._groups[units] = (
                self.times.critical_path(operators),
                self.times.work(operators),
            )
        return self._groups[units]

    def bound(self, units: Mask, longest: float, work: float) -> float:
        """Return a lower bound on a stage's seconds: the larger of ``longest`` and ``work``.

        ``longest`` is the longest critical path of the stage's groups, in seconds. ``work`` is the
        seconds of all rTasks of the stage together, divided by the number of vEUs.
        """
        del units
        return self.times.device.barrier_seconds + max(longest, work)

    def stage(self, units: Mask) -> float:
        """Return the seconds of a stage, including the barrier before it.

        ``units`` is the bit mask of the stage's units.
        """
        if units not in self._stages:
            seconds = self.times.simulated(self.operators(units))
            self._stages[units] = self.times.device.barrier_seconds + seconds
        return self._stages[units]

    def least(self, unit: int) -> float:
        """Return a unit's work in seconds divided by the number of vEUs.

        It is a lower bound on the time that the unit adds to the stages.
        """
        return self.times.work(self.units[unit])


def _placed(free: Free, num_rtasks: int, seconds: float, ready: float) -> tuple[Free, float]:
    """Return the times at which vEUs are free after some equal rTasks, and the last rTask's end.

    Args:
        free: pairs of a time in seconds and the number of vEUs that are free from then on, before
            the rTasks; the result has such pairs too.
        num_rtasks: number of rTasks, distributed evenly; the first vEUs get the remainder.
        seconds: time of each rTask.
        ready: earliest start of the rTasks, in seconds.
    """
    rounds, rest = divmod(num_rtasks, sum(count for _, count in free))
    counts: dict[float, int] = {}
    last = 0.0

    def add(end: float, count: int) -> None:
        counts[end] = counts.get(end, 0) + count

    for at, count in free:
        begin = max(at, ready)
        more = min(rest, count)
        if more:
            rest -= more
            last = max(last, begin + (rounds + 1) * seconds)
            add(begin + (rounds + 1) * seconds, more)
        if count > more and rounds:
            last = max(last, begin + rounds * seconds)
            add(begin + rounds * seconds, count - more)
        elif count > more:
            add(at, count - more)
    return sorted(counts.items()), last
