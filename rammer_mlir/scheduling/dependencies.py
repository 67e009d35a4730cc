"""Finds the dependencies between rTasks, that is, the rTasks that each rTask waits for.

An rTask waits for:

- the rTasks that write the elements that it reads;
- if it accesses a buffer that rKernels update in place, the latest earlier operators that read or
  write the same elements;
- if it writes a buffer that takes over the memory of other buffers, the earlier operators that
  touch these other buffers.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from rammer_mlir.scheduling.graph import Access, RKernel, ROperator, TaskGraph
from rammer_mlir.scheduling.overlap import TaskPairs, overlap, radix_basis, span
from rammer_mlir.scheduling.updated_buffers import Interval, UpdatedBuffer, filled

_KEPT_INDICES = 1 << 24
"""Number of rTask ids in the memoized dependencies above which all are dropped (128 MiB)."""


@dataclass(frozen=True)
class Edge:
    """The dependencies of an operator's rTasks on the rTasks of one earlier operator.

    ``producer`` is the index of the earlier operator. ``pairs`` has, for each rTask of the
    dependent operator, the rTasks of the producer to wait for.
    """

    producer: int
    pairs: TaskPairs


@dataclass(frozen=True)
class _Writers:
    """The operands that write a buffer, sorted by the first element that each of them writes.

    Operand i is given by ``operands[i]``, the index of its operator and the index of its argument.
    ``low[i]`` is the first element that operand i writes. ``reach[i]`` is the last element that any
    of the operands 0 to i writes, so that the writers of a range of the buffer can be found by
    bisection.
    """

    low: Sequence[int]
    reach: Sequence[int]
    operands: Sequence[tuple[int, int]]
    """The index of the operator and the index of its argument, for each operand."""

    def touching(self, low: int, high: int) -> Sequence[tuple[int, int]]:
        return self.operands[bisect_left(self.reach, low) : bisect_right(self.low, high)]


_NOBODY = _Writers((), (), ())


class Dependencies:
    """The dependencies between the rTasks of a graph, for any choice of rKernels.

    Dependencies are memoized: operators with equal boxes share the computation.
    """

    def __init__(self, graph: TaskGraph) -> None:
        """Index the operators of a graph by the buffers that they write."""
        self._graph = graph
        self._hulls: dict[Access, tuple[int, int]] = {}
        self._pairs: dict[tuple[Access, Access, int, int], TaskPairs] = {}
        self._kept = 0
        self._units: dict[tuple[Access, Access], int] = {}
        self._updated = {
            operator.operands[update.argument].buffer
            for operator in graph.operators
            for kernel in operator.kernels
            for update in kernel.updates
        } | graph.inouts
        self._filled: dict[Access, Interval | None] = {}
        self._uses = {
            buffer: UpdatedBuffer(graph.buffers[buffer].num_elements) for buffer in self._updated
        }
        self._writers = self._index_uses()
        self._users = self._index_users()

    def _index_uses(self) -> dict[int, _Writers]:
        found: dict[int, list[tuple[int, int, int, int]]] = {}
        for number, operator in enumerate(self._graph.operators):
            written = {
                write.argument
                for kernel in operator.kernels
                for write in (*kernel.writes, *kernel.updates)
            }
            for argument, (low, high) in self._touched(number).items():
                view = operator.operands[argument]
                low, high = view.offset + low, view.offset + high
                if view.buffer in self._updated:
                    use = self._uses[view.buffer]
                    use.add(number, argument, (low, high), writes=argument in written)
                else:
                    found.setdefault(view.buffer, []).append((low, high, number, argument))
        return {buffer: _writers(sorted(rows)) for buffer, rows in found.items()}

    def _index_users(self) -> dict[int, list[int]]:
        """Return the operators that touch each buffer whose memory another buffer takes over.

        The keys are the indices of buffers, the values the indices of operators, ascending.
        """
        found: dict[int, list[int]] = {
            before: [] for buffer in self._graph.buffers for before in buffer.after
        }
        for number, operator in enumerate(self._graph.operators if found else ()):
            for buffer in {view.buffer for view in operator.operands} & found.keys():
                found[buffer].append(number)
        return found

    def _touched(self, number: int) -> dict[int, tuple[int, int]]:
        """Return the range of elements that operator ``number`` writes in each written argument.

        The keys are the indices of arguments. A range is the first and the last element that any of
        the operator's rKernels writes, counted from the argument's start. For buffers that are
        updated in place, reads count like writes, because a later update has to wait for them.
        """
        hulls: dict[int, tuple[int, int]] = {}
        operator = self._graph.operators[number]
        for kernel in operator.kernels:
            for write in (*kernel.writes, *kernel.updates, *self._reads_updated(operator, kernel)):
                low, high = self._hull(write)
                before = hulls.get(write.argument, (low, high))
                hulls[write.argument] = min(low, before[0]), max(high, before[1])
        return hulls

    def _reads_updated(self, operator: ROperator, kernel: RKernel) -> list[Access]:
        """Return an rKernel's reads of buffers that some rKernel updates in place."""
        return [
            read for read in kernel.reads
            if operator.operands[read.argument].buffer in self._updated
        ]  # fmt: skip

    def producers(self, consumer: int) -> list[int]:
        """Return the indices of the operators that ``consumer`` depends on, without duplicates."""
        edges = self.edges(consumer, [0] * (consumer + 1))
        return list(dict.fromkeys(edge.producer for edge in edges))

    def edges(self, consumer: int, kernels: Sequence[int]) -> Iterator[Edge]:
        """Yield the dependencies of operator ``consumer``; operator o has rKernel ``kernels[o]``.

        The graph's order is topological, so only earlier operators can be producers.
        """
        operator = self._graph.operators[consumer]
        kernel = operator.kernels[kernels[consumer]]
        for read in kernel.reads:
            yield from self._edges_of(consumer, read, kernels, after_reads=False)
        for write in (*kernel.writes, *kernel.updates):
            if operator.operands[write.argument].buffer in self._updated:
                yield from self._edges_of(consumer, write, kernels, after_reads=True)
        if self._users:
            yield from self._edges_of_memory(consumer, kernels)

    def _edges_of_memory(self, consumer: int, kernels: Sequence[int]) -> Iterator[Edge]:
        """Yield the dependencies of operator ``consumer`` that exist only because memory is reused.

        If the consumer writes a buffer that takes over the memory of earlier buffers
        (``Buffer.after``), all rTasks of the consumer wait for all rTasks of the earlier operators
        that touch those buffers. A writer of an earlier buffer is left out if a later operator
        that reads the whole buffer waits for the writer. Operator o has rKernel ``kernels[o]``.
        """
        operator = self._graph.operators[consumer]
        kernel = operator.kernels[kernels[consumer]]
        only_read = {read.argument for read in kernel.reads} - {
            write.argument for write in (*kernel.writes, *kernel.updates)
        }
        earlier = {
            user
            for argument, view in enumerate(operator.operands)
            if argument not in only_read
            for before in self._graph.buffers[view.buffer].after
            for user in self._last_users(before, consumer, kernels)
        }
        for producer in sorted(earlier):
            chosen = self._graph.operators[producer].kernels[kernels[producer]]
            yield Edge(producer, _all_pairs(kernel.num_rtasks, chosen.num_rtasks))

    def _last_users(self, buffer: int, consumer: int, kernels: Sequence[int]) -> Iterator[int]:
        """Yield the operators that touch a buffer and that ``consumer`` has to wait for.

        All are before ``consumer`` in graph order. An operator that only writes is left out if a
        later operator before ``consumer`` reads the whole buffer, because that reader waits for the
        writer. Operator o has rKernel ``kernels[o]``.
        """
        users = [user for user in self._users[buffer] if user < consumer]
        readers = [user for user in users if self._reads_whole(user, buffer, kernels)]
        for user in users:
            kernel = self._graph.operators[user].kernels[kernels[user]]
            reads = {self._graph.operators[user].operands[r.argument].buffer for r in kernel.reads}
            if buffer in reads or not any(user < reader for reader in readers):
                yield user

    def _reads_whole(self, number: int, buffer: int, kernels: Sequence[int]) -> bool:
        operator = self._graph.operators[number]
        size = self._graph.buffers[buffer].num_elements
        for read in operator.kernels[kernels[number]].reads:
            view = operator.operands[read.argument]
            if view.buffer == buffer and buffer not in self._updated and view.offset == 0:
                if read not in self._filled:
                    self._filled[read] = filled(read.boxes)
                if self._filled[read] == (0, size - 1):
                    return True
        return False

    def _edges_of(
        self, consumer: int, access: Access, kernels: Sequence[int], *, after_reads: bool
    ) -> Iterator[Edge]:
        """Yield the dependencies of an access of ``consumer`` on earlier writes of its elements.

        With ``after_reads``, also yield the dependencies on earlier reads, if the accessed buffer
        is updated in place. Operator o has rKernel ``kernels[o]``.
        """
        view = self._graph.operators[consumer].operands[access.argument]
        low, high = self._hull(access)
        part = (view.offset + low, view.offset + high)
        earlier_uses = self._earlier(consumer, view.buffer, part, kernels, after_reads=after_reads)
        for producer, argument in earlier_uses:
            source = self._graph.operators[producer]
            start = source.operands[argument].offset
            kernel = source.kernels[kernels[producer]]
            reads = kernel.reads if after_reads else ()
            for earlier in (*kernel.writes, *kernel.updates, *reads):
                if earlier.argument == argument:
                    pairs = self._overlap(access, earlier, view.offset, start)
                    if len(pairs.indices):
                        yield Edge(producer, pairs)

    def _earlier(
        self,
        consumer: int,
        buffer: int,
        part: Interval,
        kernels: Sequence[int],
        *,
        after_reads: bool,
    ) -> Iterator[tuple[int, int]]:
        """Yield the operators before ``consumer`` that write a part of a buffer.

        Each result is a pair: the index of the operator, and the index of its argument. ``part`` is
        the first and the last element of the part. With ``after_reads``, operators that read the
        part are also included if the buffer is updated in place. Operator o has rKernel
        ``kernels[o]``. A superset is allowed: callers compare the boxes of the rTasks.
        """
        if buffer in self._updated:
            yield from self._uses[buffer].latest(
                consumer,
                part,
                lambda number: self._written_whole(number, buffer, kernels),
                reads=after_reads,
            )
            return
        for producer, argument in self._writers.get(buffer, _NOBODY).touching(*part):
            if producer < consumer:
                yield producer, argument

    def _written_whole(
        self, number: int, buffer: int, kernels: Sequence[int]
    ) -> Iterator[Interval]:
        """Yield the ranges of a buffer in which an operator writes every element.

        A range is the first and the last element. ``number`` is the operator's number, and operator
        o has rKernel ``kernels[o]``. Updates in place count as writes.
        """
        operator = self._graph.operators[number]
        kernel = operator.kernels[kernels[number]]
        for write in (*kernel.writes, *kernel.updates):
            view = operator.operands[write.argument]
            if view.buffer != buffer:
                continue
            if write not in self._filled:
                self._filled[write] = filled(write.boxes)
            found = self._filled[write]
            if found is not None:
                yield view.offset + found[0], view.offset + found[1]

    def _hull(self, access: Access) -> tuple[int, int]:
        if access not in self._hulls:
            boxes = access.boxes
            low = int(boxes.offsets.min(initial=np.iinfo(np.int64).max >> 1))
            high = int((boxes.offsets + span(boxes)).max(initial=-1))
            self._hulls[access] = low, high
        return self._hulls[access]

    def _overlap(
        self, read: Access, write: Access, read_origin: int, write_origin: int
    ) -> TaskPairs:
        """Return the pairs of rTasks whose boxes in the accesses ``read`` and ``write`` overlap.

        Both accesses are to arguments in the same buffer. ``read_origin`` and ``write_origin`` are
        the indices of the buffer's elements at which these arguments start. The result is memoized:
        calls with the same accesses share a result if both origins differ by the same multiple of
        the largest stride of the boxes.
        """
        if (read, write) not in self._units:
            self._units[read, write] = radix_basis(read.boxes, write.boxes)[0]
        unit = self._units[read, write]
        base = min(read_origin, write_origin) // unit * unit
        key = (read, write, read_origin - base, write_origin - base)
        if key not in self._pairs:
            if self._kept > _KEPT_INDICES:
                self._pairs.clear()
                self._kept = 0
            self._pairs[key] = overlap(read.boxes, write.boxes, key[2], key[3])
            self._kept += len(self._pairs[key].indices)
        return self._pairs[key]


def _all_pairs(consumers: int, producers: int) -> TaskPairs:
    """Return the pairs in which each consumer rTask waits for all producer rTasks.

    ``consumers`` and ``producers`` are the counts of these rTasks.
    """
    return TaskPairs(
        row=np.zeros(consumers, dtype=np.int64),
        indptr=np.array([0, producers], dtype=np.int64),
        indices=np.arange(producers, dtype=np.int64),
    )


def _writers(rows: Sequence[tuple[int, int, int, int]]) -> _Writers:
    reach = list(accumulate((row[1] for row in rows), max))
    return _Writers([row[0] for row in rows], reach, [(row[2], row[3]) for row in rows])
