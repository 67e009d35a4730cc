"""An rProgram under construction: the paper's ``Append`` and ``Wait`` (RAMMER section 3.3).

Both work on many rTasks of one operator at once. Waits that vector clocks show to be implied are
not recorded, so a finished program holds the fewest. ``mark`` and ``reset`` let a policy try a wave
and take it back in time proportional to the wave.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.scheduling.clocks import Clocks
from rammer_mlir.scheduling.costs import rtask_seconds
from rammer_mlir.scheduling.dependencies import Dependencies
from rammer_mlir.scheduling.device import Device
from rammer_mlir.scheduling.graph import Int64Array, TaskGraph
from rammer_mlir.scheduling.program import Barrier, Item, RProgram, Run

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Placed:
    """Where an operator's rTasks were put, and when they end by the cost model (seconds)."""

    veus: Int64Array
    orders: Int64Array
    ends: FloatArray


@dataclass(frozen=True)
class Needs:
    """What an operator's rTasks wait for, by rTask and vEU."""

    steps: Int64Array
    """[num_rtasks, num_veus]: rTasks of each vEU that must be complete."""

    ready: FloatArray
    """[num_rtasks, num_veus]: when the last of them ends; 0 where there is none."""


@dataclass(frozen=True)
class Mark:
    """A state of a builder."""

    items: list[int]
    last: list[Item | None]
    available: FloatArray
    clocks: tuple[list[int], list[int], list[Int64Array]]
    operators: int
    requested: int


@dataclass
class Context:
    """What all rPrograms of one plan share: the graph, the device and the rKernels chosen."""

    graph: TaskGraph
    device: Device
    kernels: list[int] = field(default_factory=list[int])

    def __post_init__(self) -> None:
        """Choose every operator's first rKernel until a policy decides."""
        self.kernels = self.kernels or [0] * len(self.graph.operators)
        self.dependencies = Dependencies(self.graph)


class ProgramBuilder:
    """One rProgram being written for a device."""

    def __init__(self, context: Context) -> None:
        """Begin with empty vEUs; operators placed by other builders count as complete."""
        num_veus = context.device.num_veus
        self._context = context
        self._items: list[list[Item]] = [[] for _ in range(num_veus)]
        self._clocks = Clocks(num_veus)
        self._placed: dict[int, Placed] = {}
        self._available: FloatArray = np.zeros(num_veus)
        self.requested_waits = 0

    @property
    def available(self) -> FloatArray:
        """When each vEU is free again by the cost model, in seconds from the launch."""
        return self._available

    @property
    def is_empty(self) -> bool:
        """Whether nothing was appended."""
        return not self._placed

    def seconds(self) -> float:
        """Return the program's time by the cost model, with its launch; 0 when it is empty."""
        if self.is_empty:
            return 0.0
        return float(self._available.max()) + self._context.device.launch_seconds

    def steps(self) -> Int64Array:
        """Return how many rTasks each vEU holds."""
        return np.array(self._clocks.done, dtype=np.int64)

    def needs(self, operator: int) -> Needs:
        """Return what each rTask of an operator depends on inside this program."""
        context = self._context
        kernel = context.graph.operators[operator].kernels[context.kernels[operator]]
        shape = (kernel.num_rtasks, context.device.num_veus)
        steps = np.zeros(shape, dtype=np.int64)
        ready = np.zeros(shape)
        for edge in context.dependencies.edges(operator, context.kernels):
            placed = self._placed.get(edge.producer)
            if placed is not None:
                rows, columns = edge.pairs.rows, placed.veus[edge.pairs.indices]
                np.maximum.at(steps, (rows, columns), placed.orders[edge.pairs.indices] + 1)
                np.maximum.at(ready, (rows, columns), placed.ends[edge.pairs.indices])
        return Needs(steps, ready)

    def append(self, operator: int, veus: Int64Array, needs: Needs) -> None:
        """Put rTask ``t`` of the operator on vEU ``veus[t]``, behind the barrier that it needs."""
        context = self._context
        kernel = context.graph.operators[operator].kernels[context.kernels[operator]]
        seconds = rtask_seconds(kernel, context.device)
        orders = np.empty(len(veus), dtype=np.int64)
        ends = np.empty(len(veus))
        for rtask, veu in enumerate(veus.tolist()):
            start = self._wait(veu, needs.steps[rtask], needs.ready[rtask])
            orders[rtask] = self._run(veu, operator, rtask)
            ends[rtask] = self._available[veu] = start + seconds
        self._placed[operator] = Placed(veus, orders, ends)

    def _wait(self, veu: int, steps: Int64Array, ready: FloatArray) -> float:
        """Record the barrier that is needed on a vEU; return when its next rTask can start."""
        requested = int(np.count_nonzero(steps)) - int(steps[veu] > 0)
        start = float(self._available[veu])
        if not requested:
            return start
        self.requested_waits += requested
        waits = self._clocks.wait(veu, steps)
        if not waits:
            return start
        items = self._items[veu]
        last = items[-1] if items else None
        if isinstance(last, Barrier):
            items[-1] = Barrier((*last.waits, *waits))
        else:
            items.append(Barrier(waits))
        return max(start, float(ready.max())) + self._context.device.barrier_seconds

    def _run(self, veu: int, operator: int, rtask: int) -> int:
        items = self._items[veu]
        last = items[-1] if items else None
        if isinstance(last, Run) and last.operator == operator and last.first + last.count == rtask:
            items[-1] = Run(operator, last.first, last.count + 1)
        else:
            items.append(Run(operator, rtask, 1))
        order = self._clocks.done[veu]
        self._clocks.done[veu] += 1
        return order

    def mark(self) -> Mark:
        """Return the state, for ``reset``."""
        return Mark(
            [len(items) for items in self._items],
            [items[-1] if items else None for items in self._items],
            self._available.copy(),
            self._clocks.mark(),
            len(self._placed),
            self.requested_waits,
        )

    def reset(self, mark: Mark) -> None:
        """Take back everything since ``mark``."""
        for items, length, last in zip(self._items, mark.items, mark.last, strict=True):
            del items[length:]
            if last is not None:
                items[length - 1] = last
        self._available = mark.available.copy()
        self._clocks.reset(mark.clocks)
        for operator in list(self._placed)[mark.operators :]:
            del self._placed[operator]
        self.requested_waits = mark.requested

    def finish(self) -> RProgram:
        """Return the program in its finished form."""
        veus = tuple(tuple(items) for items in self._items)
        return RProgram(self._context.device.num_veus, veus)


def finish_plan(builders: Sequence[ProgramBuilder]) -> tuple[tuple[RProgram, ...], float, int]:
    """Return the finished programs, the predicted seconds of all, and the waits asked for."""
    return (
        tuple(builder.finish() for builder in builders),
        sum(builder.seconds() for builder in builders),
        sum(builder.requested_waits for builder in builders),
    )
