"""Changes a graph so that all of its schedules respect a memory limit.

A policy may run any ready operator, so it may keep more values alive than execution in graph order.
This module assigns offsets to intermediates in graph order, and lets a buffer take over the memory
of earlier buffers. The buffer's writer then waits for all uses of the buffers that occupied this
memory earlier (anti-dependencies), so that the offsets hold in any schedule.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from rammer_mlir.errors import ScheduleError
from rammer_mlir.scheduling.graph import TaskGraph
from rammer_mlir.scheduling.memory import aligned
from rammer_mlir.scheduling.packing import pack


class MemoryLimitError(ScheduleError):
    """Raised if the intermediates do not fit into the memory limit.

    ``needed`` is a memory size in bytes into which the intermediates fit.
    """

    def __init__(self, limit: int, needed: int) -> None:
        """Make the error's message from the limit and the needed memory, both in bytes."""
        self.limit, self.needed = limit, needed
        super().__init__(
            f"memory: expected intermediates that fit into {limit} bytes, found {needed} in the "
            "order of the graph; recompute values, cut operators into chunks, or give more"
        )

    def __reduce__(self) -> tuple[type[MemoryLimitError], tuple[int, int]]:
        """Pickle the error by its arguments, since other processes may raise it."""
        return type(self), (self.limit, self.needed)


Span = tuple[int, int]
"""The indices of the first and the last operator that touch a buffer."""


@dataclass(frozen=True)
class _Block:
    """The bytes ``begin`` to ``end - 1`` of memory, and the index of the ``buffer`` in them."""

    buffer: int
    begin: int
    end: int


@dataclass(frozen=True)
class Limited:
    """A graph with anti-dependencies by which intermediates can share memory in any schedule.

    ``offsets`` has the byte offset of each intermediate by the buffer's index.
    """

    graph: TaskGraph
    offsets: Mapping[int, int]


def limited(graph: TaskGraph, limit: int) -> Limited:
    """Add the anti-dependencies to a graph that let its intermediates fit into a memory limit.

    Buffers are placed cyclically in the available memory (next fit), so that an operator waits for
    buffers that were last used long ago.

    Args:
        graph: the graph.
        limit: the maximum size of the intermediates' memory in bytes.

    Returns:
        The changed graph, and the byte offset of each intermediate.

    Raises:
        MemoryLimitError: if the intermediates do not fit even in sequential graph order.
    """
    sizes = {
        number: aligned(buffer.num_bytes)
        for number, buffer in enumerate(graph.buffers)
        if buffer.kind == "intermediate"
    }
    spans = live_spans(graph, sizes)
    sizes = {number: sizes[number] for number in spans}
    offsets = _next_fit(sizes, spans, limit)
    if offsets is None:
        offsets = _packed(sizes, spans)
        needed = max((offsets[number] + size for number, size in sizes.items()), default=0)
        if needed > limit:
            raise MemoryLimitError(limit, needed)
    blocks = [_Block(b, offsets[b], offsets[b] + sizes[b]) for b in sizes]
    after = _predecessors(sorted(blocks, key=lambda block: spans[block.buffer]))
    buffers = tuple(
        replace(buffer, after=after.get(number, ())) for number, buffer in enumerate(graph.buffers)
    )
    return Limited(replace(graph, buffers=buffers), offsets)


def live_spans(graph: TaskGraph, sizes: Mapping[int, int]) -> dict[int, Span]:
    """Return the first and the last operator that touch each buffer in ``sizes``, by buffer."""
    found: dict[int, Span] = {}
    for number, operator in enumerate(graph.operators):
        for view in operator.operands:
            if view.buffer in sizes:
                found[view.buffer] = (found.get(view.buffer, (number, number))[0], number)
    return found


def _next_fit(
    sizes: Mapping[int, int], spans: Mapping[int, Span], limit: int
) -> dict[int, int] | None:
    """Return byte offsets by buffer, assigned by next fit in graph order.

    Return None if a buffer does not fit into ``limit`` bytes. ``sizes`` has the bytes of each
    buffer, ``spans`` the indices of the first and the last operator that use the buffer.
    """
    offsets: dict[int, int] = {}
    position = 0
    live: list[int] = []
    for buffer in sorted(spans, key=lambda b: (spans[b], b)):
        live = [other for other in live if spans[other][1] >= spans[buffer][0]]
        taken = sorted((offsets[other], offsets[other] + sizes[other]) for other in live)
        gaps = _gaps(taken, limit)
        size = sizes[buffer]
        fitting = [
            max(begin, position) if begin <= position <= end - size else begin
            for begin, end in gaps
            if end - begin >= size
        ]
        if not fitting:
            return None
        ahead = [start for start in fitting if start >= position]
        offsets[buffer] = min(ahead or fitting)
        position = offsets[buffer] + size
        live.append(buffer)
    return offsets


def _gaps(taken: list[tuple[int, int]], limit: int) -> list[tuple[int, int]]:
    gaps: list[tuple[int, int]] = []
    position = 0
    for begin, end in taken:
        if begin > position:
            gaps.append((position, begin))
        position = max(position, end)
    if limit > position:
        gaps.append((position, limit))
    return gaps


def _packed(sizes: Mapping[int, int], spans: Mapping[int, Span]) -> dict[int, int]:
    """Return byte offsets by buffer for execution in graph order, by the heuristics of ``pack``.

    ``sizes`` has the bytes of each buffer, ``spans`` the indices of the first and the last operator
    that use the buffer.
    """
    conflicts: dict[int, list[int]] = {number: [] for number in sizes}
    live: list[int] = []
    most = total = 0
    for buffer in sorted(spans, key=lambda b: (spans[b], b)):
        ended = [other for other in live if spans[other][1] < spans[buffer][0]]
        live = [other for other in live if spans[other][1] >= spans[buffer][0]]
        total += sizes[buffer] - sum(sizes[other] for other in ended)
        most = max(most, total)
        for other in live:
            conflicts[buffer].append(other)
            conflicts[other].append(buffer)
        live.append(buffer)
    return pack(sizes, conflicts, most)


def _predecessors(blocks: list[_Block]) -> dict[int, tuple[int, ...]]:
    """Return, for each buffer, the buffers whose memory it takes over, by buffer index.

    A buffer takes over each byte of its memory from the latest earlier buffer that contains this
    byte. ``blocks`` has the interval of memory of each buffer, in the order of the buffers' first
    use.
    """
    resting: list[_Block] = []
    found: dict[int, tuple[int, ...]] = {}
    for block in blocks:
        kept: list[_Block] = []
        before: set[int] = set()
        for other in resting:
            if other.end <= block.begin or block.end <= other.begin:
                kept.append(other)
                continue
            before.add(other.buffer)
            # Keep the parts of the earlier buffer outside the new one: later buffers there must
            # await it.
            if other.begin < block.begin:
                kept.append(_Block(other.buffer, other.begin, block.begin))
            if block.end < other.end:
                kept.append(_Block(other.buffer, block.end, other.end))
        found[block.buffer] = tuple(sorted(before))
        resting = [*kept, block]
    return found
