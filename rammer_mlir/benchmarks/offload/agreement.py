"""Compare the detections of two runs of a detector.

Rounding may change the order of the detections and their number.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rammer_mlir.benchmarks.comparison import Array
from rammer_mlir.benchmarks.models.ssd import OUTPUTS

SCORE, PIXELS = 0.01, 2.0
"""Largest differences between two equal detections: of scores, and of corners in pixels."""


def agreement(expected: Mapping[str, Array], found: Mapping[str, Array]) -> float | None:
    """Return the fraction of a detector's expected detections that were also found.

    ``expected`` and ``found`` map names of outputs to arrays. Two detections agree if their labels
    are equal, their scores differ by at most ``SCORE``, and the coordinates of their corners differ
    by at most ``PIXELS`` pixels. Suppressed detections, whose numbers are all -1, count too. The
    result is None if the outputs do not have the names of a detector's outputs.
    """
    if set(expected) != set(OUTPUTS) or set(found) != set(OUTPUTS):
        return None
    scores, boxes, labels = (_pairs(expected[name], found[name]) for name in OUTPUTS)
    is_same = (scores[..., 0] <= SCORE) & (labels[..., 0] == 0) & (boxes.max(-1) <= PIXELS)
    return float(is_same.any(-1).mean())


def _pairs(a: Array, b: Array) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Return the absolute difference of each row of ``a`` from each row of ``b``, for each image.

    Each argument has K rows of M elements for each of N images: [N, K, M]. The result is [N, K, K,
    M].
    """
    first, second = (np.asarray(each, np.float64) for each in (a, b))
    first, second = (each.reshape(*each.shape[:2], -1) for each in (first, second))
    return np.abs(first[:, :, None] - second[:, None, :])
