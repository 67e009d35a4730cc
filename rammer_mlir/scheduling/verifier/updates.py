"""Checks in-place updates: all conflicts between operators follow the graph's order.

Two rTasks of different operators conflict if they touch the same element and at least one of them
may write it. The rTask of the earlier operator must end before the other rTask starts. rTasks of
the same operator are unordered, like the thread blocks of a GPU's launch: an rTask must not write
elements that another rTask of the operator writes or reads, unless elements are updated in place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.errors import ScheduleError
from rammer_mlir.scheduling.graph import Access, Int64Array, TaskGraph
from rammer_mlir.scheduling.program import Plan
from rammer_mlir.scheduling.verifier.elements import Elements
from rammer_mlir.scheduling.verifier.history import History

_AT_ONCE = 1 << 21
_FAR = np.iinfo(np.int64).max

Intervals = tuple[Int64Array, Int64Array]
"""Intervals of a buffer's elements: an array of first elements, and an array of exclusive ends."""


@dataclass(frozen=True)
class _Touch:
    """The uses of a buffer by an operator: rTask ``task[i]`` touches ``start[i] .. end[i] - 1``.

    The rTasks write these elements if ``writes`` is True, otherwise they read them. If both
    ``writes`` and ``is_update`` are True, the rTasks update the elements in place. Intervals are in
    ascending order of ``start``; ``reach[i]`` is the largest end of intervals 0 to i.
    """

    operator: int
    writes: bool
    is_update: bool
    start: Int64Array
    end: Int64Array
    task: Int64Array
    reach: Int64Array

    def without(self, stretches: NDArray[np.bool_]) -> _Touch:
        """Return a copy without the intervals i for which ``stretches[i]`` is True."""
        left = ~stretches
        start, end, task = self.start[left], self.end[left], self.task[left]
        reach = np.maximum.accumulate(end)
        return _Touch(self.operator, self.writes, self.is_update, start, end, task, reach)


@dataclass(frozen=True)
class _Group:
    """All uses of a buffer by an operator.

    All used elements are in the range ``low .. high - 1``. ``written`` has the disjoint intervals
    of elements that the operator may write.
    """

    uses: Sequence[_Touch]
    low: int
    high: int
    written: Intervals

    @staticmethod
    def of(uses: Sequence[_Touch]) -> _Group:
        low = min(int(use.start.min(initial=_FAR)) for use in uses)
        high = max(int(use.end.max(initial=0)) for use in uses)
        empty = np.zeros(0, dtype=np.int64)
        written = _union((empty, empty), *((u.start, u.end) for u in uses if u.writes))
        return _Group(uses, low, high, written)

    def held(self, use: _Touch) -> NDArray[np.bool_]:
        """Return for each interval of ``use`` whether this group's operator may write all of it.

        Such an interval needs no comparison with uses by operators before this group's operator.
        """
        start, end = self.written
        if not len(start):
            return np.zeros(len(use.start), dtype=bool)
        at = np.searchsorted(start, use.start, side="right") - 1
        return (at >= 0) & (use.end <= end[at])


def check_updates(graph: TaskGraph, plan: Plan, found: History) -> set[int]:
    """Check all buffers that are ``inout`` or that operators update in place; return their indices.

    ``found`` is the happens-before order of the plan's rTasks.

    Raises:
        ScheduleError: if a conflict is not ordered, a box exceeds its buffer, an input or constant
            is updated, an rTask reads only unwritten elements, or an output is not written
            completely.
    """
    chosen = [o.kernels[k] for o, k in zip(graph.operators, plan.kernels, strict=True)]
    updated = {
        operator.operands[update.argument].buffer
        for operator, kernel in zip(graph.operators, chosen, strict=True)
        for update in kernel.updates
    } | graph.inouts
    if not updated:
        return updated
    elements = Elements()
    touches: dict[int, list[_Touch]] = {buffer: [] for buffer in sorted(updated)}
    for number, (operator, kernel) in enumerate(zip(graph.operators, chosen, strict=True)):
        rows = [(access, False, False) for access in kernel.reads]
        rows += [(access, True, False) for access in kernel.writes]
        rows += [(access, True, True) for access in kernel.updates]
        for use in rows:
            view = operator.operands[use[0].argument]
            if view.buffer in updated:
                touch = _touch(elements, found, number, use, view.offset)
                touches[view.buffer].append(touch)
    for buffer, uses in touches.items():
        _check_buffer(graph, found, buffer, uses)
    return updated


