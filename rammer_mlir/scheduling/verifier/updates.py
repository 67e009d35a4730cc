"""Buffers that rKernels update in place: all conflicts between operators follow the graph's order.

Two rTasks of different operators conflict if they touch one element and one of them may write it.
The earlier operator's rTask must end before the other starts. rTasks of one operator are
unordered, as blocks of one launch are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rammer_mlir.errors import ScheduleError
from rammer_mlir.scheduling.graph import Access, Int64Array, TaskGraph
from rammer_mlir.scheduling.program import Plan
from rammer_mlir.scheduling.verifier.elements import Elements
from rammer_mlir.scheduling.verifier.history import History

_AT_ONCE = 1 << 21


@dataclass(frozen=True)
class _Touch:
    """Elements ``start[i] .. end[i] - 1`` that rTask ``task[i]`` of an operator touches.

    In ascending order of ``start``; ``reach[i]`` is the largest end up to the i-th.
    """

    operator: int
    writes: bool
    start: Int64Array
    end: Int64Array
    task: Int64Array
    reach: Int64Array


def check_updates(graph: TaskGraph, plan: Plan, found: History) -> set[int]:
    """Check the buffers that some operator updates and all ``inout``s; return their numbers.

    Raises:
        ScheduleError: if a conflict is not ordered, elements do not exist, an input or constant is
            updated, nothing of what is read was written, or an output is not written whole.
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
        rows = [(access, False) for access in kernel.reads]
        rows += [(access, True) for access in (*kernel.writes, *kernel.updates)]
        for access, writes in rows:
            view = operator.operands[access.argument]
            if view.buffer in updated:
                touch = _touch(elements, found, number, (access, writes), view.offset)
                touches[view.buffer].append(touch)
    for buffer, uses in touches.items():
        _check_buffer(graph, found, buffer, uses)
    return updated


def _touch(
    elements: Elements, found: History, operator: int, use: tuple[Access, bool], origin: int
) -> _Touch:
    access, writes = use
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
    return _Touch(operator, writes, start[order], end[order], task[order], reach)


def _check_buffer(graph: TaskGraph, found: History, buffer: int, uses: Sequence[_Touch]) -> None:
    kind, name = graph.buffers[buffer].kind, graph.buffers[buffer].name
    for use in uses:
        _check_bounds(graph, found, buffer, use)
        if use.writes and kind in ("input", "constant"):
            raise ScheduleError(
                f"{graph.task_name(use.operator, 0)} updates {kind} '{name}': expected only reads"
            )
    for number, use in enumerate(uses):
        for earlier in uses[:number]:
            if earlier.operator != use.operator and (earlier.writes or use.writes):
                _check_order(graph, found, buffer, earlier, use)
    if kind != "inout":
        _check_written(graph, found, buffer, uses)


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
        a, b = earlier.task[row[meets]], later.task[other[meets]]
        ordered = found.precedes(a, b)
        if not ordered.all():
            at = int(np.argmin(ordered))
            raise ScheduleError(
                f"{found.describe(int(b[at]))} {'writes' if later.writes else 'reads'} what "
                f"{found.describe(int(a[at]))} {'writes' if earlier.writes else 'reads'} in "
                f"'{graph.buffers[buffer].name}', and no barrier orders them: expected the one of "
                "the earlier operator to end before the other starts"
            )
        begin = stop


def _check_written(graph: TaskGraph, found: History, buffer: int, uses: Sequence[_Touch]) -> None:
    """Check that of what an rTask reads, an earlier operator or its own may have written a part.

    Boxes are what is touched at most, so that the rest need not be read at all.
    """
    name, size = graph.buffers[buffer].name, graph.buffers[buffer].num_elements
    for use in uses:
        if use.writes:
            continue
        start, end = _union([u for u in uses if u.writes and u.operator <= use.operator])
        first = np.searchsorted(end, use.start, side="right")
        begins = np.append(start, np.iinfo(np.int64).max)
        meets = begins[first] < use.end
        missing = np.setdiff1d(use.task[use.end > use.start], use.task[meets])
        if len(missing):
            row = int(np.argmax(use.task == missing[0]))
            raise ScheduleError(
                f"{found.describe(int(missing[0]))} reads elements {int(use.start[row])} to "
                f"{int(use.end[row]) - 1} of '{name}', which are never written before: expected "
                "an operator that writes them"
            )
    if graph.buffers[buffer].kind == "output":
        start, end = _union([use for use in uses if use.writes])
        written = int((end - start).sum())
        if written != size:
            raise ScheduleError(
                f"output '{name}': expected {size} elements written, found {written}"
            )


def _union(uses: Sequence[_Touch]) -> tuple[Int64Array, Int64Array]:
    """Return the disjoint, ascending intervals that the uses cover together."""
    empty = np.zeros(0, dtype=np.int64)
    start = np.concatenate([empty, *(use.start for use in uses)])
    end = np.concatenate([empty, *(use.end for use in uses)])
    order = np.argsort(start, kind="stable")
    start, reach = start[order], np.maximum.accumulate(end[order])
    if not len(start):
        return start, reach
    opens = np.concatenate(([True], start[1:] > reach[:-1]))
    closes = np.concatenate((opens[1:], [True]))
    return start[opens], reach[closes]
