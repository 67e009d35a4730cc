"""Simulates the contents of the caches when a plan runs repeatedly, to predict its rTasks' times.

Unlike during scheduling, the addresses of buffers are known, because memory has been planned.
Intermediates share the arena, so an rTask mostly writes to memory that was recently read or
written. A first execution of the plan fills the caches; the predicted times are those of a second
execution. Memory is divided into equal blocks of at least 1024 bytes. Each vEU's own cache is
modeled by the reuse distances of these blocks (Mattson et al., 1970).

A set-associative cache with arbitrary physical addresses does not lose all data at the same reuse
distance: some cache sets overflow earlier than others. Between two reuse distances, both from the
device's description, the lost share grows linearly from 0 to 1. A vEU's cache also loses the data
that another vEU has written since the first vEU last used the data.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.scheduling.costs import far_part
from rammer_mlir.scheduling.device_costs import Device
from rammer_mlir.scheduling.execution_order import execution_order
from rammer_mlir.scheduling.graph import Access, Int64Array, RKernel, TaskGraph
from rammer_mlir.scheduling.memory import aligned, plan_memory
from rammer_mlir.scheduling.overlap import span
from rammer_mlir.scheduling.program import Plan, Run
from rammer_mlir.scheduling.simulator import Simulation, simulate

_LEAST_BLOCK = 1024
"""Minimum bytes of a block of memory, which is cached as a whole.

