"""Elements that rTasks touch, walked and not computed: the verifier's own test of overlap.

Each access is painted into an array that stands for the buffer: writers paint their rTask's number,
readers look at what lies under their boxes. Painting is exact for every kind of strides. Equal
patterns are walked once.
"""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import as_strided

from rammer_mlir.scheduling.graph import Access, Boxes, Int64Array

Overlap = tuple[Int64Array, Int64Array, Int64Array]
"""rTasks of the first access, rTasks of the second, and the number of elements they share."""


class Footprints:
    """Overlaps of accesses, remembered by pattern."""

    def __init__(self) -> None:
        """Begin with nothing remembered."""
        self._overlaps: dict[tuple[Access, Access, int], Overlap] = {}
        self._selves: dict[Access, tuple[int, int] | None] = {}
        self._painted: dict[Access, tuple[np.ndarray, int]] = {}

    def self_overlap(self, access: Access) -> tuple[int, int] | None:
        """Return two rTasks that touch the same element of one access, or None."""
        if access not in self._selves:
            self._selves[access] = self._paint(access)[1]
        return self._selves[access]

    def overlap(self, a: Access, a_origin: int, b: Access, b_origin: int) -> Overlap:
        """Return which rTasks of two accesses touch common elements of one buffer."""
        key = (a, b, a_origin - b_origin)
        if key not in self._overlaps:
            self._overlaps[key] = self._walk(a, b, a_origin - b_origin)
        return self._overlaps[key]

    def _paint(self, access: Access) -> tuple[np.ndarray, tuple[int, int] | None]:
        """Return an array with the number of the rTask that touches each element, else -1."""
        boxes = access.boxes
        owner = np.full(_length(boxes), -1, dtype=np.int32)
        clash: tuple[int, int] | None = None
        for rtask in range(len(boxes.offsets)):
            view = _view(owner, boxes, rtask, 0)
            if clash is None and view.size and view.max() >= 0:
                clash = (int(view.max()), rtask)
            view[...] = rtask
        return owner, clash

    def _walk(self, a: Access, b: Access, shift: int) -> Overlap:
        owner, _ = self._paint(b)
        boxes = a.boxes
        low = int(boxes.offsets.min(initial=0)) + shift
        high = _length(boxes) + shift
        before = max(0, -low)
        padded = np.full(before + max(len(owner), high), -1, dtype=np.int32)
        padded[before : before + len(owner)] = owner
        readers: list[Int64Array] = []
        writers: list[Int64Array] = []
        counts: list[Int64Array] = []
        size = int(b.boxes.offsets.shape[0])
        for rtask in range(len(boxes.offsets)):
            view = _view(padded, boxes, rtask, before + shift)
            tally = np.bincount(view.reshape(-1) + 1, minlength=size + 1)[1:]
            touched = np.nonzero(tally)[0]
            readers.append(np.full(len(touched), rtask, dtype=np.int64))
            writers.append(touched.astype(np.int64))
            counts.append(tally[touched].astype(np.int64))
        empty = np.zeros(0, dtype=np.int64)
        return (
            np.concatenate(readers or [empty]),
            np.concatenate(writers or [empty]),
            np.concatenate(counts or [empty]),
        )


def _length(boxes: Boxes) -> int:
    """Return one past the last element that any rTask touches."""
    if not len(boxes.offsets) or boxes.sizes.min(initial=1) < 1:
        return 0
    span = ((boxes.sizes - 1) * np.array(boxes.strides, dtype=np.int64)).sum(axis=1)
    return int((boxes.offsets + span).max()) + 1


def _view(memory: np.ndarray, boxes: Boxes, rtask: int, start: int) -> np.ndarray:
    if boxes.sizes[rtask].min(initial=1) < 1:
        return memory[:0]
    offset = start + int(boxes.offsets[rtask])
    strides = tuple(stride * memory.itemsize for stride in boxes.strides)
    return as_strided(memory[offset:], tuple(boxes.sizes[rtask].tolist()), strides)
