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
    """Predicts the time of stages from the rKernels and dependencies of a graph's operators.

    ``_rtask_seconds`` has the predicted time of an rTask of each operator asked for so far.

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
        """Return the seconds of the longest path of dependent operators among ``operators``.

        Each operator is assumed to have all vEUs to itself, with a barrier between dependent
        operators.
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
        """Return the seconds of a stage whose operators share the vEUs.

        The barrier between stages is not included. The operators are placed in ascending order. The
        rTasks of an operator go to the vEUs that are free first, and start when all operators that
        this operator reads from have ended. The result approximates the time of a placement of
        single rTasks, which would take about a hundred times as long to compute.
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
    """Predicts the times of stages; the groups of a stage run concurrently, after a barrier.

    A set of units, such as a group or a stage, is a bit mask of indices of units. ``_groups`` and
    ``_stages`` have the results of ``group`` and ``stage`` for the masks asked for so far.

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
        """Return the indices of the operators of all units in a mask, unit by unit."""
        return [number for index in members(units) for number in self.units[index]]

    def group(self, units: Mask) -> tuple[float, float]:
        """Return the critical path and the work of a group, in seconds.

        The work is the time of all rTasks of the group divided by the count of vEUs. ``units`` is
        the bit mask of the group's units.
        """
        if units not in self._groups:
            operators = self.operators(units)
            self._groups[units] = (
                self.times.critical_path(operators),
                self.times.work(operators),
            )
        return self._groups[units]

    def bound(self, units: Mask, longest: float, work: float) -> float:
        """Return a lower bound on a stage's seconds, including the barrier before the stage.

        The bound is the time of the barrier plus the larger of ``longest`` and ``work``.

        Args:
            units: the bit mask of the stage's units; not used.
            longest: the longest critical path of the stage's groups, in seconds.
            work: the seconds of all rTasks of the stage together, divided by the count of vEUs.
        """
        del units
        return self.times.device.barrier_seconds + max(longest, work)

    def stage(self, units: Mask) -> float:
        """Return the seconds of a stage, including the barrier before the stage.

        ``units`` is the bit mask of the stage's units.
        """
        if units not in self._stages:
            seconds = self.times.simulated(self.operators(units))
            self._stages[units] = self.times.device.barrier_seconds + seconds
        return self._stages[units]

    def least(self, unit: int) -> float:
        """Return a lower bound on the seconds that a unit adds to the time of any schedule.

        The bound is the sum of the seconds of the unit's rTasks, divided by the count of vEUs. The
        total time of all stages is at least the sum of these bounds over all units.
        """
        return self.times.work(self.units[unit])


def _placed(free: Free, num_rtasks: int, seconds: float, ready: float) -> tuple[Free, float]:
    """Place equal rTasks on the vEUs that are free first; return the new ``free`` and the last end.

    The last end is the time in seconds at which the last of the rTasks ends.

    Args:
        free: pairs of a time in seconds and the count of vEUs that become free at that time.
        num_rtasks: count of rTasks, distributed evenly; the first vEUs get the remainder.
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
