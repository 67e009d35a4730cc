"""Models the vEUs' caches for constants that several operators read.

The cells of an unrolled recurrent layer read the same weights in each time step. Whether these
weights are in a vEU's cache when a cell starts depends on the rTasks that the vEU executed before,
hence on the schedule. The cost of an rTask that reads no such constants depends neither on its vEU
nor on its position. In contrast, the cache model of the module ``reuse`` is independent of the
schedule: it assumes that operators run in graph order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from rammer_mlir.scheduling.costs import (
    candidates,
    rtask_seconds,
    seconds_with_traffic,
    traffic_bytes,
)
from rammer_mlir.scheduling.device_costs import Device
from rammer_mlir.scheduling.graph import RKernel, TaskGraph

NOTHING = -1
"""Value of ``TaskCost.working_set`` for an rTask that reads no shared constant."""

Part = tuple[int, int, tuple[int, ...], tuple[int, ...]]
"""A box of a buffer: the buffer's number, and the box's offset, sizes and strides in elements."""


@dataclass(frozen=True)
class TaskCost:
    """The times of an rTask with and without its shared constants in the vEU's cache.

    Shared constants are constants that several operators read.

    Attributes:
        working_set: the index of the rTask's working set, the boxes of shared constants that the
            rTask reads.
        hot: seconds of the rTask if its working set is in the vEU's cache.
        cold: seconds of the rTask if its working set is not in the vEU's cache.
    """

    working_set: int
    hot: float
    cold: float


class SharedConstants:
    """The constants that several operators read, and the working set of each rTask.

    The working set of an rTask is the set of boxes of these constants that the rTask reads. rTasks
    that read the same boxes have the same working set.
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
        """The bytes of each working set, by the index of the working set."""

    @property
    def matter(self) -> bool:
        """Whether the order of rTasks affects which shared constants stay in the vEUs' caches.

        True if a vEU has a cache, and the cache cannot hold all shared constants.
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
        """Return the index of operator ``number``'s rKernel with the least sum of rTask times.

        rTasks with the same working set are assumed to run consecutively on a vEU, so that only the
        first of them loads the working set. If a working set is larger than the cache, each of
        these rTasks loads the working set.
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
        # Activations stay in the cache for their readers; constants that nobody else reads do not.
        missing = max(0.0, traffic_bytes(kernel, self._device) - num_bytes)
        others = min(missing, float(self._private_bytes(number, kernel, rtask)))
        hot = seconds_with_traffic(kernel, self._device, others)
        cold = seconds_with_traffic(kernel, self._device, others + num_bytes)
        return TaskCost(self._numbers[parts], hot, cold)

    def _private_bytes(self, number: int, kernel: RKernel, rtask: int) -> int:
        """Return the bytes of constants that an rTask reads and no other operator reads."""
        total, buffers = 0, self._graph.buffers
        for read in kernel.reads:
            buffer = self._graph.operators[number].operands[read.argument].buffer
            if buffers[buffer].kind == "constant" and buffer not in self._shared:
                total += int(read.boxes.sizes[rtask].prod()) * buffers[buffer].element_bytes
        return total

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
    """Return the indices of the buffers that operator ``number`` reads with any of its rKernels."""
    operator = graph.operators[number]
    return {operator.operands[r.argument].buffer for k in operator.kernels for r in k.reads}


_SURE = 0.5
"""Share of a cache in which the shared constants used last surely stay.

Other data may evict constants from the rest.
"""


class Cache:
    """A model of a vEU's cache with LRU replacement, based on the reuse distance of working sets.

    The distance of a working set S is the sum of the bytes of S and of all other working sets that
    the vEU has used since the last use of S.
    """

    def __init__(self, shared: SharedConstants, capacity: int) -> None:
        """Begin with an empty cache of ``capacity`` bytes."""
        self._sizes = shared.sizes
        self._capacity = capacity
        self._distances: dict[int, int] = {}

    def missing(self, cost: TaskCost) -> float:
        """Return the expected seconds that loading an rTask's working set adds to the rTask.

        The working set of an rTask is the set of shared constants that the rTask reads. The result
        is 0 if the model is sure that the cache holds the whole working set. ``cost`` is the cost
        of the rTask.
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
        evicted or was never used, and 0 if the rTask reads no shared constants. ``cost`` is the
        cost of the rTask, with the index of its working set.
        """
        return 0 if cost.working_set < 0 else self._distances.get(cost.working_set, self._capacity)

    def is_near(self, cost: TaskCost) -> bool:
        """Whether the distance of an rTask's working set is at most ``_SURE`` times the capacity.

        The model is then sure that the cache holds the working set. ``cost`` is the cost of the
        rTask, with the index of its working set.
        """
        return self.distance(cost) <= _SURE * self._capacity

    def use(self, cost: TaskCost) -> None:
        """Record a use of an rTask's working set; evict the least recently used working sets.

        ``cost`` is the cost of the rTask, with the index of its working set. A working set larger
        than the cache evicts all working sets, itself included.
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
