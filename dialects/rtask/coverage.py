"""Decides from the corners of boxes whether they cover an array exactly once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def first_miscovered(
    starts: Ints, ends: Ints, shape: Sequence[int]
) -> tuple[tuple[int, ...], int] | None:
    """Return the first element that is not in exactly one of the boxes.

    The indicator function of a box has a mixed difference that is +1 or -1 at its corners and 0
    elsewhere. The boxes cover the array exactly once if and only if their differences add up to the
    difference of the box that is the whole array. This costs O(n log n) for n boxes, regardless of
    the array's size.

    Args:
        starts: (boxes, rank) int64, the first element of each box.
        ends: (boxes, rank) int64, the exclusive end of each box.
        shape: the array's extent in each dimension.

    Returns:
        The indices of the first element, in row-major order, that is in no box or in several boxes,
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
    """Return the 2**rank corners of all boxes, and the sign of each in the mixed difference.

    ``starts`` and ``ends``, of shape (boxes, rank), have the first element and the exclusive end of
    each box. The results have the shapes (boxes * 2**rank, rank) and (boxes * 2**rank,).
    """
    boxes, rank = starts.shape
    choices = (np.arange(2**rank)[:, None] >> np.arange(rank)) & 1
    signs = 1 - 2 * (choices.sum(axis=1) & 1)
    points = np.where(choices[None] == 1, ends[:, None], starts[:, None])
    return points.reshape(-1, rank), np.tile(signs, boxes)
