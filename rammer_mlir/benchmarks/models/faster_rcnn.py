"""Build Faster R-CNN on a ResNet-50 feature pyramid (Ren et al., 2015; Lin et al., CVPR 2017).

Sizes, anchors and thresholds are torchvision's, except that images are 512x512, and 300 proposals
are kept instead of 1000. As in GluonCV, the number of proposals is fixed: RoI pooling reads all
proposals on each pyramid level. A proposal belongs to one level, which depends on its size. On all
other levels, the proposal's box is moved outside of the image, so that pooling gives zeros. The sum
over the levels is therefore the result of the proposal's own level.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import onnx

from rammer_mlir.benchmarks.models import resnet, weights
from rammer_mlir.benchmarks.models.boxes import (
    Detections,
    Suppression,
    centers_and_sizes,
    clip,
    constant_boxes,
    decode,
    highest,
    outputs,
    scalar,
    suppress,
    take,
)
from rammer_mlir.benchmarks.models.builder import GraphBuilder, Value
from rammer_mlir.benchmarks.models.scale import Scale
from rammer_mlir.benchmarks.models.ssd import OUTPUTS

RATIOS = (0.5, 1.0, 2.0)
"""Heights of anchors over their widths."""

LONGEST = math.log(1000 / 16)
"""Upper bound of the logarithm of the factor by which a box grows."""

HEAD_SCALES = (1 / 10, 1 / 5)
BIN = 7
"""Height and width of the features that are pooled from a proposal."""

OUTSIDE = -1000.0
"""Coordinate of all corners of a box from which zeros are pooled."""


@dataclass(frozen=True)
class FasterRcnn:
    """Sizes of a detector.

    Attributes:
        image: height and width of the image in pixels.
        backbone: the ResNet.
        channels: channels of each level of the pyramid.
        anchors: side in pixels of the square anchor of the finest level; the side doubles from each
            level to the next.
        candidates: number of proposals of each level and image before suppression.
        proposals: number of proposals of each image after suppression.
        hidden: features of each of the two hidden layers of the head.
        classes: number of classes, including the background.
        detections: maximum number of detections of an image.
    """

    image: int
    backbone: resnet.ResNet
    channels: int
    anchors: float
    candidates: int
    proposals: int
    hidden: int
    classes: int
    detections: int


SIZES = {
    "full": FasterRcnn(
        512, resnet.RESNET_50["full"], 256, 32, 1000, 300, 1024, 91, 100,
    ),
    "small": FasterRcnn(
        64, resnet.ResNet("", 64, 4, (1, 1, 1, 1), True, 0), 8, 16, 40, 12, 16, 4, 10,
    ),
}  # fmt: skip


def build(batch: int, scale: Scale) -> onnx.ModelProto:
    """Build the detector for images of 512x512 pixels.

    The input is ``image`` [N, 3, 512, 512] f32, the outputs are ``scores``, ``boxes``, ``labels``.
    """
    return build_sized(batch, SIZES[scale])


def build_sized(batch: int, size: FasterRcnn) -> onnx.ModelProto:
    """Build a detector of the given sizes, with the inputs and outputs of ``build``.

    The input has the height and width ``size.image``.
    """
    g = GraphBuilder("faster_rcnn_resnet50_fpn", seed=2017)
    image = g.input("image", [batch, 3, size.image, size.image])
    maps = resnet.stages(g, resnet.stem(g, image, size.backbone.width), size.backbone)
    with g.scope("pyramid"):
        maps = _pyramid(g, maps, size.channels)
    with g.scope("proposals"):
        proposals = _proposals(g, maps, size)
    with g.scope("head"):
        found = _head(g, maps[:4], proposals, size)
        found = suppress(g, found, Suppression(0.5, 0.05, size.detections))
    outputs(g, found, OUTPUTS)
    return g.finish()


def _pyramid(g: GraphBuilder, maps: Sequence[Value], channels: int) -> list[Value]:
    """Return the levels of a feature pyramid, the finest first.

    ``maps`` are the results of the backbone's stages. Coarser levels are added to finer levels; a
    level of half the size of the coarsest is appended.
    """
    sides = [g.conv(x, channels, 1, with_bias=True) for x in maps]
    merged = [sides[-1]]
    for side in reversed(sides[:-1]):
        factors = g.constant(np.array([1, 1, 2, 2], np.float32), "factors")
        coarse = g.op(
            "Resize", merged[0], None, factors, mode="nearest", nearest_mode="floor",
            coordinate_transformation_mode="asymmetric",
        )  # fmt: skip
        merged.insert(0, g.op("Add", side, coarse))
    found = [g.conv(x, channels, 3, with_bias=True) for x in merged]
    return [*found, g.op("MaxPool", found[-1], kernel_shape=[1, 1], strides=[2, 2])]


def _proposals(g: GraphBuilder, maps: Sequence[Value], size: FasterRcnn) -> Detections:
    """Return the boxes most likely to contain an object, those of all levels together, best first.

    ``maps`` are the levels of the pyramid. A box's label is the index of its level. Boxes that
    overlap a better box of the same level are suppressed: they come last, with score -1.
    """
    predictor = _Predictor.of(g, maps[0])
    levels: list[tuple[Value, Value]] = []
    for level, features in enumerate(maps):
        scores, deltas = predictor.apply(g, features)
        found, order = highest(g, scores, size.candidates)
        centers, sides = _anchors(features, size.anchors * 2**level, size.image)
        pairs = [g.op("Gather", one, order) for one in constant_boxes(g, centers, sides)]
        boxes = decode(g, take(g, deltas, order), (pairs[0], pairs[1]), (1, 1), LONGEST)
        levels.append((g.op("Sigmoid", found), clip(g, boxes, size.image)))
    scores, boxes = (g.op("Concat", *each, axis=1) for each in zip(*levels, strict=True))
    numbers = [np.full(found.shape, level) for level, (found, _) in enumerate(levels)]
    labels = g.constant(np.concatenate(numbers, 1).astype(np.int64), "level")
    rule = Suppression(overlap=0.7, least=0, most=size.proposals)
    return suppress(g, Detections(scores, boxes, labels), rule)


@dataclass(frozen=True)
class _Predictor:
    """The layers that predict a score and offsets for each anchor of a level of the pyramid.

    Each layer is a convolution, given by its filters and its bias; all levels share the layers.

    Attributes:
        shared: the 3x3 convolution whose result the other two layers read.
        scores: the 1x1 convolution to scores.
        deltas: the 1x1 convolution to offsets.
    """

    shared: tuple[Value, Value]
    scores: tuple[Value, Value]
    deltas: tuple[Value, Value]

    @staticmethod
    def of(g: GraphBuilder, features: Value) -> _Predictor:
        """Return a predictor with random filters for feature maps like ``features``.

        The filters have the number of channels of ``features``. Their scale depends on the mean and
        the variance of ``features``.
        """
        channels, anchors = features.shape[1], len(RATIOS)

        def draw(outputs: int, side: int) -> tuple[Value, Value]:
            shape = [outputs, channels, side, side]
            filters = weights.filters(g.rng, shape, features.moments)
            bias = weights.bias(g.rng, outputs)
            return g.constant(filters, "weight"), g.constant(bias, "bias")

        return _Predictor(draw(channels, 3), draw(anchors, 1), draw(4 * anchors, 1))

    def apply(self, g: GraphBuilder, features: Value) -> tuple[Value, Value]:
        """Return scores [N, M] and offsets [N, M, 4] of all anchors of a level."""
        batch = features.shape[0]
        inner = g.op("Relu", g.op("Conv", features, *self.shared, pads=[1, 1, 1, 1]))
        scores = g.op("Transpose", g.op("Conv", inner, *self.scores), perm=[0, 2, 3, 1])
        deltas = g.op("Transpose", g.op("Conv", inner, *self.deltas), perm=[0, 2, 3, 1])
        return g.reshape(scores, batch, -1), g.reshape(deltas, batch, -1, 4)


def _anchors(
    features: Value, side: float, image: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return centers and sizes [H * W * R, 2] in pixels of the anchors of a level.

    H and W are the height and width of ``features``, R is the count of aspect ratios. ``side`` is
    the side of the square anchor, ``image`` the side of the image, both in pixels.
    """
    step = image // features.shape[2]
    rows, columns = np.mgrid[: features.shape[2], : features.shape[3]] * step
    ratios = np.sqrt(RATIOS)
    shapes = np.rint(np.stack([side / ratios, side * ratios], -1) / 2) * 2
    cells = np.stack([columns, rows], -1).reshape(-1, 1, 2)
    centers = np.broadcast_to(cells, (len(cells), len(RATIOS), 2)).reshape(-1, 2)
    return centers, np.tile(shapes, (len(cells), 1))


