"""Which rTasks an rTask must wait for: overlap of what it reads with what producers write.

Both sides are strided boxes of the same flat buffer. They are compared digit by digit in the mixed
radix that the strides of both form: exact where the strides nest and no box wraps, as with views,
reshapes and paddings, and otherwise a superset (a box that wraps counts as the whole digit).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from rammer_mlir.scheduling.graph import Access, Boxes, Int64Array, TaskGraph

_PAIRS_AT_ONCE = 1 << 22


@dataclass(frozen=True, eq=False)
class TaskPairs:
    """For each consumer rTask ``t``, producer rTasks ``indices[indptr[t]:indptr[t + 1]]``."""

    indptr: Int64Array
    indices: Int64Array

    @property
    def rows(self) -> Int64Array:
        """Consumer rTask of each entry of ``indices``."""
        return np.repeat(np.arange(len(self.indptr) - 1), np.diff(self.indptr))


@dataclass(frozen=True)
class Edge:
    """All rTask dependencies from one producer operator to one consumer operator's operand."""

    producer: int
    pairs: TaskPairs


def overlap(reads: Boxes, writes: Boxes, read_origin: int = 0, write_origin: int = 0) -> TaskPairs:
    """Return, for each read box, the write boxes that it overlaps.

    The origins are the elements of the common buffer at which the two arguments start.
    """
    basis = radix_basis(reads, writes)
    if basis is None:
        low = _hull(reads, read_origin)
        high = _hull(writes, write_origin)
        return _intersect(*low, *high)
    return _intersect(*_digits(reads, read_origin, basis), *_digits(writes, write_origin, basis))


def radix_basis(reads: Boxes, writes: Boxes) -> list[int] | None:
    """Return the strides of both, largest first, if each divides the one before; else None."""
    used: set[int] = {1}
    for boxes in (reads, writes):
        for dim, stride in enumerate(boxes.strides):
            if len(boxes.sizes) and boxes.sizes[:, dim].max() > 1:
                used.add(stride)
    ordered = sorted(used, reverse=True)
    nested = all(big % small == 0 for big, small in pairwise(ordered))
    return ordered if nested and ordered[-1] > 0 else None


def _hull(boxes: Boxes, shift: int) -> tuple[Int64Array, Int64Array]:
    span = ((boxes.sizes - 1) * np.array(boxes.strides, dtype=np.int64)).sum(axis=1)
    low = boxes.offsets + shift
    return low[:, None], (low + span)[:, None]


def _digits(boxes: Boxes, shift: int, basis: Sequence[int]) -> tuple[Int64Array, Int64Array]:
    """Return the lowest and highest digit of each box at each place of the mixed radix."""
    count = len(boxes.offsets)
    extra = np.zeros((count, len(basis)), dtype=np.int64)
    for dim, stride in enumerate(boxes.strides):
        if count and boxes.sizes[:, dim].max() > 1:
            extra[:, basis.index(stride)] += boxes.sizes[:, dim] - 1
    low = np.empty_like(extra)
    remaining = boxes.offsets + shift
    for place, unit in enumerate(basis):
        low[:, place] = remaining // unit
        remaining = remaining % unit
    high = low + extra
    for place in range(len(basis) - 1, 0, -1):
        radix = basis[place - 1] // basis[place]
        carry = high[:, place] // radix
        wraps = carry > 0
        high[:, place - 1] += carry
        low[wraps, place] = 0
        high[wraps, place] = radix - 1
    return low, high


def _intersect(
    read_low: Int64Array, read_high: Int64Array, write_low: Int64Array, write_high: Int64Array
) -> TaskPairs:
    num_reads, num_writes = len(read_low), len(write_low)
    step = max(1, _PAIRS_AT_ONCE // max(num_writes, 1))
    counts: list[Int64Array] = []
    indices: list[Int64Array] = []
    for start in range(0, num_reads, step):
        part = slice(start, start + step)
        hit = np.ones((len(read_low[part]), num_writes), dtype=bool)
        for place in range(read_low.shape[1]):
            hit &= read_low[part, place, None] <= write_high[None, :, place]
            hit &= read_high[part, place, None] >= write_low[None, :, place]
        counts.append(hit.sum(axis=1))
        indices.append(np.nonzero(hit)[1])
    indptr = np.zeros(num_reads + 1, dtype=np.int64)
    if counts:
        np.cumsum(np.concatenate(counts), out=indptr[1:])
    empty = np.zeros(0, dtype=np.int64)
    return TaskPairs(indptr, np.concatenate(indices) if indices else empty)


_Pattern = tuple[Access, Access, int, int]


class Dependencies:
    """Dependencies of a graph between rTasks of chosen rKernels; equal patterns are kept once."""

    def __init__(self, graph: TaskGraph) -> None:
        """Index which operators write each buffer."""
        self._graph = graph
        self._first = [0] * len(graph.operators)
        self._writers: dict[int, list[tuple[int, int]]] = {}
        for number, operator in enumerate(graph.operators):
            written = {access.argument for access in operator.kernels[0].writes}
            for argument in sorted(written):
                buffer = operator.operands[argument].buffer
                self._writers.setdefault(buffer, []).append((number, argument))
        self._pairs: dict[_Pattern, TaskPairs] = {}
        self._units: dict[tuple[Access, Access], int] = {}

    def producers(self, consumer: int) -> list[int]:
        """Operators that write something which the consumer reads, without duplicates."""
        edges = self.edges(consumer, self._first)
        return list(dict.fromkeys(edge.producer for edge in edges))

    def edges(self, consumer: int, kernels: Sequence[int]) -> Iterator[Edge]:
        """Yield the dependencies of an operator when ``kernels[o]`` is operator o's choice.

        The graph's order is a valid one, so what comes later never writes what is read here.
        """
        operator = self._graph.operators[consumer]
        kernel = operator.kernels[kernels[consumer]]
        for read in kernel.reads:
            view = operator.operands[read.argument]
            for producer, argument in self._writers.get(view.buffer, ()):
                if producer >= consumer:
                    continue
                source = self._graph.operators[producer]
                other = source.kernels[kernels[producer]]
                start = source.operands[argument].offset
                for write in other.writes:
                    if write.argument == argument:
                        pairs = self._overlap(read, write, view.offset, start)
                        if len(pairs.indices):
                            yield Edge(producer, pairs)

    def _overlap(
        self, read: Access, write: Access, read_origin: int, write_origin: int
    ) -> TaskPairs:
        """Overlap of two accesses; moving both origins by whole leading digits changes nothing."""
        if (read, write) not in self._units:
            basis = radix_basis(read.boxes, write.boxes)
            self._units[read, write] = basis[0] if basis else 1
        unit = self._units[read, write]
        base = min(read_origin, write_origin) // unit * unit
        key = (read, write, read_origin - base, write_origin - base)
        if key not in self._pairs:
            self._pairs[key] = overlap(read.boxes, write.boxes, key[2], key[3])
        return self._pairs[key]
