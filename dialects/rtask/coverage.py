"""Decides from the corners of boxes whether the boxes cover each array element exactly once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def first_miscovered(
    starts: Ints, ends: Ints, shape: Sequence[int]
) -> tuple[tuple[int, ...], int] | None:
    """Return the first array element that is not in exactly one of the boxes.

    The indicator function of a box is 1 inside the box and 0 outside. The function's differences
    between neighboring elements, taken along every dimension in turn, are +1 or -1 at the box's
    corners and 0 elsewhere. The boxes cover the array exactly once if and only if the sum of these
    differences over all boxes equals the differences of a single box that spans the array. For n
    boxes this costs O(n log n), regardless of the array's size.

    Args:
        starts: (boxes, rank) int64, the first index of each box in each dimension.
        ends: (boxes, rank) int64, the exclusive end of each box in each dimension.
        shape: the array's extent in each dimension.

    Returns:
        The index of the first element, in row-major order, that is in no box or in several boxes,
            and the number of boxes that contain it; None if each element is in exactly one box.
    """
    if 0 in shape:
        return None
    kept = (starts < ends).all(axis=1)
    starts, ends = starts[kept], ends[kept]
    extents = np.asarray(shape, np.int64)
    # Corners are 2**rank per box: leave out the dimensions in which every box spans the array.
    cut = ((starts != 0) | (ends != extents)).any(axis=0)
    if not cut.any():
        return None if len(starts) == 1 else ((0,) * len(extents), len(starts))
    whole = np.zeros((1, int(cut.sum())), np.int64)
    points, signs = _corners(starts[:, cut], ends[:, cut])
    full_points, full_signs = _corners(whole, extents[None, cut])
    unique, index = np.unique(np.concatenate([points, full_points]), axis=0, return_inverse=True)
    excess = np.zeros(len(unique), np.int64)
    np.add.at(excess, index.reshape(-1), np.concatenate([signs, -full_signs]))
    wrong = np.flatnonzero(excess)
    if not len(wrong):
        return None
    # Rows of `unique` are sorted, so no corner before this one can take part in its prefix sum.
    element = np.zeros(len(extents), np.int64)
    element[cut] = unique[wrong[0]]
    return tuple(int(value) for value in element), 1 + int(excess[wrong[0]])


def _corners(starts: Ints, ends: Ints) -> tuple[Ints, Ints]:
    """Return the 2**rank corners of every box, and the sign of each corner: +1 or -1.

    The sign is -1 where an odd number of the corner's coordinates are ends. ``starts`` and
    ``ends``, of shape (boxes, rank), have each box's first index and exclusive end. The corners
    have the shape (boxes * 2**rank, rank), the signs (boxes * 2**rank,).
    """
    boxes, rank = starts.shape
    choices = (np.arange(2**rank)[:, None] >> np.arange(rank)) & 1
    signs = 1 - 2 * (choices.sum(axis=1) & 1)
    points = np.where(choices[None] == 1, ends[:, None], starts[:, None])
    return points.reshape(-1, rank), np.tile(signs, boxes)
