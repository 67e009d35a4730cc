"""The arena: intermediates share memory when the schedule orders their uses."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rammer_mlir.aligned import ALIGNMENT
from rammer_mlir.scheduling.graph import Int64Array, TaskGraph
from rammer_mlir.scheduling.lifetimes import Lifetimes, lifetimes
from rammer_mlir.scheduling.program import Plan


@dataclass(frozen=True)
class MemorySizes:
    """How much memory intermediates take.

    Attributes:
        arena_bytes: size of the arena.
        sum_bytes: what the intermediates would take without sharing.
        live_bytes: the largest set alive at once if operators ran one after the other in the
            graph's order.
    """

    arena_bytes: int
    sum_bytes: int
    live_bytes: int


@dataclass(frozen=True)
class MemoryPlan:
    """Where each intermediate lies: byte offsets in the arena by buffer number."""

    offsets: dict[int, int]
    sizes: MemorySizes


def plan_memory(graph: TaskGraph, plan: Plan) -> MemoryPlan:
    """Place the intermediates of a graph, largest first, each in the smallest gap that fits.

    Two buffers may share memory if, in the plan's happens-before order, every rTask that touches
    one ends before any rTask that touches the other starts.

    Raises:
        ScheduleError: if the plan's waits block each other.
    """
    lives = lifetimes(graph, plan)
    sizes = {
        number: aligned(buffer.num_bytes)
        for number, buffer in enumerate(graph.buffers)
        if buffer.kind == "intermediate"
    }
    placed = _Placed(lives)
    offsets: dict[int, int] = {}
    arena = 0
    for number in sorted(sizes, key=lambda number: (-sizes[number], number)):
        conflicts = placed.in_conflict(number)
        taken = [(offsets[other], offsets[other] + sizes[other]) for other in conflicts]
        offsets[number] = _best_gap(sorted(taken), sizes[number])
        placed.add(number)
        arena = max(arena, offsets[number] + sizes[number])
    live = _largest_live_set(graph, sizes)
    return MemoryPlan(offsets, MemorySizes(arena, sum(sizes.values()), live))


def aligned(num_bytes: int) -> int:
    """Round a size up to the alignment; an empty buffer still gets an address of its own."""
    return max(-(-num_bytes // ALIGNMENT), 1) * ALIGNMENT


class _Placed:
    """The buffers placed so far, by the stretches of the execution in which they may be in use.

    Only buffers with a stretch in common are compared in full: work grows with the number of
    buffers in use at the same time, not with the number of all buffers.
    """

    def __init__(self, lives: Lifetimes) -> None:
        self._lives = lives
        self._width = max(1, int(np.sqrt(lives.last.max(initial=0))))
        self._stretches: dict[int, list[int]] = {}

    def in_conflict(self, number: int) -> list[int]:
        """Return the buffers that must not share memory with this one."""
        near = {other for part in self._parts(number) for other in self._stretches.get(part, ())}
        candidates: Int64Array = np.array(sorted(near), dtype=np.int64)
        return candidates[~self._lives.disjoint(number, candidates)].tolist()

    def add(self, number: int) -> None:
        for part in self._parts(number):
            self._stretches.setdefault(part, []).append(number)

    def _parts(self, number: int) -> range:
        horizon, last = int(self._lives.horizon[number]), int(self._lives.last[number])
        return range(min(horizon, last) // self._width, last // self._width + 1)


def _best_gap(taken: list[tuple[int, int]], size: int) -> int:
    """Return the start of the smallest gap between sorted intervals that holds ``size`` bytes."""
    best, best_size = -1, -1
    position = 0
    for start, end in taken:
        gap = start - position
        if gap >= size and (best < 0 or gap < best_size):
            best, best_size = position, gap
        position = max(position, end)
    return position if best < 0 else best


def _largest_live_set(graph: TaskGraph, sizes: dict[int, int]) -> int:
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for number, operator in enumerate(graph.operators):
        for view in operator.operands:
            if view.buffer in sizes:
                first.setdefault(view.buffer, number)
                last[view.buffer] = number
    change = np.zeros(len(graph.operators) + 1, dtype=np.int64)
    for buffer, begin in first.items():
        change[begin] += sizes[buffer]
        change[last[buffer] + 1] -= sizes[buffer]
    return int(np.cumsum(change).max(initial=0))
