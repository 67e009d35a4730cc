"""Proof that a plan is a correct schedule, whoever made it.

A plan is correct when every rTask runs exactly once, no wait can block forever, every element is
written once and before it is read, and buffers that share memory are never in use at the same time.
Only the graph and the finished plan are looked at: happens-before comes from executing the barriers
(``happens_before``), and what an rTask touches from walking its boxes, not from the arithmetic on
digits that the scheduler uses.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.errors import ScheduleError
from rammer_mlir.scheduling.footprints import Footprints
from rammer_mlir.scheduling.graph import Access, RKernel, TaskGraph
from rammer_mlir.scheduling.happens_before import History, history
from rammer_mlir.scheduling.lifetimes import lifetimes
from rammer_mlir.scheduling.program import Plan


def verify(graph: TaskGraph, plan: Plan, arena: Mapping[int, int] | None = None) -> None:
    """Check a plan.

    Args:
        graph: the rOperators and what their rTasks touch.
        plan: the schedule and the rKernels chosen.
        arena: byte offset of each intermediate buffer that lies in the arena; None before memory
            is planned, when every buffer has memory of its own.

    Raises:
        ScheduleError: naming the rTasks of the first rule that is broken.
    """
    found = history(graph, plan)
    _Checker(graph, plan, found).check()
    if arena is not None:
        _check_arena(graph, found, arena)


@dataclass(frozen=True)
class _Use:
    """One operator's access to a buffer."""

    operator: int
    access: Access
    origin: int


class _Checker:
    def __init__(self, graph: TaskGraph, plan: Plan, found: History) -> None:
        self._graph = graph
        self._history = found
        self._footprints = Footprints()
        self._writes: dict[int, list[_Use]] = {}
        self._reads: dict[int, list[_Use]] = {}
        for number, operator in enumerate(graph.operators):
            kernel = operator.kernels[plan.kernels[number]]
            self._collect(number, kernel)

    def _collect(self, number: int, kernel: RKernel) -> None:
        operands = self._graph.operators[number].operands
        for accesses, uses in ((kernel.writes, self._writes), (kernel.reads, self._reads)):
            for access in accesses:
                view = operands[access.argument]
                uses.setdefault(view.buffer, []).append(_Use(number, access, view.offset))

    def check(self) -> None:
        for buffer in range(len(self._graph.buffers)):
            writes, reads = self._writes.get(buffer, []), self._reads.get(buffer, [])
            kind = self._graph.buffers[buffer].kind
            if kind in ("input", "constant"):
                if writes:
                    raise ScheduleError(
                        f"{self._graph.task_name(writes[0].operator, 0)} writes {kind} "
                        f"'{self._graph.buffers[buffer].name}': expected only reads"
                    )
                continue
            self._check_written_once(buffer, writes)
            for read in reads:
                self._check_read(buffer, read, writes)
            if kind == "output":
                self._check_complete(buffer, writes)

    def _check_written_once(self, buffer: int, writes: list[_Use]) -> None:
        for index, write in enumerate(writes):
            clash = self._footprints.self_overlap(write.access)
            if clash is not None:
                self._fail_pair(buffer, write, clash[0], write, clash[1], "both write")
            for other in writes[:index]:
                pairs = self._footprints.overlap(
                    write.access, write.origin, other.access, other.origin
                )
                if len(pairs[0]):
                    a, b = int(pairs[0][0]), int(pairs[1][0])
                    self._fail_pair(buffer, write, a, other, b, "both write")

    def _check_read(self, buffer: int, read: _Use, writes: list[_Use]) -> None:
        covered = np.zeros(len(read.access.boxes.offsets), dtype=np.int64)
        for write in writes:
            readers, writers, counts = self._footprints.overlap(
                read.access, read.origin, write.access, write.origin
            )
            np.add.at(covered, readers, counts)
            self._check_order(buffer, read, write, readers, writers)
        wanted = np.prod(read.access.boxes.sizes, axis=1)
        if (covered < wanted).any():
            rtask = int(np.argmax(covered < wanted))
            raise ScheduleError(
                f"{self._task(read.operator, rtask)} reads {int(wanted[rtask])} elements of "
                f"'{self._graph.buffers[buffer].name}', of which only {int(covered[rtask])} are "
                "ever written: expected all"
            )

    def _check_order(
        self,
        buffer: int,
        read: _Use,
        write: _Use,
        readers: NDArray[np.int64],
        writers: NDArray[np.int64],
    ) -> None:
        tasks = self._history.tasks
        ordered = self._history.precedes(
            tasks[write.operator], writers, tasks[read.operator], readers
        )
        if not ordered.all():
            at = int(np.argmin(ordered))
            reader, writer = int(readers[at]), int(writers[at])
            raise ScheduleError(
                f"{self._task(read.operator, reader)} reads what "
                f"{self._task(write.operator, writer)} writes in "
                f"'{self._graph.buffers[buffer].name}', and no barrier orders them: expected the "
                "writer to end before the reader starts"
            )

    def _check_complete(self, buffer: int, writes: list[_Use]) -> None:
        total = sum(int(np.prod(w.access.boxes.sizes, axis=1).sum()) for w in writes)
        expected = self._graph.buffers[buffer].num_elements
        if total != expected:
            raise ScheduleError(
                f"output '{self._graph.buffers[buffer].name}': expected {expected} elements "
                f"written, found {total}"
            )

    def _task(self, operator: int, rtask: int) -> str:
        return self._history.describe(self._graph, operator, rtask)

    def _fail_pair(self, buffer: int, a: _Use, i: int, b: _Use, j: int, what: str) -> None:
        raise ScheduleError(
            f"{self._task(a.operator, i)} and {self._task(b.operator, j)} {what} the same element "
            f"of '{self._graph.buffers[buffer].name}': expected one writer for each element"
        )


