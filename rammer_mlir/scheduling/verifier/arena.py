"""Checks that buffers that share bytes of the arena are never in use at the same time."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping

import numpy as np

from rammer_mlir.errors import ScheduleError
from rammer_mlir.scheduling.graph import Int64Array, TaskGraph
from rammer_mlir.scheduling.verifier.history import History


def check_arena(
    graph: TaskGraph, found: History, arena: Mapping[int, int], arena_bytes: int | None
) -> None:
    """Check that buffers lie inside the arena, and that uses of shared bytes are ordered.

    ``arena`` has the byte offset of each intermediate in the arena, by the buffer's index.
    ``arena_bytes`` is the size of the arena; None allows any size. ``found`` is the happens-before
    order of the plan's rTasks.

    Buffers are visited in a possible order of execution. Each buffer is compared only with the
    buffers that last occupied its bytes. Earlier occupants need no comparison, because the
    happens-before order is transitive.

    Raises:
        ScheduleError: naming an rTask of each of two buffers that may be in use at the same time.
    """
    uses = _Uses(graph, found)
    occupied = _Occupied()
    for buffer in sorted((b for b in arena if uses.is_used(b)), key=uses.first_place):
        start = arena[buffer]
        if start < 0:
            raise ScheduleError(
                f"'{graph.buffers[buffer].name}' lies at byte {start} of the arena: expected a "
                "place from 0 on"
            )
        end = start + graph.buffers[buffer].num_bytes
        if arena_bytes is not None and end > arena_bytes:
            raise ScheduleError(
                f"'{graph.buffers[buffer].name}' lies at bytes {start} to {end - 1} of the arena: "
                f"expected bytes from 0 to {arena_bytes - 1}"
            )
        for other in occupied.replace(start, end, buffer):
            if not uses.all_before(other, buffer):
                raise ScheduleError(uses.message(other, buffer))


class _Occupied:
    """The buffer that last occupied each byte of the arena.

    The arena is divided into intervals. Two lists have the first byte of each interval, in
    ascending order, and the index of the buffer that last occupied the interval; -1 for no buffer.
    """

    def __init__(self) -> None:
        self._cuts: list[int] = [0]
        self._holders: list[int] = [-1]

    def replace(self, start: int, end: int, holder: int) -> set[int]:
        """Assign bytes ``start .. end - 1`` to buffer ``holder``.

        Return the buffers that occupied any of these bytes before.
        """
        if start >= end:
            return set()
        self._cut(start)
        self._cut(end)
        begin, stop = bisect_left(self._cuts, start), bisect_left(self._cuts, end)
        before = set(self._holders[begin:stop]) - {-1}
        self._cuts[begin:stop] = [start]
        self._holders[begin:stop] = [holder]
        return before

    def _cut(self, position: int) -> None:
        at = bisect_right(self._cuts, position) - 1
        if self._cuts[at] != position:
            self._cuts.insert(at + 1, position)
            self._holders.insert(at + 1, self._holders[at])


class _Uses:
    """The rTasks that touch each buffer, and the vector clocks at their starts and ends."""

    def __init__(self, graph: TaskGraph, found: History) -> None:
        self._graph = graph
        self._history = found
        self._operators: dict[int, list[int]] = {}
        for number, operator in enumerate(graph.operators):
            for buffer in {view.buffer for view in operator.operands}:
                self._operators.setdefault(buffer, []).append(number)
        self._known: dict[int, Int64Array] = {}
        self._reached: dict[int, Int64Array] = {}

    def is_used(self, buffer: int) -> bool:
        return any(len(self._history.tasks(o)) for o in self._operators.get(buffer, ()))

    def first_place(self, buffer: int) -> int:
        """Return the position of a buffer's first use in a possible order of execution."""
        return int(self._history.place[self._tasks(buffer)].min())

    def all_before(self, a: int, b: int) -> bool:
        """Whether every use of buffer ``a`` ends before any use of buffer ``b`` starts."""
        reached = np.max([self._end(o) for o in self._operators[a]], axis=0)
        known = np.min([self._start(o) for o in self._operators[b]], axis=0)
        return bool((reached <= known).all())

    def _tasks(self, buffer: int) -> Int64Array:
        return np.concatenate([self._history.tasks(o) for o in self._operators[buffer]])

    def _end(self, operator: int) -> Int64Array:
        """Return for each vEU the position after its last rTask of ``operator``.

        The position counts the rTasks of the vEU in all programs. It is 0 for a vEU that runs no
        rTask of ``operator``.
        """
        if operator not in self._reached:
            tasks = self._history.tasks(operator)
            reached = np.zeros(self._history.clocks.shape[1], dtype=np.int64)
            np.maximum.at(reached, self._history.veu[tasks], self._history.order[tasks] + 1)
            self._reached[operator] = reached
        return self._reached[operator]

    def _start(self, operator: int) -> Int64Array:
        """Return for each vEU how many of its rTasks end before any rTask of an operator starts."""
        if operator not in self._known:
            tasks = self._history.tasks(operator)
            known = self._history.clocks[self._history.clock[tasks]].astype(np.int64)
            known[np.arange(len(tasks)), self._history.veu[tasks]] = self._history.order[tasks]
            self._known[operator] = known.min(axis=0, initial=np.iinfo(np.int64).max)
        return self._known[operator]

    def message(self, a: int, b: int) -> str:
        """Return the message that not all uses of buffer ``a`` end before uses of ``b`` start.

        The message names a pair of rTasks that use the two buffers without a barrier between them
        or, if there is no such pair, two rTasks in the wrong order.
        """
        names = [f"'{self._graph.buffers[number].name}'" for number in (a, b)]
        head = f"{names[0]} and {names[1]} share memory in the arena, and"
        tail = f"expected all uses of {names[0]} to end before {names[1]} is used"
        late = None
        for first, second in self._unfinished(a, b):
            pair = f"{self._history.describe(first)} and {self._history.describe(second)}"
            if not self._history.precedes(np.array([second]), np.array([first]))[0]:
                return f"{head} no barrier orders {pair}: {tail}"
            late = late or f"{head} their uses alternate, {pair}: {tail}"
        return late or f"{head} their uses overlap: {tail}"

    def _unfinished(self, a: int, b: int) -> Iterator[tuple[int, int]]:
        """Yield pairs of rTasks of which the first may still run when the second starts.

        The first rTask of a pair touches buffer ``a``, the second buffer ``b``. The second rTask
        may even be ordered before the first.
        """
        users = self._tasks(b)
        for first in self._tasks(a).tolist():
            ordered = self._history.precedes(np.full(len(users), first), users)
            for second in users[~ordered].tolist():
                yield first, second
