"""Finds the latest uses of each element of buffers that operators update in place.

An operator that writes an element waits for all earlier reads and writes of this element. A later
operator therefore waits only for the latest write and the reads after it: all earlier uses have
ended before that write. So the count of dependencies is linear in the length of a chain of updates,
not quadratic.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import merge
from itertools import groupby

import numpy as np

from rammer_mlir.scheduling.graph import Boxes, Int64Array
from rammer_mlir.scheduling.overlap import span

_MOST_ELEMENTS = 1 << 24
_BUCKETS = 256
"""Approximate number of buckets of the smallest size that cover a large buffer."""

Interval = tuple[int, int]
"""The first and the last element of a range, both included."""


class _Places:
    """An index to find the uses of a buffer that overlap a given range of the buffer's elements.

    The hull of a use is the range from its first to its last element. For each power of two, from a
    minimum on, the buffer is divided into buckets of this many elements. A use is stored for the
    smallest bucket size that is not below the length of the use's hull. So the hull overlaps one or
    two buckets of this size, and the use is listed only in these buckets.
    """

    def __init__(self, num_elements: int) -> None:
        self._least = max(0, num_elements.bit_length() - _BUCKETS.bit_length())
        self._levels: dict[int, dict[int, list[int]]] = {}

    def add(self, number: int, hull: Interval) -> None:
        """Append use ``number``, whose first and last element are ``hull``.

        Each call has a larger ``number`` than the previous call.
        """
        low, high = hull
        level = max(self._least, (high - low).bit_length())
        buckets = self._levels.setdefault(level, {})
        for bucket in {low >> level, high >> level}:
            buckets.setdefault(bucket, []).append(number)

    def before(self, limit: int, part: Interval) -> Iterator[int]:
        """Yield the numbers below ``limit`` of uses that may overlap ``part``, in descending order.

        ``part`` is a range of elements. The result has every use whose hull overlaps ``part``. It
        may also have other uses near ``part``, because the index is coarser than elements.
        """
        low, high = part
        near = [
            _descending(buckets[bucket], limit)
            for level, buckets in self._levels.items()
            for bucket in range(low >> level, (high >> level) + 1)
            if bucket in buckets
        ]
        return (number for number, _ in groupby(merge(*near, reverse=True)))


def _descending(numbers: Sequence[int], limit: int) -> Iterator[int]:
    for position in range(bisect_left(numbers, limit) - 1, -1, -1):
        yield numbers[position]


class UpdatedBuffer:
    """The uses of a buffer, in the graph's order: the operand and the elements of each use.

    A separate index contains only the writes, because a read only has to wait for writes.
    """

    def __init__(self, num_elements: int) -> None:
        """Begin with no use of a buffer of ``num_elements`` elements."""
        self._operators: list[int] = []
        self._operands: list[int] = []
        self._hulls: list[Interval] = []
        self._uses, self._writes = _Places(num_elements), _Places(num_elements)

    def add(self, operator: int, argument: int, hull: Interval, *, writes: bool) -> None:
        """Append a use of a buffer by an argument of an operator.

        ``hull`` has the first and the last element of the use; an empty use is ignored. ``writes``
        is False for a use that only reads.
        """
        if hull[1] < hull[0]:  # an empty hull touches no element
            return
        number = len(self._operators)
        self._operators.append(operator)
        self._operands.append(argument)
        self._hulls.append(hull)
        self._uses.add(number, hull)
        if writes:
            self._writes.add(number, hull)

    def latest(
        self,
        consumer: int,
        part: Interval,
        written: Callable[[int], Iterable[Interval]],
        *,
        reads: bool,
    ) -> Iterator[tuple[int, int]]:
        """Yield the earlier uses of a range as pairs of indices (operator, argument), latest first.

        The search goes from later to earlier operators. It ends when the operators found so far
        have written the whole range, because these operators wait for all uses before them.

        Args:
            consumer: index of the operator that needs the uses; only uses by operators of smaller
                index are yielded.
            part: the range of elements.
            written: called with an operator's index; returns the ranges in which this operator
                writes every element.
            reads: whether to include uses that only read.
        """
        missing = [part]
        places = self._uses if reads else self._writes
        near = places.before(bisect_left(self._operators, consumer), part)
        for operator, numbers in groupby(near, key=self._operators.__getitem__):
            touches = False
            for number in numbers:
                low, high = self._hulls[number]
                if any(low <= last and first <= high for first, last in missing):
                    touches = True
                    yield operator, self._operands[number]
            if touches:
                for interval in written(operator):
                    missing = _without(missing, interval)
                if not missing:
                    return


def _without(parts: Sequence[Interval], interval: Interval) -> list[Interval]:
    low, high = interval
    left = [(first, min(last, low - 1)) for first, last in parts if first < low]
    right = [(max(first, high + 1), last) for first, last in parts if last > high]
    return left + right


def filled(boxes: Boxes) -> Interval | None:
    """Return the first and the last element of ``boxes`` if all elements between are in boxes.

    Return None if an element between the first and the last is in no box, or if all boxes are
    empty. Also return None if the check would take too long: if the range has more than
    ``_MOST_ELEMENTS`` elements, or the boxes of one size have more than ``_MOST_ELEMENTS``
    contiguous intervals.
    """
    kept = (boxes.sizes > 0).all(axis=1)
    if not kept.any():
        return None
    low = int(boxes.offsets[kept].min())
    high = int((boxes.offsets + span(boxes))[kept].max())
    if high - low >= _MOST_ELEMENTS:
        return None
    change = np.zeros(high - low + 2, dtype=np.int64)
    for sizes in np.unique(boxes.sizes[kept], axis=0):
        alike = (boxes.sizes == sizes).all(axis=1)
        steps, length = _stretches(sizes.tolist(), boxes.strides)
        if alike.sum() * len(steps) > _MOST_ELEMENTS:
            return None
        starts = (boxes.offsets[alike][:, None] - low + steps).reshape(-1)
        change += np.bincount(starts, minlength=len(change))
        change -= np.bincount(starts + length, minlength=len(change))
    return (low, high) if (np.cumsum(change[:-1]) > 0).all() else None


def _stretches(sizes: Sequence[int], strides: Sequence[int]) -> tuple[Int64Array, int]:
    """Return the starts of the intervals of consecutive elements in a box, and the interval length.

    The starts and the length are in elements; starts count from the first element of the box. All
    intervals have the same length.
    """
    dense = [dim for dim, stride in enumerate(strides) if stride == 1]
    inner = max(dense, key=lambda dim: sizes[dim], default=-1)
    steps = np.zeros(1, dtype=np.int64)
    for dim, (size, stride) in enumerate(zip(sizes, strides, strict=True)):
        if dim != inner:
            steps = (steps[:, None] + np.arange(size) * stride).reshape(-1)
    return steps, 1 if inner < 0 else sizes[inner]