Blocks are larger where a program would have more than ``_MOST_BLOCKS``.
"""
_MOST_BLOCKS = 1 << 16


@dataclass(frozen=True)
class _Part:
    """The memory blocks ``begin .. end - 1`` that the rTasks of a run touch for one operand.

    A memory block is the unit of the cache model, at least 1024 bytes. ``density`` is the mean
    number of bytes touched in each memory block; ``is_written`` tells whether the operand is
    written.
    """

    begin: int
    end: int
    density: float
    is_written: bool


@dataclass(frozen=True)
class _Missing:
    """The bytes of a run's operands that are not in a vEU's cache.

    ``num_bytes`` is the count of these bytes. ``far`` is a weighted count of the same bytes: the
    weight of a byte is ``costs.far_part`` of its reuse distance, from 0 to 1.
    """

    num_bytes: float
    far: float


class ReplayedCosts:
    """The times of a plan's rTasks in a run that follows an earlier run of the plan.

    The caches contain data of the earlier run. ``simulate`` uses the object as its ``RunCosts``.
    """

    def __init__(self, graph: TaskGraph, plan: Plan, device: Device) -> None:
        """Fill the simulated caches of the vEUs by simulating a first execution of the plan.

        Raises:
            ScheduleError: if a wait blocks forever.
        """
        self._graph = graph
        self._kernels = [o.kernels[k] for o, k in zip(graph.operators, plan.kernels, strict=True)]
        self._device = device
        self._memory = _Memory(graph, plan)
        size = self._memory.num_blocks
        num_items = [0] * device.num_veus
        for program in plan.programs:
            for veu, items in enumerate(program.veus):
                num_items[veu] += len(items)
        self._caches = [_VeuCache(size, 2 * items, device) for items in num_items]
        self._now = 0
        self._written = np.full(size, -1, dtype=np.int64)
        self._traffic = 0.0
        self._brought_in = np.full(size, -np.inf)
        self._footprints: dict[RKernel, float] = {}
        for program in plan.programs:
            for veu, item in execution_order(program):
                if isinstance(item, Run):
                    self._touch(veu, item)

    def of(self, veu: int, run: Run) -> float:
        """Return the mean seconds of a run's rTasks on a vEU, by the contents of the vEU's cache.

        The call changes the caches: query each run once, in a possible order of execution.
        """
        kernel, missing = self._kernels[run.operator], self._touch(veu, run)
        device = self._device
        active = max(1, min(kernel.num_rtasks, device.num_veus))
        shared = device.total_bytes_per_second / active
        if kernel.measured is None:
            width = device.num_veus if kernel.is_exclusive else 1
            bandwidth = min(width * device.bytes_per_second, shared)
            rate = width * device.rate(kernel.matrix_element)
            arithmetic = kernel.flops_per_rtask * run.count / rate
            return device.rtask_seconds + max(arithmetic, missing.num_bytes / bandwidth) / run.count
        hot, cold, far = kernel.measured.hot, kernel.measured.cold, kernel.measured.far
        # When measured cold, all rTasks together missed the operator's whole footprint.
        lacks = kernel.num_rtasks / max(self._footprint(run.operator), 1.0)
        delay = missing.num_bytes * (cold - hot) + missing.far * (far - cold)
        alone = hot * run.count + lacks * delay
        together = missing.num_bytes / shared if active > 1 else 0.0
        return device.rtask_seconds + max(alone, together) / run.count

    def _footprint(self, operator: int) -> float:
        kernel = self._kernels[operator]
        if kernel not in self._footprints:
            parts = self._memory.parts(operator, kernel, 0, kernel.num_rtasks)
            self._footprints[kernel] = sum(p.density * (p.end - p.begin) for p in parts)
        return self._footprints[kernel]

    def _touch(self, veu: int, run: Run) -> _Missing:
        kernel = self._kernels[run.operator]
        parts = self._memory.parts(run.operator, kernel, run.first, run.count)
        cache, total, far = self._caches[veu], 0.0, 0.0
        for part in parts:
            lost = cache.lost(part, self._written[part.begin : part.end]) * part.density
            distances = self._traffic - self._brought_in[part.begin : part.end]
            total += float(lost.sum())
            far += float((lost * far_part(distances)).sum())
        for part in parts:
            cache.touch(part)
            self._brought_in[part.begin : part.end] = self._traffic
            if part.is_written:
                self._written[part.begin : part.end] = self._now
        cache.next(self._now)
        self._now += 1
        self._traffic += total
        return _Missing(total, far)


def simulate_repeated(graph: TaskGraph, plan: Plan, device: Device) -> Simulation:
    """Return the simulation of a run of a plan on a device that runs the plan repeatedly.

    If the device's vEUs have caches, the data that earlier rTasks left in the caches affects the
    times.

    Raises:
        ScheduleError: if a wait blocks forever.
    """
    cached = device.cache_bytes and not device.is_bulk_synchronous
    return simulate(graph, plan, device, ReplayedCosts(graph, plan, device) if cached else None)


class _Memory:
    """The addresses in bytes that the simulation of the caches assumes for a plan's buffers.

    The arena begins at address 0. All buffers outside the arena follow, one after another.
    """

    def __init__(self, graph: TaskGraph, plan: Plan) -> None:
        self._graph = graph
        planned = plan_memory(graph, plan)
        self._address = dict(planned.offsets)
        end = planned.sizes.arena_bytes
        for number, buffer in enumerate(graph.buffers):
            if number not in self._address:
                self._address[number] = end
                end += aligned(buffer.num_bytes)
        self._block = _LEAST_BLOCK
        while end > _MOST_BLOCKS * self._block:
            self._block *= 2
        self.num_blocks = end // self._block + 1
        self._ranges: dict[tuple[RKernel, int, int], list[tuple[int, int, int, int, bool]]] = {}

    def parts(self, operator: int, kernel: RKernel, first: int, count: int) -> list[_Part]:
        """Return the ranges of memory that rTasks touch: a ``_Part`` for each operand.

        The rTasks are ``first .. first + count - 1`` of operator ``operator``, whose rKernel is
        ``kernel``. Operands that the rTasks do not touch are left out.
        """
        key = kernel, first, count
        if key not in self._ranges:
            self._ranges[key] = _ranges(kernel, first, count)
        operands = self._graph.operators[operator].operands
        found: list[_Part] = []
        for argument, low, high, asked, is_written in self._ranges[key]:
            view = operands[argument]
            width = self._graph.buffers[view.buffer].element_bytes
            start = self._address[view.buffer] + (view.offset + low) * width
            end = self._address[view.buffer] + (view.offset + high) * width
            begin, stop = start // self._block, -(-end // self._block)
            density = min(asked * width, end - start) / (stop - begin)
            found.append(_Part(begin, stop, density, is_written))
        return found


def _ranges(kernel: RKernel, first: int, count: int) -> list[tuple[int, int, int, int, bool]]:
    """Return for each touched argument the range of elements that rTasks touch.

    The rTasks are ``first .. first + count - 1``. A range is a tuple: the index of the argument,
    the first touched element, the last touched element plus one, the count of touched elements, and
    whether an rTask writes to the argument.
    """
    found: dict[int, tuple[int, int, int, int, bool]] = {}
    for is_written, accesses in ((False, kernel.reads), (True, (*kernel.writes, *kernel.updates))):
        for access in accesses:
            extent = _extent(access, slice(first, first + count))
            if extent is None:
                continue
            low, high, asked = extent
            if access.argument in found:
                _, a, b, c, _ = found[access.argument]
                low, high, asked = min(a, low), max(b, high), max(asked, c)
            found[access.argument] = access.argument, low, high, asked, is_written
    return list(found.values())


def _extent(access: Access, rtasks: slice) -> tuple[int, int, int] | None:
    """Return the first touched element, the last touched element plus one, and a count of elements.

    ``rtasks`` selects the rTasks. An element counts once for each rTask that touches it. Return
    None if the rTasks touch no element.
    """
    sizes: Int64Array = access.boxes.sizes[rtasks]
    reach = span(access.boxes)[rtasks]
    offsets = access.boxes.offsets[rtasks]
    used = reach >= 0
    if not used.any():
        return None
    low, high = int(offsets[used].min()), int((offsets + reach)[used].max()) + 1
    return low, high, int(np.prod(sizes, axis=1).sum())


class _VeuCache:
    """A model of a vEU's cache, by the bytes touched since the last use of each memory block.

    Each run of rTasks on this vEU is a moment; moments are numbered from zero. ``_last`` has for
    each memory block the moment of its last use, ``_bytes_at`` for each moment the bytes that were
    last used at that moment. ``_time`` has for each moment the position of the moment's run in the
    execution order of the runs of all vEUs.
    """

    def __init__(self, num_blocks: int, num_moments: int, device: Device) -> None:
        self._last = np.full(num_blocks, -1, dtype=np.int64)
        self._amount = np.zeros(num_blocks)
        self._bytes_at = np.zeros(num_moments + 1)
        self._time = np.full(num_moments + 1, -1, dtype=np.int64)
        self._now = 0
        self._kept = device.cache_kept_bytes or device.cache_bytes
        self._lost = max(device.cache_lost_bytes or device.cache_bytes, self._kept + 1)

    def lost(self, part: _Part, written: Int64Array) -> NDArray[np.float64]:
        """Return the lost share of each memory block of ``part``, from 0 to 1.

        A block that this vEU has not touched yet counts as lost.

        Args:
            part: the memory blocks.
            written: for each memory block the last run, on any vEU, that wrote to the block, as a
                position among the runs of all vEUs; -1 if no run wrote to the block.
        """
        last = self._last[part.begin : part.end]
        moments, where = np.unique(last, return_inverse=True)
        lost = [
            1.0 if moment < 0 else self._part(self._bytes_at[moment : self._now].sum())
            for moment in moments.tolist()
        ]
        return np.where(written > self._time[last], 1.0, np.array(lost)[where])

    def _part(self, distance: float) -> float:
        return min(max((distance - self._kept) / (self._lost - self._kept), 0.0), 1.0)

    def touch(self, part: _Part) -> None:
        """Mark the memory blocks of ``part`` as last used by the current run of this vEU."""
        last = self._last[part.begin : part.end]
        known = last >= 0
        moments, where = np.unique(last[known], return_inverse=True)
        amount = self._amount[part.begin : part.end][known]
        self._bytes_at[moments] -= np.bincount(where, weights=amount, minlength=len(moments))
        last[:] = self._now
        self._amount[part.begin : part.end] = part.density
        self._bytes_at[self._now] += part.density * (part.end - part.begin)

    def next(self, time: int) -> None:
        """End the current run of rTasks on this vEU, and begin the next one.

        ``time`` is the position of the ended run in the execution order of the runs of all vEUs.
        """
        self._time[self._now] = time
        self._now += 1
