"""Computes the critical path of a run, and lower bounds of its duration, from its rTasks' times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rammer_mlir.scheduling.device_costs import Device
from rammer_mlir.scheduling.graph import TaskGraph
from rammer_mlir.scheduling.program import Plan
from rammer_mlir.scheduling.tasks import TaskTable, task_table
from rammer_mlir.timeline.critical_path import critical_path
from rammer_mlir.timeline.spans import Kind, Timeline

NEAR = 0.85
"""Minimum share of the time for a bound to be reported as a limit of the run."""

LONG = 0.5
"""Minimum share of the time for a single rTask to be reported as a limit of the run."""

MANY_WAITS = 0.2
"""Minimum share of the critical path for barriers and launches to be reported as limits."""


@dataclass(frozen=True)
class Limits:
    """Times of a run, and lower bounds of the time of any run of the same rTasks, in seconds.

    Attributes:
        total: duration of the run.
        num_veus: number of vEUs of the schedule.
        on_path: seconds on the run's critical path, by kind: rtask, barrier, launch.
        work: time of all rTasks divided by ``num_veus``, a lower bound for every schedule. An
            rTask that occupies the whole device counts ``num_veus`` times.
        chain: time of the longest chain of dependent rTasks, a lower bound for any number of vEUs.
        chain_length: number of rTasks in the longest chain.
        longest: time of the longest rTask.
        longest_name: name of the rOperator of the longest rTask.
        arithmetic: time of all arithmetic if all vEUs compute at their peak rate.
        memory: time to transfer all bytes that rTasks access, without caches, at the memory
            bandwidth that ``num_veus`` vEUs can use.
        is_longest_exclusive: whether no other rTask may run beside the longest one.
    """

    total: float
    num_veus: int
    on_path: Mapping[Kind, float]
    work: float
    chain: float
    chain_length: int
    longest: float
    longest_name: str
    arithmetic: float
    memory: float
    is_longest_exclusive: bool = False

    @property
    def bound(self) -> float:
        """A lower bound, in seconds, of the duration of every schedule of the run's rTasks.

        The schedules use ``num_veus`` vEUs.
        """
        return max(self.work, self.chain)

    @property
    def verdict(self) -> str:
        """A sentence for users that says why the run is not faster.

        The reason is a single long rTask, the work of all rTasks, the chain of dependent rTasks,
        the barriers and launches, or else the schedule.
        """
        if not self.total:
            return "nothing: no rTask runs"
        waits = self.on_path["barrier"] + self.on_path["launch"]
        work, chain = self._share(self.work), self._share(self.chain)
        if self.longest >= LONG * self.total and self.is_longest_exclusive:
            return (
                f"one long rTask: one of '{self.longest_name}' takes {self._share(self.longest)} "
                "of the time on the whole device; a faster engine or rKernel would help"
            )
        if self.longest >= LONG * self.total and self.num_veus > 1:
            return (
                f"one long rTask: one of '{self.longest_name}' takes {self._share(self.longest)} "
                "of the time; smaller tiles would let other vEUs help"
            )
        if self.work >= NEAR * self.total:
            kind = "arithmetic" if self.arithmetic >= self.memory else "memory traffic"
            return (
                f"work: rTasks fill {work} of all vEUs' time, so that faster rKernels or more vEUs "
                f"would help, other schedules hardly; {kind} has the higher floor"
            )
        if self.chain >= NEAR * self.total:
            return (
                f"the critical path: {self.chain_length} rTasks that wait for each other take "
                f"{chain} of the time, on any number of vEUs"
            )
        if waits >= MANY_WAITS * self.total:
            return (
                f"barriers: waits and launches are {self._share(waits)} of the run's critical "
                "path; fewer vEUs or larger tiles would hand over less often"
            )
        return (
            f"the schedule: vEUs are busy for {work} of the time, and the longest chain of rTasks "
            f"needs {chain}; another policy may place them better"
        )

    def _share(self, seconds: float) -> str:
        return f"{seconds / self.total:.0%}"


def limits_of(graph: TaskGraph, plan: Plan, device: Device, timeline: Timeline) -> Limits:
    """Return the times of a run, and the lower bounds that follow from its rTasks' times.

    Args:
        graph: the rOperators.
        plan: the schedule of the rOperators.
        device: the description of the device on which the plan runs.
        timeline: a predicted or measured run of the plan.
    """
    table = task_table(graph, device, plan.kernels)
    seconds = rtask_seconds_of(graph, plan, table, timeline)
    chain, length = _longest_chain(table, seconds)
    longest = max(range(len(seconds)), key=seconds.__getitem__, default=None)
    on_path: dict[Kind, float] = {"rtask": 0.0, "barrier": 0.0, "launch": 0.0}
    for segment in critical_path(timeline):
        kind = timeline.veus[segment.veu][segment.index].kind
        on_path[kind] += segment.end - segment.start
    kernels = [o.kernels[n] for o, n in zip(graph.operators, plan.kernels, strict=True)]
    computing = sum(
        kernel.num_rtasks * kernel.flops_per_rtask / device.rate(kernel.matrix_element)
        for kernel in kernels
    )
    touched = sum(kernel.num_rtasks * kernel.bytes_per_rtask for kernel in kernels)
    num_veus = max((program.num_veus for program in plan.programs), default=1)
    exclusive = [kernels[operator].is_exclusive for operator in table.operators]
    occupied = sum(s * (num_veus if x else 1) for s, x in zip(seconds, exclusive, strict=True))
    return Limits(
        total=timeline.seconds,
        num_veus=num_veus,
        on_path=on_path,
        work=occupied / num_veus,
        chain=chain,
        chain_length=length,
        longest=0.0 if longest is None else seconds[longest],
        longest_name="" if longest is None else graph.operators[table.operators[longest]].name,
        arithmetic=computing / num_veus,
        # Few vEUs cannot use the whole bandwidth of the device.
        memory=touched / min(num_veus * device.bytes_per_second, device.total_bytes_per_second),
        is_longest_exclusive=longest is not None and exclusive[longest],
    )


def operator_times(graph: TaskGraph, plan: Plan, timeline: Timeline) -> list[float]:
    """Return, for each rOperator of ``graph``, the sum of the times of its rTasks, in seconds.

    A timeline identifies rOperators only by name and rKernel. If several rOperators have the same
    name and rKernel, their total time is divided among them in proportion to their numbers of
    rTasks.
    """
    keys = [
        (operator.name, operator.kernels[number].name)
        for operator, number in zip(graph.operators, plan.kernels, strict=True)
    ]
    spent: dict[tuple[str, str], float] = {}
    for span in timeline.spans:
        if span.kind == "rtask":
            key = span.name, span.kernel
            spent[key] = spent.get(key, 0.0) + span.seconds
    counts = [
        operator.kernels[number].num_rtasks
        for operator, number in zip(graph.operators, plan.kernels, strict=True)
    ]
    rtasks: dict[tuple[str, str], int] = {}
    for key, count in zip(keys, counts, strict=True):
        rtasks[key] = rtasks.get(key, 0) + count
    return [
        spent.get(key, 0.0) * count / rtasks[key] if rtasks[key] else 0.0
        for key, count in zip(keys, counts, strict=True)
    ]


def rtask_seconds_of(
    graph: TaskGraph, plan: Plan, table: TaskTable, timeline: Timeline
) -> list[float]:
    """Return the estimated seconds of each rTask in the run ``timeline``, in ``table``'s order.

    The estimate is the mean time of the rTasks of the same rOperator. ``table`` has the rTasks of
    all rOperators of ``graph``, and ``plan`` is their schedule.
    """
    times = operator_times(graph, plan, timeline)
    counts = [0] * len(times)
    for operator in table.operators:
        counts[operator] += 1
    return [times[operator] / counts[operator] for operator in table.operators]


def _longest_chain(table: TaskTable, seconds: list[float]) -> tuple[float, int]:
    """Return the seconds and the number of rTasks of the longest chain of dependent rTasks.

    ``seconds`` has the time of each rTask. The table's order is topological: each rTask follows all
    rTasks on which it depends.
    """
    ends: list[tuple[float, int]] = []
    for task, sources in enumerate(table.sources):
        before, length = max((ends[source] for source in sources), default=(0.0, 0))
        ends.append((before + seconds[task], length + 1))
    return max(ends, default=(0.0, 0))