_Use = tuple[Access, bool, bool]
"""An access, whether it writes, and whether it updates in place."""


def _touch(elements: Elements, found: History, operator: int, use: _Use, origin: int) -> _Touch:
    access, writes, is_update = use
    stretches = elements.of(access)
    tasks = found.tasks(operator)
    by_box = np.argsort(stretches.box_of_rtask, kind="stable")
    boxes = stretches.box_of_rtask[by_box]
    first = np.searchsorted(boxes, stretches.box, side="left")
    counts = np.searchsorted(boxes, stretches.box, side="right") - first
    within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    task = tasks[by_box[np.repeat(first, counts) + within]]
    start = np.repeat(stretches.start, counts) + origin
    end = np.repeat(stretches.end, counts) + origin
    order = np.argsort(start, kind="stable")
    reach = np.maximum.accumulate(end[order])
    return _Touch(operator, writes, is_update, start[order], end[order], task[order], reach)


def _check_buffer(graph: TaskGraph, found: History, buffer: int, uses: Sequence[_Touch]) -> None:
    kind, name = graph.buffers[buffer].kind, graph.buffers[buffer].name
    for use in uses:
        _check_bounds(graph, found, buffer, use)
        if use.writes and kind in ("input", "constant"):
            raise ScheduleError(
                f"{graph.task_name(use.operator, 0)} updates {kind} '{name}': expected only reads"
            )
    groups = [_Group.of(list(some)) for _, some in groupby(uses, key=lambda use: use.operator)]
    lows = np.array([group.low for group in groups], dtype=np.int64)
    highs = np.array([group.high for group in groups], dtype=np.int64)
    writing = np.array([any(use.writes for use in group.uses) for group in groups], dtype=bool)
    for number, group in enumerate(groups):
        near = (lows[:number] < group.high) & (highs[:number] > group.low)
        _check_within(graph, found, buffer, group)
        for use in group.uses:
            # Two reads never conflict.
            numbers = np.flatnonzero(near if use.writes else near & writing[:number])
            earlier = (groups[n] for n in numbers[::-1])
            _check_against(graph, found, buffer, use, earlier)
    if kind != "inout":
        _check_written(graph, found, buffer, groups)


def _check_within(graph: TaskGraph, found: History, buffer: int, group: _Group) -> None:
    """Check that no rTask of an operator writes elements that its other rTasks read or write.

    In-place updates may overlap with other updates and with reads, because the rKernel orders these
    accesses, for example by atomic operations.

    Raises:
        ScheduleError: naming two rTasks that write, or write and read, the same element.
    """
    for number, use in enumerate(group.uses):
        others = [o for n, o in enumerate(group.uses) if n <= number or o.is_update or not o.writes]
        for other in others if use.writes and not use.is_update else []:
            for a, b in _meetings(other, use):
                apart = a != b
                if apart.any():
                    at = int(np.argmax(apart))
                    raise ScheduleError(
                        f"{found.describe(int(b[at]))} writes what {found.describe(int(a[at]))} "
                        f"{'writes' if other.writes else 'reads'} in "
                        f"'{graph.buffers[buffer].name}': expected rTasks of one operator to write "
                        "different elements, which no other one of them reads"
                    )


def _check_against(
    graph: TaskGraph, found: History, buffer: int, use: _Touch, earlier: Iterable[_Group]
) -> None:
    """Check that ``use`` of a buffer is ordered after conflicting uses by earlier operators.

    ``earlier`` has the uses of each earlier operator, the latest operator first. If an earlier
    operator (the writer) may write all of an interval of ``use``, the interval is not compared with
    uses before the writer, because another call of this function checks that those uses end before
    the writer.

    Raises:
        ScheduleError: naming two rTasks that are not ordered.
    """
    for group in earlier:
        for other in group.uses:
            if other.writes or use.writes:
                _check_order(graph, found, buffer, other, use)
        use = use.without(group.held(use))
        if not len(use.start):
            break


