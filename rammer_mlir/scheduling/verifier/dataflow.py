"""Checks that no element is written twice, or read before it is written.

``updates`` checks buffers that are updated in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rammer_mlir.errors import ScheduleError
from rammer_mlir.scheduling.graph import Access, Int64Array, TaskGraph
from rammer_mlir.scheduling.program import Plan
from rammer_mlir.scheduling.verifier.elements import Elements, Stretches
from rammer_mlir.scheduling.verifier.history import History
from rammer_mlir.scheduling.verifier.updates import check_updates

_AT_ONCE = 1 << 21


@dataclass(frozen=True)
class _Use:
    """An access of an operator to a buffer.

    The accessed argument begins at element ``origin`` of the buffer.
    """

    operator: int
    access: Access
    origin: int


@dataclass(frozen=True)
class _Written:
    """The writers of a buffer: rTask ``task[i]`` writes elements ``start[i] .. end[i] - 1``.

    Intervals are in ascending order and disjoint. ``before[i]`` is the count of elements in
    intervals 0 to i - 1; the last element of ``before`` is the count of all written elements.
    """

    start: Int64Array
    end: Int64Array
    task: Int64Array
    before: Int64Array

    def count_below(self, element: Int64Array) -> Int64Array:
        """Return for each index in ``element`` how many elements of smaller index are written."""
        at = np.searchsorted(self.start, element, side="right") - 1
        inside = np.minimum(element, self.end[at]) - self.start[at]
        return np.where(at < 0, 0, self.before[at] + inside)


def check_dataflow(graph: TaskGraph, plan: Plan, found: History) -> None:
    """Check that no element is written twice, or read before it is written.

    Elements of inputs and constants may not be written; all elements of outputs must be written.
    Buffers that are updated in place are checked by ``check_updates``. ``found`` is the
    happens-before order of the plan's rTasks.

    Raises:
        ScheduleError: if one of these rules is broken, or an access exceeds its buffer.
    """
    writes, reads = _uses(graph, plan)
    checker = _Checker(graph, found)
    updated = check_updates(graph, plan, found)
    for buffer in range(len(graph.buffers)):
        if buffer in updated:
            continue
        checker.check(buffer, writes.get(buffer, []), reads.get(buffer, []))


def _uses(graph: TaskGraph, plan: Plan) -> tuple[dict[int, list[_Use]], dict[int, list[_Use]]]:
    writes: dict[int, list[_Use]] = {}
    reads: dict[int, list[_Use]] = {}
    for number, operator in enumerate(graph.operators):
        kernel = operator.kernels[plan.kernels[number]]
        for accesses, uses in ((kernel.writes, writes), (kernel.reads, reads)):
            for access in accesses:
                view = operator.operands[access.argument]
                uses.setdefault(view.buffer, []).append(_Use(number, access, view.offset))
    return writes, reads


class _Checker:
    def __init__(self, graph: TaskGraph, found: History) -> None:
        self._graph = graph
        self._history = found
        self._elements = Elements()

    def check(self, buffer: int, writes: Sequence[_Use], reads: Sequence[_Use]) -> None:
        kind, name = self._graph.buffers[buffer].kind, self._graph.buffers[buffer].name
        if kind in ("input", "constant"):
            if writes:
                raise ScheduleError(
                    f"{self._graph.task_name(writes[0].operator, 0)} writes {kind} '{name}': "
                    "expected only reads"
                )
            for read in reads:
                self._check_read_bounds(buffer, read)
            return
        if not writes and not reads and kind == "intermediate":
            return
        written = self._written(buffer, writes)
        for read in reads:
            self._check_read_bounds(buffer, read)
            self._check_read(buffer, read, written)
        if kind == "output" and written.before[-1] != self._graph.buffers[buffer].num_elements:
            raise ScheduleError(
                f"output '{name}': expected {self._graph.buffers[buffer].num_elements} elements "
                f"written, found {int(written.before[-1])}"
            )

    def _written(self, buffer: int, writes: Sequence[_Use]) -> _Written:
        empty = np.zeros(0, dtype=np.int64)
        starts, ends, tasks = [empty], [empty], [empty]
        for write in writes:
            stretches = self._elements.of(write.access)
            rtasks = np.arange(len(stretches.box_of_rtask))
            self._check_own_boxes(buffer, write, stretches)
            starts.append(stretches.start + write.origin)
            ends.append(stretches.end + write.origin)
            task = int(self._history.base[write.operator]) + rtasks
            tasks.append(task[stretches.box])
        start, end, task = np.concatenate(starts), np.concatenate(ends), np.concatenate(tasks)
        by_start = np.argsort(start, kind="stable")
        start, end, task = start[by_start], end[by_start], task[by_start]
        self._check_bounds(buffer, start, end, task)
        clash = np.flatnonzero(start[1:] < end[:-1])
        if len(clash):
            self._two_writers(buffer, int(task[clash[0]]), int(task[clash[0] + 1]))
        before = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(end - start)))
        return _Written(start, end, task, before)

    def _check_own_boxes(self, buffer: int, write: _Use, stretches: Stretches) -> None:
        """Check that no two rTasks of an operator write the same non-empty box of an argument.

        Raises:
            ScheduleError: if two rTasks write the same box; the message names both rTasks.
        """
        box = stretches.box_of_rtask
        rtasks = np.flatnonzero(np.isin(box, stretches.box))
        first = rtasks[np.unique(box[rtasks], return_index=True)[1]]
        if len(first) < len(rtasks):
            base = int(self._history.base[write.operator])
            again = int(np.setdiff1d(rtasks, first)[0])
            other = int(np.argmax(box == box[again]))
            self._two_writers(buffer, base + other, base + again)

    def _check_bounds(
        self, buffer: int, start: Int64Array, end: Int64Array, task: Int64Array
    ) -> None:
        size = self._graph.buffers[buffer].num_elements
        outside = np.flatnonzero((start < 0) | (end > size))
        if len(outside):
            at = int(outside[0])
            raise ScheduleError(
                f"{self._history.describe(int(task[at]))} touches elements {int(start[at])} to "
                f"{int(end[at]) - 1} of '{self._graph.buffers[buffer].name}': expected elements "
                f"from 0 to {size - 1}"
            )

    def _check_read_bounds(self, buffer: int, read: _Use) -> None:
        stretches = self._elements.of(read.access)
        box_reader = np.unique(stretches.box_of_rtask, return_index=True)[1]
        task = self._history.tasks(read.operator)[box_reader[stretches.box]]
        self._check_bounds(buffer, stretches.start + read.origin, stretches.end + read.origin, task)

    def _two_writers(self, buffer: int, a: int, b: int) -> None:
        raise ScheduleError(
            f"{self._history.describe(a)} and {self._history.describe(b)} both write the same "
            f"element of '{self._graph.buffers[buffer].name}': expected one writer for each element"
        )

    def _check_read(self, buffer: int, read: _Use, written: _Written) -> None:
        stretches = self._elements.of(read.access)
        start, end = stretches.start + read.origin, stretches.end + read.origin
        reader = self._history.tasks(read.operator)
        holes = (
            np.flatnonzero(written.count_below(end) - written.count_below(start) < end - start)
            if len(written.start)
            else np.flatnonzero(end > start)
        )
        if len(holes):
            at = int(holes[0])
            task = int(reader[np.argmax(stretches.box_of_rtask == stretches.box[at])])
            raise ScheduleError(
                f"{self._history.describe(task)} reads elements {int(start[at])} to "
                f"{int(end[at]) - 1} of '{self._graph.buffers[buffer].name}', of which some are "
                "never written: expected all"
            )
        box, veu, order = self._latest(start, end, stretches.box, stretches.num_boxes, written)
        self._check_order(buffer, reader, stretches.box_of_rtask, (box, veu, order))

    def _latest(
        self, start: Int64Array, end: Int64Array, box: Int64Array, num_boxes: int, written: _Written
    ) -> tuple[Int64Array, Int64Array, Int64Array]:
        """Return, for each box and vEU, the last rTask on that vEU that writes a part of the box.

        The results are three arrays with an element for each such rTask, in ascending order of
        boxes: the box, the vEU, and the order of the rTask on this vEU. There are ``num_boxes``
        boxes, given by their intervals: interval i has the elements ``start[i] .. end[i] - 1`` and
        belongs to box ``box[i]``. ``written`` has the writers of the buffer.
        """
        num_veus = self._history.clocks.shape[1]
        latest = np.full(num_boxes * num_veus, -1, dtype=np.int64)
        first = np.searchsorted(written.end, start, side="right")
        counts = np.searchsorted(written.start, end, side="left") - first
        total = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(counts)))
        begin = 0
        while begin < len(counts):
            fits = int(np.searchsorted(total, total[begin] + _AT_ONCE, side="right")) - 1
            stop = max(begin + 1, fits)
            part = counts[begin:stop]
            within = np.arange(int(part.sum())) - np.repeat(total[begin:stop] - total[begin], part)
            writer = written.task[np.repeat(first[begin:stop], part) + within]
            cell = np.repeat(box[begin:stop], part) * num_veus + self._history.veu[writer]
            np.maximum.at(latest, cell, self._history.order[writer])
            begin = stop
        cells = np.flatnonzero(latest >= 0)
        return cells // num_veus, cells % num_veus, latest[cells]

    def _check_order(
        self,
        buffer: int,
        reader: Int64Array,
        box_of_rtask: Int64Array,
        latest: tuple[Int64Array, Int64Array, Int64Array],
    ) -> None:
        box, veu, order = latest
        first = np.searchsorted(box, box_of_rtask, side="left")
        counts = np.searchsorted(box, box_of_rtask, side="right") - first
        offset = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(counts)))[:-1]
        task = np.repeat(reader, counts)
        row = np.arange(len(task)) + np.repeat(first - offset, counts)
        ordered = self._history.completes(veu[row], order[row], task)
        if not ordered.all():
            at = int(np.argmin(ordered))
            place = (int(veu[row[at]]), int(order[row[at]]))
            raise ScheduleError(
                f"{self._history.describe(int(task[at]))} reads what "
                f"{self._history.describe(self._task_at(*place))} writes in "
                f"'{self._graph.buffers[buffer].name}', and no barrier orders them: expected the "
                "writer to end before the reader starts"
            )

    def _task_at(self, veu: int, order: int) -> int:
        return int(np.flatnonzero((self._history.veu == veu) & (self._history.order == order))[0])
