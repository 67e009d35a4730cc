"""Buffers that operators update in place: the latest uses of each element by earlier operators.

Whoever writes an element waits for all of its earlier uses, so that waiting for the latest writer
implies waiting for all before it. A chain of updates has as many dependencies as links.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from rammer_mlir.scheduling.graph import Boxes, Int64Array
from rammer_mlir.scheduling.overlap import span

_MOST_ELEMENTS = 1 << 24

Interval = tuple[int, int]
"""First and last element."""


@dataclass
class UpdatedBuffer:
    """The operands that touch one buffer, in the graph's order, and the elements that they touch.

    Attributes:
        operators: number of each use's operator, ascending.
        operands: its argument.
        hulls: first and last element that it touches.
    """

    operators: list[int] = field(default_factory=list[int])
    operands: list[int] = field(default_factory=list[int])
    hulls: list[Interval] = field(default_factory=list[Interval])

    def add(self, operator: int, argument: int, hull: Interval) -> None:
        """Append a use."""
        self.operators.append(operator)
        self.operands.append(argument)
        self.hulls.append(hull)

    def latest(
        self, consumer: int, part: Interval, written: Callable[[int], Iterable[Interval]]
    ) -> Iterator[tuple[int, int]]:
        """Yield operator and argument of earlier uses of a part, the latest first.

        Args:
            consumer: the operator that comes behind them.
            part: what it touches.
            written: returns the intervals that an operator writes whole: earlier uses of these are
                left out.
        """
        missing = [part]
        position = bisect_left(self.operators, consumer) - 1
        while position >= 0 and missing:
            operator = self.operators[position]
            touches = False
            while position >= 0 and self.operators[position] == operator:
                low, high = self.hulls[position]
                if any(low <= last and first <= high for first, last in missing):
                    touches = True
                    yield operator, self.operands[position]
                position -= 1
            if touches:
                for interval in written(operator):
                    missing = _without(missing, interval)


def _without(parts: Sequence[Interval], interval: Interval) -> list[Interval]:
    low, high = interval
    left = [(first, min(last, low - 1)) for first, last in parts if first < low]
    right = [(max(first, high + 1), last) for first, last in parts if last > high]
    return left + right


def filled(boxes: Boxes) -> Interval | None:
    """Return the elements from a boxes' first to its last, if each of them is in some box."""
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
    """Return where a box's runs of consecutive elements start, and their length."""
    dense = [dim for dim, stride in enumerate(strides) if stride == 1]
    inner = max(dense, key=lambda dim: sizes[dim], default=-1)
    steps = np.zeros(1, dtype=np.int64)
    for dim, (size, stride) in enumerate(zip(sizes, strides, strict=True)):
        if dim != inner:
            steps = (steps[:, None] + np.arange(size) * stride).reshape(-1)
    return steps, 1 if inner < 0 else sizes[inner]
