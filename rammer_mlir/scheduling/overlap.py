"""Finds overlapping strided boxes in flat memory, by mixed-radix digits of element indices.

The boxes are in the same buffer. An element's index is written in a mixed radix, which the strides
of both boxes determine. A box then has an interval of values for each digit, and two boxes overlap
if their intervals overlap for every digit. The result is exact if each stride is a multiple of the
next smaller stride and no digit of a box overflows into the next digit, as with views, reshapes and
padding. Otherwise the result is a superset: a digit that overflows counts as all its values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rammer_mlir.scheduling.graph import Boxes, Int64Array

_PAIRS_AT_ONCE = 1 << 21
_FAR = np.int64(1) << 60

Intervals = tuple[Int64Array, Int64Array]
"""Lowest and highest digit of each box at each place, both [num_boxes, num_places]."""


@dataclass(frozen=True, eq=False)
class TaskPairs:
    """Producer rTasks that each consumer rTask reads from, as a sparse matrix (CSR).

    Attributes:
        row: for each consumer rTask its row; rTasks with the same producers may share a row.
        indptr: producers of row r are ``indices[indptr[r]:indptr[r + 1]]``.
        indices: producer rTasks, ascending in each row.
    """

    row: Int64Array
    indptr: Int64Array
    indices: Int64Array

    @cached_property
    def row_of_index(self) -> Int64Array:
        """The row of each entry of ``indices``."""
        return np.repeat(np.arange(self.num_rows), np.diff(self.indptr))

    @property
    def num_rows(self) -> int:
        """The count of rows of the matrix; rTasks with the same producers may share a row."""
        return len(self.indptr) - 1

    def of(self, consumer: int) -> Int64Array:
        """Return the rTasks that rTask ``consumer`` reads from, in ascending order."""
        row = self.row[consumer]
        return self.indices[self.indptr[row] : self.indptr[row + 1]]


def overlap(reads: Boxes, writes: Boxes, read_origin: int = 0, write_origin: int = 0) -> TaskPairs:
    """Return, for each rTask that reads a box, the rTasks that write an overlapping box.

    The boxes are in arguments of rTasks, in the same buffer. ``read_origin`` and ``write_origin``
    are the indices of the buffer's elements at which the read and the written argument start.
    """
    distinct, row = _distinct(reads)
    basis = radix_basis(reads, writes)
    left = _digits(distinct, read_origin, basis)
    right = _digits(writes, write_origin, basis)
    rows: list[Int64Array] = []
    columns: list[Int64Array] = []
    windows = _windows(_hull(distinct, read_origin), _hull(writes, write_origin))
    for some_rows, some_columns in windows:
        hit = np.ones(len(some_rows), dtype=bool)
        for place in range(len(basis)):
            hit &= left[0][some_rows, place] <= right[1][some_columns, place]
            hit &= left[1][some_rows, place] >= right[0][some_columns, place]
        rows.append(some_rows[hit])
        columns.append(some_columns[hit])
    return _compress(row, len(distinct.offsets), rows, columns)


def radix_basis(*sides: Boxes) -> tuple[int, ...]:
    """Return the longest descending chain of strides in which each is a multiple of the next.

    The chain is chosen from 1 and the strides of the dimensions along which a box in ``sides`` has
    several elements. Among chains of equal length, return the chain with the largest stride.
    """
    used = {1}
    for boxes in sides:
        for dim, stride in enumerate(boxes.strides):
            if stride > 0 and boxes.sizes[:, dim].max(initial=0) > 1:
                used.add(stride)
    chains: dict[int, tuple[int, ...]] = {}
    for stride in sorted(used):
        inner = [chain for divisor, chain in chains.items() if stride % divisor == 0]
        chains[stride] = (stride, *max(inner, key=len, default=()))
    return max(chains.values(), key=lambda chain: (len(chain), chain[0]))


def span(boxes: Boxes) -> Int64Array:
    """Return each box's distance from first to last element, in elements; -1 for an empty box."""
    reach = ((boxes.sizes - 1) * np.array(boxes.strides, dtype=np.int64)).sum(axis=1)
    return np.where((boxes.sizes > 0).all(axis=1), reach, -1)


def _distinct(boxes: Boxes) -> tuple[Boxes, Int64Array]:
    """Return ``boxes`` without duplicates, and for each box of ``boxes`` its index in that result.

    Two boxes are duplicates if their offsets and their sizes are equal.
    """
    if len(np.unique(boxes.offsets)) == len(boxes.offsets):
        return boxes, np.arange(len(boxes.offsets))
    table = np.column_stack((boxes.offsets, boxes.sizes))
    rows, inverse = np.unique(table, axis=0, return_inverse=True)
    return Boxes(rows[:, 0], rows[:, 1:], boxes.strides), inverse.reshape(-1).astype(np.int64)


def _hull(boxes: Boxes, origin: int) -> Intervals:
    low = boxes.offsets + origin
    return low, low + span(boxes)


def _digits(boxes: Boxes, origin: int, basis: Sequence[int]) -> Intervals:
    extra = np.zeros((len(boxes.offsets), len(basis)), dtype=np.int64)
    for dim, stride in enumerate(boxes.strides):
        if stride > 0:
            # A stride outside the chain counts as a multiple of its largest divisor in the chain.
            place = next(p for p, unit in enumerate(basis) if stride % unit == 0)
            extra[:, place] += (boxes.sizes[:, dim] - 1) * (stride // basis[place])
    low = np.empty_like(extra)
    remaining = boxes.offsets + origin
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
    empty = (boxes.sizes < 1).any(axis=1)
    low[empty], high[empty] = _FAR, -1
    return low, high


def _windows(reads: Intervals, writes: Intervals) -> Iterator[tuple[Int64Array, Int64Array]]:
    """Yield batches of candidate pairs: indices of read boxes, and indices of write boxes.

    ``reads`` and ``writes`` have the first and the last element of each box. Every pair of boxes
    whose ranges of elements overlap is included.
    """
    order = np.argsort(writes[0], kind="stable")
    highest = np.maximum.accumulate(writes[1][order]) if len(order) else writes[1]
    begin = np.searchsorted(highest, reads[0], side="left")
    end = np.searchsorted(writes[0][order], reads[1], side="right")
    counts = np.maximum(end - begin, 0)
    total = np.concatenate(([0], np.cumsum(counts)))
    start = 0
    while start < len(counts):
        fits = int(np.searchsorted(total, total[start] + _PAIRS_AT_ONCE, side="right")) - 1
        stop = max(start + 1, fits)
        part = counts[start:stop]
        rows = np.repeat(np.arange(start, stop), part)
        within = np.arange(len(rows)) - np.repeat(total[start:stop] - total[start], part)
        yield rows, order[begin[rows] + within]
        start = stop


def _compress(
    row: Int64Array, num_rows: int, rows: Sequence[Int64Array], columns: Sequence[Int64Array]
) -> TaskPairs:
    empty = np.zeros(0, dtype=np.int64)
    all_rows = np.concatenate([empty, *rows])
    all_columns = np.concatenate([empty, *columns])
    indptr = np.zeros(num_rows + 1, dtype=np.int64)
    np.cumsum(np.bincount(all_rows, minlength=num_rows), out=indptr[1:])
    return TaskPairs(row, indptr, all_columns[np.lexsort((all_columns, all_rows))])
