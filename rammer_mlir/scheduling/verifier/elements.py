"""Lists the elements that rTasks touch, as intervals of consecutive elements.

Strides may have any values. A box is expanded dimension by dimension into all of its intervals;
boxes of the same size are expanded together.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rammer_mlir.scheduling.graph import Access, Boxes, Int64Array

_KEPT = 1 << 20


@dataclass(frozen=True)
class Stretches:
    """The elements of an argument that rTasks touch, as intervals of consecutive elements.

    Interval i has the elements ``start[i] .. end[i] - 1``, counted from the start of the argument,
    and is a part of box ``box[i]``. Boxes are numbered; ``box_of_rtask[t]`` is the box of rTask t.
    Equal boxes of several rTasks have the same number, so the intervals of a box are stored once.
    """

    start: Int64Array
    end: Int64Array
    box: Int64Array
    box_of_rtask: Int64Array

    @property
    def num_boxes(self) -> int:
        """The number of distinct boxes of the argument that the rTasks touch."""
        return int(self.box_of_rtask.max(initial=-1)) + 1


class Elements:
    """A memo of the intervals of elements that each access touches.

    Equal rKernels are the same object, so hits are frequent.
    """

    def __init__(self) -> None:
        """Begin with an empty memo."""
        self._known: dict[Access, Stretches] = {}

    def of(self, access: Access) -> Stretches:
        """Return, as intervals, the elements of an rKernel's argument that each rTask touches."""
        known = self._known.get(access)
        if known is None:
            known = _stretches(access.boxes)
            if len(known.start) <= _KEPT:
                self._known[access] = known
        return known


def _stretches(boxes: Boxes) -> Stretches:
    """Return the elements of the boxes of all rTasks, as intervals of consecutive elements.

    A box that several rTasks share is expanded into intervals once, and stored once.
    """
    rows: dict[tuple[int, ...], int] = {}
    keys = zip(boxes.offsets.tolist(), *boxes.sizes.T.tolist(), strict=True)
    box_of_rtask = np.array([rows.setdefault(key, len(rows)) for key in keys], dtype=np.int64)
    table = np.array(list(rows), dtype=np.int64).reshape(len(rows), -1)
    by_size: dict[tuple[int, ...], list[int]] = {}
    for box, key in enumerate(rows):
        by_size.setdefault(key[1:], []).append(box)
    empty = np.zeros(0, dtype=np.int64)
    starts, ends, numbers = [empty], [empty], [empty]
    for sizes, members in by_size.items():
        inside, length = _expand(sizes, boxes.strides)
        some = np.array(members, dtype=np.int64)
        start = (table[some, 0][:, None] + inside[None, :]).reshape(-1)
        starts.append(start)
        ends.append(start + length)
        numbers.append(np.repeat(some, len(inside)))
    return Stretches(
        np.concatenate(starts), np.concatenate(ends), np.concatenate(numbers), box_of_rtask
    )


def _expand(sizes: tuple[int, ...], strides: tuple[int, ...]) -> tuple[Int64Array, int]:
    """Return the starts of the intervals of consecutive elements in a box, and the interval length.

    The starts and the length are in elements; starts count from the first element of the box. All
    intervals have the same length. Dimensions are visited by ascending stride. As long as the
    stride of a dimension equals the interval length so far, the dimension extends the interval; all
    other dimensions repeat the interval.
    """
    if 0 in sizes:
        return np.zeros(0, dtype=np.int64), 0
    starts, length = np.zeros(1, dtype=np.int64), 1
    for size, stride in sorted(zip(sizes, strides, strict=True), key=lambda dim: dim[1]):
        if size == 1 or stride == 0:
            continue
        if stride == length and len(starts) == 1:
            length *= size
        else:
            steps = np.arange(size, dtype=np.int64) * stride
            starts = (steps[:, None] + starts[None, :]).reshape(-1)
    return starts, length
