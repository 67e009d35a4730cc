"""Build the subgraphs that detectors share: decoding of boxes, and non-maximum suppression.

A box is given by its corners ``left, top, right, bottom`` in pixels. The number of boxes that
suppression returns is fixed, as in GluonCV: suppressed boxes have score, label and corners -1, and
come last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rammer_mlir.benchmarks.models.builder import GraphBuilder, Value

NOTHING = -1
"""Value of the score, label and corners of a suppressed result."""


@dataclass(frozen=True)
class Detections:
    """M detected boxes in each of N images: scores [N, M], corners [N, M, 4], i64 labels [N, M]."""

    scores: Value
    boxes: Value
    labels: Value


@dataclass(frozen=True)
class Suppression:
    """Parameters of non-maximum suppression.

    Attributes:
        overlap: largest allowed intersection over union of two boxes with the same label.
        least: score threshold; boxes with this score or a lower one are suppressed.
        most: maximum number of remaining boxes of an image.
    """

    overlap: float
    least: float
    most: int


def scalar(g: GraphBuilder, value: float) -> Value:
    """Add an f32 constant of rank 0, and return it."""
    return g.constant(np.array(value, np.float32), "scalar")


def parts(g: GraphBuilder, x: Value, axis: int) -> list[Value]:
    """Split a tensor into two halves along ``axis``, and return them."""
    return g.ops("Split", x, num_outputs=2, axis=axis)


def decode(
    g: GraphBuilder,
    deltas: Value,
    boxes: tuple[Value, Value],
    scales: tuple[float, float],
    longest: float | None = None,
) -> Value:
    """Move and resize boxes by predicted offsets; return the corners [..., 4] of the results.

    Args:
        g: the graph.
        deltas: [..., 4]: offsets of the center in units of the box's size, then logarithms of the
            new size over the old size.
        boxes: centers and sizes of the boxes, [..., 2] each.
        scales: a factor by which the offsets are multiplied, and a factor for the logarithms.
        longest: upper bound of a multiplied logarithm; None for no bound.
    """
    (offset, growth), (center, size) = parts(g, deltas, -1), boxes
    offset = g.op("Mul", offset, scalar(g, scales[0]))
    growth = g.op("Mul", growth, scalar(g, scales[1]))
    if longest is not None:
        growth = g.op("Min", growth, scalar(g, longest))
    center = g.op("Add", g.op("Mul", offset, size), center)
    half = g.op("Mul", g.op("Mul", g.op("Exp", growth), size), scalar(g, 0.5))
    return g.op("Concat", g.op("Sub", center, half), g.op("Add", center, half), axis=-1)


def centers_and_sizes(g: GraphBuilder, boxes: Value) -> tuple[Value, Value]:
    """Return centers and sizes [..., 2] of boxes with corners [..., 4]."""
    low, high = parts(g, boxes, -1)
    size = g.op("Sub", high, low)
    return g.op("Add", low, g.op("Mul", size, scalar(g, 0.5))), size


def constant_boxes(
    g: GraphBuilder, centers: npt.NDArray[np.floating], sizes: npt.NDArray[np.floating]
) -> tuple[Value, Value]:
    """Add the centers and sizes [M, 2] of anchors as constants, and return both."""
    return (
        g.constant(centers.astype(np.float32), "centers"),
        g.constant(sizes.astype(np.float32), "sizes"),
    )


def clip(g: GraphBuilder, boxes: Value, image: int) -> Value:
    """Return corners clipped to a square image with sides of ``image`` pixels."""
    return g.op("Clip", boxes, scalar(g, 0), scalar(g, image))


def take(g: GraphBuilder, values: Value, order: Value) -> Value:
    """Gather elements of ``values`` [N, M, ...] at the indices ``order`` [N, K] i64.

    Row n of ``order`` has indices of image n. The result is [N, K, ...].
    """
    numbers = g.op("Unsqueeze", order, g.integers(-1))
    return g.op("GatherND", values, numbers, batch_dims=1)


def highest(g: GraphBuilder, scores: Value, most: int) -> tuple[Value, Value]:
    """Return the ``most`` highest scores of each image in descending order, and their indices.

    ``scores`` are [N, M]; the results are [N, K] with K = min(``most``, M).
    """
    found = g.ops("TopK", scores, g.integers(min(most, scores.shape[1])), num_outputs=2, axis=1)
    return found[0], found[1]


def best(g: GraphBuilder, given: Detections, most: int) -> Detections:
    """Return the ``most`` detections with the highest scores of each image, best first.

    If an image has fewer detections, return all.
    """
    scores, order = highest(g, given.scores, most)
    return Detections(scores, take(g, given.boxes, order), take(g, given.labels, order))


def suppress(g: GraphBuilder, given: Detections, rule: Suppression) -> Detections:
    """Apply non-maximum suppression: of overlapping boxes with the same label, keep the best box.

    The best box has the highest score. If each image of ``given`` has M boxes, each image of the
    result has min(rule.most, M): first the kept boxes, best first; then suppressed boxes with score
    -1.
    """
    scores = g.op("Unsqueeze", given.scores, g.integers(1))
    limits = [g.constant(np.array([limit], np.float32)) for limit in (rule.overlap, rule.least)]
    kept = g.op(
        "NonMaxSuppression", _separated_by_label(g, given), scores, g.integers(rule.most), *limits
    )
    # NonMaxSuppression returns triples (image, class, box).
    at = g.op("Gather", kept, g.integers(0, 2), axis=1)
    none = g.constant(np.full(given.scores.shape, NOTHING, np.float32), "none")
    left = g.op("ScatterND", none, at, g.op("GatherND", given.scores, at))
    # Suppressed scores are -1, so that sorting moves them to the end.
    return best(g, Detections(left, given.boxes, given.labels), rule.most)


def _separated_by_label(g: GraphBuilder, given: Detections) -> Value:
    """Return the boxes, each moved by an offset that is proportional to its label.

    The offset is so large that boxes of different labels do not overlap.
    """
    reach = g.op("ReduceMax", g.op("Abs", given.boxes), keepdims=0)
    distance = g.op("Add", g.op("Mul", reach, scalar(g, 2)), scalar(g, 1))
    labels = g.op("Unsqueeze", g.op("Cast", given.labels, to=1), g.integers(-1))
    return g.op("Add", given.boxes, g.op("Mul", labels, distance))


def outputs(g: GraphBuilder, found: Detections, names: Sequence[str]) -> None:
    """Declare scores [N, M], boxes [N, M, 4] and labels [N, M], in f32, as outputs of the model.

    ``names`` are the outputs' names. Boxes and labels of suppressed detections are replaced by -1.
    """
    is_left = g.op("GreaterOrEqual", found.scores, scalar(g, 0))
    nothing = scalar(g, NOTHING)
    boxes = g.op("Where", g.op("Unsqueeze", is_left, g.integers(-1)), found.boxes, nothing)
    labels = g.op("Where", is_left, g.op("Cast", found.labels, to=1), nothing)
    for value, name in zip((found.scores, boxes, labels), names, strict=True):
        g.output(value, name)
