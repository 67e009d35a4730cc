"""Finds the box of the output that each rTask writes, by running its workgroups.

rTask 0 and its neighbor along each axis of the output run separately on an output filled with a
byte pattern; the elements that change suggest a grid of boxes. The grid is then proven by running
all rTasks, in order and in reverse: an rTask must change every element of its box, and no rTask
that runs earlier may change any of them. The boxes are disjoint and cover the output, so one of the
two orders detects a write outside of an rTask's box. The probes use two byte patterns, because a
computed element may equal one pattern.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.passes.ir.boxes_text import Box

_PATTERNS = (0xA5, 0x5A)
"""Values to which all bytes of the two output arrays are set before rTasks run."""

_MOST_RTASKS = 64
"""Desired upper bound of the number of rTasks; workgroups are grouped accordingly."""

Run = Callable[[int, NDArray[np.generic]], None]
"""A function that runs the workgroup with a given index; it writes its part of an output array."""

Part = tuple[slice, ...]


@dataclass(frozen=True)
class Tiles:
    """Consecutive workgroups grouped as rTasks.

    Attributes:
        workgroups_each: number of workgroups of each rTask.
        num_rtasks: number of rTasks.
        box: the box of the output that rTask ``d0`` writes; None if it writes the whole output.
    """

    workgroups_each: int
    num_rtasks: int = 1
    box: Box | None = None


def find_tiles(
    run: Run, workgroups: Sequence[int], outputs: Sequence[NDArray[np.generic]]
) -> Tiles:
    """Return a grouping of workgroups to rTasks with proven boxes; else a single rTask.

    Args:
        run: called with the index of a workgroup and an output array; runs the workgroup.
        workgroups: number of workgroups along each axis, the fastest axis first.
        outputs: two arrays of the output's shape, which are overwritten.
    """
    total = prod(workgroups)
    for each in _groupings(workgroups) if outputs[0].ndim else ():
        probe = _Probe(run, each, total // each, outputs)
        grid = probe.hypothesis()
        if grid is not None and probe.proves(grid):
            return Tiles(each, total // each, grid.box())
    return Tiles(total)


def _groupings(workgroups: Sequence[int]) -> list[int]:
    """Return candidate counts of workgroups per rTask, the preferred count first.

    Counts that give at most ``_MOST_RTASKS`` rTasks come first, in ascending order, then counts
    that give more rTasks, in descending order. A single rTask of all workgroups is not a candidate.
    """
    total, inner = prod(workgroups), 1
    found: set[int] = set()
    for extent in workgroups:
        found |= {inner * each for each in range(1, extent + 1) if extent % each == 0}
        inner *= extent
    few = sorted(each for each in found if each < total <= each * _MOST_RTASKS)
    return few + sorted(each for each in found if each * _MOST_RTASKS < total)[::-1]


@dataclass(frozen=True)
class _Grid:
    """A grid of equal boxes of an output, a box for each rTask.

    Attributes:
        shape: shape of the output.
        sizes: number of elements of a box along each dimension.
        counts: number of boxes along each dimension.
        strides: the box's index along dimension d is ``rtask // strides[d] % counts[d]``.
    """

    shape: tuple[int, ...]
    sizes: tuple[int, ...]
    counts: tuple[int, ...]
    strides: tuple[int, ...]

    def part(self, rtask: int) -> Part:
        """Return the box of an rTask as slices; NumPy clips the slices at the output's border."""
        digits = (rtask // s % n for s, n in zip(self.strides, self.counts, strict=True))
        starts = (digit * size for digit, size in zip(digits, self.sizes, strict=True))
        return tuple(slice(s, s + size) for s, size in zip(starts, self.sizes, strict=True))

    def box(self) -> Box:
        """Return the box of rTask ``d0``, with an offset and a size for each dimension.

        The offset is the text of an affine expression of ``d0``, or 0.
        """
        digits = zip(self.sizes, self.counts, self.strides, strict=True)
        return [(f"d0 floordiv {s} mod {n} * {z}" if n > 1 else 0, z) for z, n, s in digits]


@dataclass(frozen=True)
class _Probe:
    """Finds by experiment which elements of an output each rTask writes.

    The probe runs rTasks on two output arrays, filled with different byte patterns. An element
    counts as written if it differs from the pattern in at least one array.

    Attributes:
        run: runs the workgroup of a given index on a given output array.
        each: number of workgroups of an rTask.
        count: number of rTasks.
        outputs: the two arrays, which are overwritten.
    """

    run: Run
    each: int
    count: int
    outputs: Sequence[NDArray[np.generic]]

    def hypothesis(self) -> _Grid | None:
        """Return the grid of boxes that the rTasks probably write; None if they write no grid.

        The grid is derived from the boxes that rTask 0 and its neighbor along each axis write, and
        is not yet proven.
        """
        shape = self.outputs[0].shape
        first = self._box_of(0)
        if first is None or any(part.start for part in first):
            return None
        sizes = tuple(part.stop for part in first)
        counts = tuple(-(-extent // size) for extent, size in zip(shape, sizes, strict=True))
        strides, stride = [1] * len(shape), 1
        while stride < self.count:
            moved = [n for n, part in enumerate(self._box_of(stride) or ()) if part.start]
            # No axis moved, several did, or this axis moved before: the tiles are not a grid.
            if len(moved) != 1 or strides[moved[0]] > 1:
                return None
            strides[moved[0]] = stride
            stride *= counts[moved[0]]
        is_whole = stride == self.count == prod(counts)
        return _Grid(shape, sizes, counts, tuple(strides)) if is_whole else None

    def proves(self, grid: _Grid) -> bool:
        """Return whether each rTask writes exactly its box of ``grid``.

        All rTasks run in ascending and then in descending order, and must give the same results.
        """
        # Both orders and both patterns have to give the same bytes.
        results: set[bytes] = set()
        for order in (range(self.count), range(self.count - 1, -1, -1)):
            self._fill()
            if not all(self._writes(rtask, grid.part(rtask)) for rtask in order):
                return False
            results.update(array.tobytes() for array in self.outputs)
        return len(results) == 1

    def _box_of(self, rtask: int) -> Part | None:
        """Return the box that an rTask writes; None if the written elements do not form a box."""
        self._fill()
        self._execute(rtask)
        changed = self._changed(())
        if not changed.any():
            return None
        box = tuple(slice(int(p.min()), int(p.max()) + 1) for p in np.nonzero(changed))
        return box if changed[box].all() else None

    def _writes(self, rtask: int, part: Part) -> bool:
        """Run an rTask; return whether a box was unwritten before, and is fully written after.

        ``part`` is the box, as a slice for each dimension.
        """
        was_changed = self._changed(part).any()
        self._execute(rtask)
        return not was_changed and bool(self._changed(part).all())

    def _fill(self) -> None:
        for array, pattern in zip(self.outputs, _PATTERNS, strict=True):
            array.reshape(-1).view(np.uint8).fill(pattern)

    def _execute(self, rtask: int) -> None:
        for array in self.outputs:
            for number in range(rtask * self.each, (rtask + 1) * self.each):
                self.run(number, array)

    def _changed(self, part: Part) -> NDArray[np.bool_]:
        """Return a mask of the elements of a box that were written since the arrays were filled.

        ``part`` is the box, as a slice for each dimension; an empty tuple is the whole output.
        """
        size = self.outputs[0].itemsize
        numbers = (int.from_bytes(bytes([pattern] * size), "little") for pattern in _PATTERNS)
        pairs = zip(self.outputs, numbers, strict=True)
        first, second = (array[part].view(f"u{size}") != number for array, number in pairs)
        # A result may equal one of the patterns, but not both.
        return first | second
