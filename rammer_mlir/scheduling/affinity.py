"""Places rTasks by cache affinity: on the vEU whose cache holds the constants that they read.

The algorithm is greedy: it places the rTask that can start earliest next (the ETF heuristic of
Hwang et al., 1989), and counts the loading of constants that a vEU's cache lacks as a delay. Ready
rTasks that read the same constants as the vEU's last rTask have no such delay, so they are chosen
first; the vEU changes to other constants only when no such rTask is ready. In an unrolled recurrent
network, one vEU thus processes all time steps of a layer while other vEUs process the previous or
the next layer; or several vEUs share the time steps of a layer, and fill gaps with rTasks of the
next layer.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field

from rammer_mlir.scheduling.caches import Cache, SharedConstants, TaskCost
from rammer_mlir.scheduling.costs import candidates, fastest, rtask_seconds
from rammer_mlir.scheduling.device_costs import Device
from rammer_mlir.scheduling.graph import ROperator, TaskGraph
from rammer_mlir.scheduling.program import Plan
from rammer_mlir.scheduling.tasks import Placement, TaskTable, plan_of, task_table

_TURN = 2
"""Maximum time that a vEU idles before it loads other constants, in units of a barrier's time."""

_GAP = 16
"""Maximum time of an rTask for its rKernel to count as short, in units of a barrier's time."""

_Head = tuple[float, int]
"""A ready rTask: the time when its inputs are complete, in seconds, and the rTask's index.

All rTasks that it depends on are placed.
"""


def plans_by_affinity(
    graph: TaskGraph, device: Device, kernels: tuple[int, ...], shared: SharedConstants
) -> Iterator[Plan]:
    """Yield plans of a single rProgram, one for each of four choices of rKernels.

    The choices are:

    - ``kernels``, the index of an rKernel for each operator;
    - for each operator, the fastest rKernel;
    - for each operator, the rKernel that is fastest if its constants stay in a vEU's cache;
    - for each operator, an rKernel with short rTasks, which fill gaps in which a vEU would wait.

    A choice that equals an earlier one is skipped. ``shared`` has the seconds of each rTask if the
    vEU's cache holds the constants that the rTask reads, and if it does not.
    """
    fast = tuple(fastest(operator, device) for operator in graph.operators)
    cached = tuple(shared.best_kept(number) for number in range(len(graph.operators)))
    short = tuple(_short(operator, device) for operator in graph.operators)
    turns = {(choice, 0.0): None for choice in (kernels, fast, cached)}
    turns[short, _TURN * device.barrier_seconds] = None
    for choice, turn in turns:
        table = task_table(graph, device, choice)
        yield plan_of(graph, device, table, place_by_affinity(table, device, shared, turn))


def _short(operator: ROperator, device: Device) -> int:
    """Return the index of the operator's rKernel with the longest rTasks that are still short.

    An rTask is short if it takes at most ``_GAP`` times the time of a barrier. If no rKernel has
    short rTasks, return the index of the rKernel with the shortest rTasks.
    """
    seconds = {k: rtask_seconds(operator.kernels[k], device) for k in candidates(operator, device)}
    short = [k for k in seconds if seconds[k] <= _GAP * device.barrier_seconds]
    return max(short, key=lambda k: seconds[k]) if short else min(seconds, key=lambda k: seconds[k])


def place_by_affinity(
    table: TaskTable, device: Device, shared: SharedConstants, turn: float = 0.0
) -> Placement:
    """Return the placement of all rTasks: for each vEU, its rTasks in order.

    The rTask that can start earliest is always placed next, on the vEU that allows this start. A
    vEU idles up to ``turn`` seconds for rTasks that read the constants in its cache, before it
    executes rTasks that read other constants. ``shared`` has the seconds of each rTask if the
    vEU's cache holds the constants that the rTask reads, and if it does not.
    """
    return _Placing(table, device, shared, turn).placement()


@dataclass
class _Veu:
    """A vEU during placement.

    Attributes:
        cache: the model of this vEU's cache: which constants of its rTasks the cache still holds.
        known: for each vEU w, the number of rTasks of w that this vEU knows to be complete.
        tasks: the indices of this vEU's rTasks in the task table, in order.
        busy: sum of the seconds of these rTasks, without barriers and idle time.
        free: end of the last of these rTasks, in seconds.
    """

    cache: Cache
    known: list[int]
    tasks: list[int] = field(default_factory=list[int])
    busy: float = 0.0
    free: float = 0.0