def _head(
    g: GraphBuilder, maps: Sequence[Value], proposals: Detections, size: FasterRcnn
) -> Detections:
    """Return a detection (score, box and label) for each pair of a proposal and a class.

    The background is not a class here. Detections of suppressed proposals have score -1. ``maps``
    are the levels of the pyramid.
    """
    batch, count = proposals.scores.shape
    x = g.reshape(_pooled(g, maps, proposals, size), batch * count, -1)
    for _ in range(2):
        x = g.op("Relu", g.gemm(x, size.hidden))
    scores = g.op("Softmax", g.gemm(x, size.classes), axis=-1)
    scores = g.op("Where", _is_left(g, proposals, [batch * count, 1]), scores, scalar(g, -1))
    deltas = g.reshape(g.gemm(x, 4 * size.classes), batch * count, size.classes, 4)
    rows = g.reshape(proposals.boxes, batch * count, 1, 4)
    boxes = decode(g, deltas, centers_and_sizes(g, rows), HEAD_SCALES, LONGEST)
    scores, boxes = (_foreground(g, value, batch) for value in (scores, boxes))
    labels = np.tile(np.arange(1, size.classes), (batch, count))
    numbers = g.constant(labels.astype(np.int64), "labels")
    return Detections(scores, clip(g, boxes, size.image), numbers)


