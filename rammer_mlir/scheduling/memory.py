"""The arena: intermediates share memory when the schedule orders their uses."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rammer_mlir.aligned import ALIGNMENT
from rammer_mlir.scheduling.graph import TaskGraph
from rammer_mlir.scheduling.happens_before import history
from rammer_mlir.scheduling.lifetimes import lifetimes
from rammer_mlir.scheduling.program import Plan


@dataclass(frozen=True)
class MemorySizes:
    """How much memory intermediates take.

    Attributes:
        arena_bytes: size of the arena.
        sum_bytes: what the intermediates would take without sharing.
        live_bytes: the largest set alive at once on the sequential order, a lower bound for it.
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
        ScheduleError: if the plan is not a valid schedule.
    """
    lives = lifetimes(graph, history(graph, plan))
    sizes = {
        number: aligned(buffer.num_bytes)
        for number, buffer in enumerate(graph.buffers)
        if buffer.kind == "intermediate"
    }
    order = sorted(sizes, key=lambda number: (-sizes[number], number))
    placed = np.array([], dtype=np.int64)
    starts = np.array([], dtype=np.int64)
    ends = np.array([], dtype=np.int64)
    offsets: dict[int, int] = {}
    for number in order:
        conflicts = ~lives.disjoint(number)[placed]
        offset = _best_gap(starts[conflicts], ends[conflicts], sizes[number])
        offsets[number] = offset
        placed = np.append(placed, number)
        starts = np.append(starts, offset)
        ends = np.append(ends, offset + sizes[number])
    arena = int(ends.max(initial=0))
    live = _largest_live_set(graph, sizes)
    return MemoryPlan(offsets, MemorySizes(arena, sum(sizes.values()), live))


def aligned(num_bytes: int) -> int:
    """Round a size up to the alignment; an empty buffer still gets an address of its own."""
    return max(-(-num_bytes // ALIGNMENT), 1) * ALIGNMENT


def _best_gap(starts: np.ndarray, ends: np.ndarray, size: int) -> int:
    """Return the start of the smallest gap between intervals that holds ``size`` bytes."""
    order = np.argsort(starts, kind="stable")
    best, best_size = -1, -1
    position = 0
    for start, end in zip(starts[order].tolist(), ends[order].tolist(), strict=True):
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
