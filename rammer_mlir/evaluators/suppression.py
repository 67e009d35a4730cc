"""Performs non-maximum suppression: of overlapping boxes, keeps the box with the highest score."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rammer_mlir.evaluators.operation import Numbers, Operation


def non_max_suppression(operation: Operation) -> Sequence[Numbers]:
    """Evaluate NonMaxSuppression: return an int64 array [selected boxes, 3].

    Each row has the indices of a selected box: batch, class and box. Boxes of equal scores are
    selected in the order of their box indices.
    """
    boxes, scores = operation.input(0), operation.input(1)
    most = _scalar(operation, 2, 0.0)
    overlap, least = _scalar(operation, 3, 0.0), operation.find(4)
    corners = _corners(boxes, bool(operation.attribute("center_point_box", 0)))
    found: list[tuple[int, int, int]] = []
    for batch, category in np.ndindex(scores.shape[:2]):
        given = scores[batch, category]
        order = np.argsort(-given, kind="stable")
        if least is not None:
            order = order[given[order] > least.reshape(-1)[0]]
        chosen = _select(corners[batch], order, overlap, int(most))
        found += [(batch, category, box) for box in chosen]
    return [np.array(found, np.int64).reshape(-1, 3)]


def _scalar(operation: Operation, number: int, default: float) -> float:
    value = operation.find(number)
    return default if value is None else float(value.reshape(-1)[0])


def _corners(boxes: Numbers, is_centered: bool) -> Numbers:
    """Return the corners of each box as an array [..., 4]: lower corner, then upper corner.

    ``boxes`` [..., 4] has two opposite corners of each box, in any order. If ``is_centered``, it
    has the center and the two sizes of each box instead.
    """
    first, second = boxes[..., :2], boxes[..., 2:]
    if is_centered:
        return np.concatenate([first - second / 2, first + second / 2], -1)
    return np.concatenate([np.minimum(first, second), np.maximum(first, second)], -1)


_BLOCK = 64
"""Number of candidates compared at once, with one another and with the selected boxes.

Larger blocks compare more candidates than needed; smaller blocks need more calls of NumPy.
"""


def _select(corners: Numbers, order: Numbers, overlap: float, most: int) -> list[int]:
    """Return the indices of the selected boxes, at most ``most``.

    Args:
        corners: lower and upper corner of each box, [boxes, 4].
        order: indices of the candidate boxes, by descending score.
        overlap: largest allowed intersection over union of two selected boxes.
        most: largest number of boxes to select.
    """
    chosen: list[int] = []
    for begin in range(0, order.size, _BLOCK):
        block = order[begin : begin + _BLOCK]
        block = block[~_overlaps(corners[chosen], corners[block], overlap).any(0)]
        suppressed = np.zeros(block.size, np.bool_)
        for place, rivals in enumerate(_overlaps(corners[block], corners[block], overlap)):
            if len(chosen) == most:
                return chosen
            if not suppressed[place]:
                chosen.append(int(block[place]))
                suppressed |= rivals
    return chosen


def _overlaps(first: Numbers, second: Numbers, overlap: float) -> Numbers:
    """Return a boolean array [n, m]: whether boxes of ``first`` and ``second`` overlap too much.

    Args:
        first: lower and upper corner of ``n`` boxes, [n, 4].
        second: lower and upper corner of ``m`` boxes, [m, 4].
        overlap: the largest allowed intersection over union of two boxes.
    """
    left, right = first[:, np.newaxis], second[np.newaxis]
    sides = [
        np.maximum(
            np.minimum(left[..., axis + 2], right[..., axis + 2])
            - np.maximum(left[..., axis], right[..., axis]),
            0,
        )
        for axis in (0, 1)
    ]
    common = sides[0] * sides[1]
    union = _areas(left) + _areas(right) - common
    return (common > 0) & (common > overlap * union)


def _areas(corners: Numbers) -> Numbers:
    return (corners[..., 2] - corners[..., 0]) * (corners[..., 3] - corners[..., 1])