class _Placing:
    def __init__(
        self, table: TaskTable, device: Device, shared: SharedConstants, turn: float
    ) -> None:
        num_veus = device.num_veus
        self._table = table
        self._barrier = device.barrier_seconds
        self._turn = turn
        self._costs: list[TaskCost] = [
            cost for number, choice in enumerate(table.kernels)
            for cost in shared.costs(number, choice)
        ]  # fmt: skip
        self._veus = [
            _Veu(Cache(shared, device.cache_bytes), [0] * num_veus) for _ in range(num_veus)
        ]
        self._ends = [0.0] * len(self._costs)
        self._where: dict[int, tuple[int, int]] = {}
        self._knew: dict[int, list[int]] = {}
        self._ready: dict[TaskCost, list[_Head]] = {}

    def placement(self) -> Placement:
        """Place all rTasks; return the rTasks of each vEU in order."""
        missing = [len(sources) for sources in self._table.sources]
        for task, count in enumerate(missing):
            if not count:
                self._offer(task)
        for _ in missing:
            task = self._place_next()
            for reader in self._table.readers[task]:
                missing[reader] -= 1
                if not missing[reader]:
                    self._offer(reader)
        return [veu.tasks for veu in self._veus]

    def _offer(self, task: int) -> None:
        """Mark an rTask as ready: its sources, the rTasks that it depends on, are all placed.

        Ready rTasks that read the same constants and take the same time (``TaskCost``) are in one
        heap, ordered by the time at which the last source ends.
        """
        latest = max((self._ends[source] for source in self._table.sources[task]), default=0.0)
        heapq.heappush(self._ready.setdefault(self._costs[task], []), (latest, task))

    def _place_next(self) -> int:
        """Place the rTask that can start earliest; return the index of this rTask.

        An rTask with a home is placed on its home. Among equal starts, prefer the vEU that has used
        the rTask's constants most recently (``Cache.distance``), then the rTask of smallest index,
        then the vEU with the least busy time.
        """
        best: tuple[float, int, int, float, int] | None = None
        for cost, heads in self._ready.items():
            latest, task = heads[0]
            home = self._table.homes[task]
            for number, veu in enumerate(self._veus):
                if home is not None and number != home:
                    continue
                delay = veu.cache.missing(cost) + (0.0 if veu.cache.is_near(cost) else self._turn)
                # A cheap lower bound on the start spares the search through the sources.
                if best and max(latest, veu.free) + delay > best[0]:
                    continue
                start = self._start(task, number) + delay
                found = (start, veu.cache.distance(cost), task, veu.busy, number)
                best = min(best, found) if best else found
        assert best, "an rTask that is not placed waits for others: the graph has a cycle"
        _, _, task, _, number = best
        self._put(task, number)
        return task

    def _start(self, task: int, number: int) -> float:
        """Return the time in seconds at which an rTask can start on vEU ``number``.

        The time of a barrier is included if the rTask depends on an rTask of another vEU that vEU
        ``number`` does not yet know to be complete. The time to load constants is not included.
        """
        veu, awaited = self._veus[number], -1.0
        for source in self._table.sources[task]:
            other, order = self._where[source]
            if other != number and veu.known[other] <= order:
                awaited = max(awaited, self._ends[source])
        return veu.free if awaited < 0 else max(veu.free, awaited) + self._barrier

    def _put(self, task: int, number: int) -> None:
        veu, cost = self._veus[number], self._costs[task]
        missing = veu.cache.missing(cost)
        start = self._start(task, number) + missing
        heads = self._ready[cost]
        heapq.heappop(heads)
        if not heads:
            del self._ready[cost]
        for source in self._table.sources[task]:
            other, order = self._where[source]
            if other != number and veu.known[other] <= order:
                veu.known = [max(a, b) for a, b in zip(veu.known, self._knew[source], strict=True)]
                veu.known[other] = max(veu.known[other], order + 1)
        self._where[task] = number, len(veu.tasks)
        self._knew[task] = veu.known
        self._ends[task] = veu.free = start + cost.hot
        veu.busy += missing + cost.hot
        veu.cache.use(cost)
        veu.tasks.append(task)
