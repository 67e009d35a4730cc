"""Models the vEUs' caches for constants that several operators read.

The cells of an unrolled recurrent layer read the same weights in each time step. Whether a cell
finds them in its vEU's cache depends on the rTasks that ran there earlier, and so on the schedule.
The cost of all other rTasks is independent of their vEU and order. The module ``reuse`` has the
model that is independent of the schedule: it assumes the order of the graph.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from rammer_mlir.scheduling.costs import candidates, rtask_seconds, seconds_with_traffic
from rammer_mlir.scheduling.device_costs import Device
from rammer_mlir.scheduling.graph import RKernel, TaskGraph

NOTHING = -1
"""Number of the working set of an rTask that reads no constant that other operators read."""

Part = tuple[int, int, tuple[int, ...], tuple[int, ...]]
"""A box of a buffer: the buffer's number, and the box's offset, sizes and strides in elements."""


@dataclass(frozen=True)
class TaskCost:
    """The times of an rTask with and without its shared constants in the vEU's cache.

    Shared constants are those that several operators read.

    Attributes:
        working_set: the number of the set of boxes of shared constants that the rTask reads.
        hot: its time in seconds if these boxes are in the vEU's cache.
        cold: its time in seconds if they are not.
    """

    working_set: int
    hot: float
    cold: float


class SharedConstants:
    """The constants that several operators read, divided into working sets of rTasks.

    The working set of an rTask is the set of boxes of these constants that it reads.
    """

    def __init__(self, graph: TaskGraph, device: Device) -> None:
        """Find the shared constants; their working sets are numbered in the order of first use."""
        self._graph = graph
        self._device = device
        users = Counter(
            buffer for number in range(len(graph.operators)) for buffer in _reads(graph, number)
        )
        self._shared = {
            buffer for buffer, count in users.items()
            if count > 1 and graph.buffers[buffer].kind == "constant"
        }  # fmt: skip
        self._numbers: dict[tuple[Part, ...], int] = {}
        self._found: dict[tuple[RKernel, tuple[int, ...]], Sequence[TaskCost]] = {}
        self.sizes: list[int] = []
        """The bytes of each working set, by its number."""

    @property
    def matter(self) -> bool:
        """Whether the order of rTasks affects which shared constants stay in the vEUs' caches.

        It does if vEUs have caches that cannot hold all shared constants.
        """
        total = sum(self._graph.buffers[buffer].num_bytes for buffer in self._shared)
        return 0 < self._device.cache_bytes < total

    def costs(self, number: int, choice: int) -> Sequence[TaskCost]:
        """Return the cost of each rTask of operator ``number`` with candidate ``choice``.

        ``choice`` is the index of an rKernel among the candidates of the operator.
        """
        operator = self._graph.operators[number]
        kernel = operator.kernels[choice]
        reads = [r for r in kernel.reads if operator.operands[r.argument].buffer in self._shared]
        places = [operator.operands[read.argument] for read in reads]
        key = kernel, tuple(n for view in places for n in (view.buffer, view.offset))
        if key not in self._found:
            self._found[key] = [self._cost(number, kernel, t) for t in range(kernel.num_rtasks)]
        return self._found[key]

    def best_kept(self, number: int) -> int:
        """Return the index of the rKernel of operator ``number`` with the least total time.

        The working set of an rTask is assumed to be in the vEU's cache, because rTasks with the
        same working set run consecutively. Only a working set that the cache cannot hold is loaded
        by each rTask.
        """
        operator, cache = self._graph.operators[number], Cache(self, self._device.cache_bytes)

        def seconds(choice: int) -> float:
            total = 0.0
            for cost in self.costs(number, choice):
                cache.use(cost)
                total += cost.hot + cache.missing(cost)
            return total

        return min(candidates(operator, self._device), key=seconds)

    def _cost(self, number: int, kernel: RKernel, rtask: int) -> TaskCost:
        parts, num_bytes = self._parts(number, kernel, rtask)
        if not parts:
            seconds = rtask_seconds(kernel, self._device)
            return TaskCost(NOTHING, seconds, seconds)
        if parts not in self._numbers:
            self._numbers[parts] = len(self.sizes)
            self.sizes.append(num_bytes)
        hot = seconds_with_traffic(kernel, self._device, 0.0)
        cold = seconds_with_traffic(kernel, self._device, float(num_bytes))
        return TaskCost(self._numbers[parts], hot, cold)

    def _parts(self, number: int, kernel: RKernel, rtask: int) -> tuple[tuple[Part, ...], int]:
        parts: set[Part] = set()
        total = 0
        operands = self._graph.operators[number].operands
        for read in kernel.reads:
            view, boxes = operands[read.argument], read.boxes
            if view.buffer not in self._shared:
                continue
            sizes = tuple(boxes.sizes[rtask].tolist())
            part = (view.buffer, view.offset + int(boxes.offsets[rtask]), sizes, boxes.strides)
            if part not in parts:
                parts.add(part)
                elements = int(boxes.sizes[rtask].prod())
                total += elements * self._graph.buffers[view.buffer].element_bytes
        return tuple(sorted(parts)), total


def _reads(graph: TaskGraph, number: int) -> set[int]:
    """Return the numbers of the buffers that operator ``number`` reads with any of its rKernels."""
    operator = graph.operators[number]
    return {operator.operands[r.argument].buffer for k in operator.kernels for r in k.reads}


_SURE = 0.5
"""Share of a cache in which the shared constants used last surely stay.

Other data may evict constants from the rest.
"""


class Cache:
    """A model of a vEU's cache: the distance of each working set in it.

    The distance of a working set is the bytes of all working sets used since its last use, its own
    included.
    """

    def __init__(self, shared: SharedConstants, capacity: int) -> None:
        """Begin with an empty cache of ``capacity`` bytes."""
        self._sizes = shared.sizes
        self._capacity = capacity
        self._distances: dict[int, int] = {}

    def missing(self, cost: TaskCost) -> float:
        """Return the seconds by which an rTask is expected to wait until its working set is loaded.

        The working set is the set of shared constants that it reads. The delay is 0 if the cache
        surely holds all of them. ``cost`` is the cost of the rTask.
        """
        if cost.working_set == NOTHING:
            return 0.0
        distance = self._distances.get(cost.working_set, self._capacity)
        part = (distance / self._capacity - _SURE) / (1 - _SURE)
        return min(max(part, 0.0), 1.0) * (cost.cold - cost.hot)

    def distance(self, cost: TaskCost) -> int:
        """Return the bytes of working sets used since the last use of an rTask's working set.

        A working set is the set of shared constants that an rTask reads. The bytes of the rTask's
        own working set are included. Return the cache's capacity if the working set has been
        evicted or was never used, and 0 if the rTask reads no shared constants.
        """
        return 0 if cost.working_set < 0 else self._distances.get(cost.working_set, self._capacity)

    def is_near(self, cost: TaskCost) -> bool:
        """Whether the cache surely holds an rTask's working set."""
        return self.distance(cost) <= _SURE * self._capacity

    def use(self, cost: TaskCost) -> None:
        """Record a use of an rTask's working set; evict the least recently used working sets.

        A working set larger than the cache evicts all, itself included.
        """
        number = cost.working_set
        if number == NOTHING:
            return
        own = self._sizes[number]
        before = self._distances.get(number)
        if before == own:
            return
        limit = self._capacity if before is None else before
        moved = {
            other: distance + own if distance < limit else distance
            for other, distance in self._distances.items()
            if other != number
        }
        moved[number] = own
        self._distances = {n: d for n, d in moved.items() if d < self._capacity}
