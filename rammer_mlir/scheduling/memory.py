"""Places intermediates in one memory block, the arena.

Two intermediates may share memory if the schedule orders all uses of one before all uses of the
other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rammer_mlir.scheduling.graph import Int64Array, TaskGraph
from rammer_mlir.scheduling.lifetimes import Lifetimes, lifetimes
from rammer_mlir.scheduling.packing import pack
from rammer_mlir.scheduling.program import Plan
from rammer_mlir.support.aligned import ALIGNMENT


@dataclass(frozen=True)
class MemorySizes:
    """Sizes of the memory of intermediates, in bytes.

    Attributes:
        arena_bytes: size of the arena.
        sum_bytes: sum of the sizes of all intermediates.
        live_bytes: size of the largest set of intermediates that would be alive at once if
            operators ran sequentially in graph order.
    """

    arena_bytes: int
    sum_bytes: int
    live_bytes: int


@dataclass(frozen=True)
class MemoryPlan:
    """The positions of intermediates in the arena.

    ``offsets`` has the byte offset of each intermediate by the buffer's index.
    """

    offsets: dict[int, int]
    sizes: MemorySizes


def plan_memory(
    graph: TaskGraph, plan: Plan, proposed: Mapping[int, int] | None = None
) -> MemoryPlan:
    """Return the offsets of a graph's intermediates in one arena.

    Two buffers may share memory if, in the plan's happens-before order, every rTask that touches
    the first ends before any rTask that touches the second starts.

    Args:
        graph: the graph of the intermediates.
        plan: a schedule of the graph.
        proposed: alternative byte offsets by buffer index, or None. They are returned if they are
            valid for the plan and need a smaller arena than the offsets found here.

    Raises:
        ScheduleError: if the plan's waits block each other.
    """
    lives = lifetimes(graph, plan)
    sizes = {
        number: aligned(buffer.num_bytes)
        for number, buffer in enumerate(graph.buffers)
        if buffer.kind == "intermediate"
    }
    live = _largest_live_set(graph, sizes)
    conflicts = _conflicts(lives, sizes)
    offsets = pack(sizes, conflicts, live)
    if (
        proposed
        and _fit(proposed, sizes, conflicts)
        and _top(proposed, sizes) < _top(offsets, sizes)
    ):
        offsets = dict(proposed)
    arena = _top(offsets, sizes)
    return MemoryPlan(offsets, MemorySizes(arena, sum(sizes.values()), live))


def _top(offsets: Mapping[int, int], sizes: Mapping[int, int]) -> int:
    return max((offsets[number] + size for number, size in sizes.items()), default=0)


def _fit(
    offsets: Mapping[int, int], sizes: Mapping[int, int], conflicts: Mapping[int, Sequence[int]]
) -> bool:
    """Whether all buffers in ``sizes`` have offsets, and conflicting buffers do not overlap.

    Offsets and sizes are bytes by buffer index.
    """
    return offsets.keys() >= sizes.keys() and all(
        offsets[a] + sizes[a] <= offsets[b] or offsets[b] + sizes[b] <= offsets[a]
        for a, others in conflicts.items()
        for b in others
    )


def aligned(num_bytes: int) -> int:
    """Round a size in bytes up to a multiple of ``ALIGNMENT``.

    A size of 0 becomes ``ALIGNMENT``.
    """
    return max(-(-num_bytes // ALIGNMENT), 1) * ALIGNMENT


def _conflicts(lives: Lifetimes, sizes: Mapping[int, int]) -> dict[int, list[int]]:
    """Return, for each buffer in ``sizes``, the buffers that must not share memory with it.

    ``lives`` has the lifetime of each buffer. The execution order is divided into intervals, and
    only buffers that are live in the same interval are compared. The work thus grows with the
    number of simultaneously live buffers, not with the number of all buffers.
    """
    # Intervals of square root length balance their number against the comparisons in each.
    width = max(1, int(np.sqrt(lives.last.max(initial=0))))
    stretches: dict[int, list[int]] = {}
    found: dict[int, list[int]] = {number: [] for number in sizes}
    for number in sizes:
        horizon, last = int(lives.horizon[number]), int(lives.last[number])
        parts = range(min(horizon, last) // width, last // width + 1)
        near = {other for part in parts for other in stretches.get(part, ())}
        candidates: Int64Array = np.array(sorted(near), dtype=np.int64)
        for other in candidates[~lives.disjoint(number, candidates)].tolist():
            found[number].append(other)
            found[other].append(number)
        for part in parts:
            stretches.setdefault(part, []).append(number)
    return found


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