def _is_left(g: GraphBuilder, proposals: Detections, shape: list[int]) -> Value:
    """Return a boolean mask of shape ``shape``: true for proposals that are not suppressed.

    Suppressed proposals have negative scores.
    """
    return g.reshape(g.op("GreaterOrEqual", proposals.scores, scalar(g, 0)), *shape)


def _foreground(g: GraphBuilder, values: Value, batch: int) -> Value:
    """Return ``values`` [N * K, C, ...] as [N, K * (C - 1), ...], without the background class.

    ``batch`` is the number N of images, K the number of proposals of an image, C the number of
    classes.
    """
    last = values.shape[1]
    values = g.op("Slice", values, g.integers(1), g.integers(last), g.integers(1))
    return g.reshape(values, batch, -1, *values.shape[2:])


def _pooled(
    g: GraphBuilder, maps: Sequence[Value], proposals: Detections, size: FasterRcnn
) -> Value:
    """Return RoI-pooled features [rows, C, BIN, BIN], a row for each proposal of each image.

    ``BIN`` is the height and width of the pooled features. The pyramid level from which a proposal
    is pooled depends on the proposal's size.
    """
    batch, count = proposals.scores.shape
    rows = g.reshape(proposals.boxes, batch * count, 4)
    images = g.constant(np.repeat(np.arange(batch), count).astype(np.int64), "images")
    level = _levels(g, rows, len(maps))
    found: list[Value] = []
    for number, features in enumerate(maps):
        own = g.op("Equal", level, g.constant(np.array(number, np.float32)))
        boxes = g.op("Where", own, rows, scalar(g, OUTSIDE))
        found.append(g.op(
            "RoiAlign", features, boxes, images, output_height=BIN, output_width=BIN,
            sampling_ratio=2, spatial_scale=features.shape[2] / size.image,
            coordinate_transformation_mode="output_half_pixel",
        ))  # fmt: skip
    return g.op("Sum", *found)


def _levels(g: GraphBuilder, rows: Value, count: int) -> Value:
    """Return the index [M, 1] of each box's pyramid level, as f32.

    ``rows`` are the corners [M, 4] of the boxes; ``count`` is the number of levels. A box of
    224x224 pixels has index 2, a box of twice the side the next index, up to ``count`` - 1.
    """
    _, sides = centers_and_sizes(g, rows)
    area = g.op("ReduceProd", sides, g.integers(1))
    side = g.op("Add", g.op("Mul", g.op("Sqrt", area), scalar(g, 1 / 224)), scalar(g, 1e-6))
    power = g.op("Mul", g.op("Log", side), scalar(g, 1 / math.log(2)))
    level = g.op("Add", g.op("Floor", power), scalar(g, 2))
    return g.op("Clip", level, scalar(g, 0), scalar(g, count - 1))