def _check_arena(graph: TaskGraph, found: History, arena: Mapping[int, int]) -> None:
    lives = lifetimes(graph, found)
    numbers = np.array(sorted(arena, key=lambda number: arena[number]), dtype=np.int64)
    starts = np.array([arena[number] for number in numbers.tolist()], dtype=np.int64)
    ends = starts + [graph.buffers[number].num_bytes for number in numbers.tolist()]
    for index, number in enumerate(numbers.tolist()):
        shared = (starts < ends[index]) & (ends > starts[index])
        shared[index] = False
        bad = shared & ~lives.disjoint(number)[numbers]
        if bad.any():
            other = int(numbers[int(np.argmax(bad))])
            raise ScheduleError(_sharing_message(graph, found, number, other))


def _sharing_message(graph: TaskGraph, found: History, a: int, b: int) -> str:
    """Name two rTasks, one of each buffer, that no barrier orders."""
    first, second = _users(graph, a), _users(graph, b)
    names = f"'{graph.buffers[a].name}' and '{graph.buffers[b].name}' share memory in the arena"
    for p in first:
        for q in second:
            i, j = np.indices((len(found.tasks[p].veu), len(found.tasks[q].veu))).reshape(2, -1)
            forward = found.precedes(found.tasks[p], i, found.tasks[q], j)
            backward = found.precedes(found.tasks[q], j, found.tasks[p], i)
            loose = ~forward & ~backward
            if loose.any():
                at = int(np.argmax(loose))
                return (
                    f"{names}, and no barrier orders {found.describe(graph, p, int(i[at]))} and "
                    f"{found.describe(graph, q, int(j[at]))}: expected all uses of one to end "
                    "before the other's start"
                )
    p, q = first[0], second[0]
    return (
        f"{names}, and their uses alternate ({found.describe(graph, p, 0)}, "
        f"{found.describe(graph, q, 0)}): expected all uses of one to end before the other's start"
    )


def _users(graph: TaskGraph, buffer: int) -> list[int]:
    return [
        number
        for number, operator in enumerate(graph.operators)
        if any(view.buffer == buffer for view in operator.operands)
    ]