def _check_bounds(graph: TaskGraph, found: History, buffer: int, use: _Touch) -> None:
    size = graph.buffers[buffer].num_elements
    outside = np.flatnonzero((use.start < 0) | (use.end > size))
    if len(outside):
        at = int(outside[0])
        raise ScheduleError(
            f"{found.describe(int(use.task[at]))} touches elements {int(use.start[at])} to "
            f"{int(use.end[at]) - 1} of '{graph.buffers[buffer].name}': expected elements from 0 "
            f"to {size - 1}"
        )


def _check_order(
    graph: TaskGraph, found: History, buffer: int, earlier: _Touch, later: _Touch
) -> None:
    for a, b in _meetings(earlier, later):
        ordered = found.precedes(a, b)
        if not ordered.all():
            at = int(np.argmin(ordered))
            raise ScheduleError(
                f"{found.describe(int(b[at]))} {'writes' if later.writes else 'reads'} what "
                f"{found.describe(int(a[at]))} {'writes' if earlier.writes else 'reads'} in "
                f"'{graph.buffers[buffer].name}', and no barrier orders them: expected the one of "
                "the earlier operator to end before the other starts"
            )


def _meetings(earlier: _Touch, later: _Touch) -> Iterator[tuple[Int64Array, Int64Array]]:
    """Yield the rTasks of all pairs of intervals that have a common element.

    The two arrays of a yielded pair have the rTasks of ``earlier``'s and of ``later``'s intervals.
    """
    first = np.searchsorted(earlier.reach, later.start, side="right")
    counts = np.maximum(np.searchsorted(earlier.start, later.end, side="left") - first, 0)
    total = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(counts)))
    begin = 0
    while begin < len(counts):
        fits = int(np.searchsorted(total, total[begin] + _AT_ONCE, side="right")) - 1
        stop = max(begin + 1, fits)
        part = counts[begin:stop]
        within = np.arange(int(part.sum())) - np.repeat(total[begin:stop] - total[begin], part)
        row = np.repeat(first[begin:stop], part) + within
        other = np.repeat(np.arange(begin, stop), part)
        meets = earlier.end[row] > later.start[other]
        yield earlier.task[row[meets]], later.task[other[meets]]
        begin = stop


def _check_written(graph: TaskGraph, found: History, buffer: int, groups: Sequence[_Group]) -> None:
    """Check that each box that is read has a written element, and that an output is complete.

    For a box, one element that was written before the read is enough, because the box is an upper
    bound on the elements that are really read. The writer is an earlier operator, or the reading
    operator itself. An output is complete if all of its elements are written.

    Raises:
        ScheduleError: if no element of a box that is read is written, or an output is not written
            completely.
    """
    name, size = graph.buffers[buffer].name, graph.buffers[buffer].num_elements
    written = (np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
    for group in groups:
        if len(group.written[0]):
            written = _union(written, group.written)
        for use in group.uses:
            if not use.writes:
                _check_read(found, name, use, written)
    if graph.buffers[buffer].kind == "output":
        start, end = written
        count = int((end - start).sum())
        if count != size:
            raise ScheduleError(
                f"output '{name}': expected {size} elements written, found {count}; the schedule "
                "leaves rTasks out"
            )


def _check_read(found: History, name: str, use: _Touch, written: Intervals) -> None:
    start, end = written
    first = np.searchsorted(end, use.start, side="right")
    meets = np.append(start, _FAR)[first] < use.end
    missing = np.setdiff1d(use.task[use.end > use.start], use.task[meets])
    if len(missing):
        row = int(np.argmax(use.task == missing[0]))
        raise ScheduleError(
            f"{found.describe(int(missing[0]))} reads elements {int(use.start[row])} to "
            f"{int(use.end[row]) - 1} of '{name}', which are never written before: expected "
            "an operator that writes them"
        )


def _union(*sets: Intervals) -> Intervals:
    """Return the union of several sets of intervals as disjoint, ascending intervals.

    The argument and the result are pairs of arrays: first elements, and exclusive ends.
    """
    start = np.concatenate([start for start, _ in sets])
    end = np.concatenate([end for _, end in sets])
    order = np.argsort(start, kind="stable")
    start, reach = start[order], np.maximum.accumulate(end[order])
    if not len(start):
        return start, reach
    opens = np.concatenate(([True], start[1:] > reach[:-1]))
    closes = np.concatenate((opens[1:], [True]))
    return start[opens], reach[closes]
