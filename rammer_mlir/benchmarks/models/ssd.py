"""Build single-shot detectors (Liu et al., ECCV 2016), as GluonCV defines them.

The detectors are SSD 512 on MobileNet v1 (Howard et al., 2017) with 20 classes, and SSD 300 on
ResNet-34 with 80 classes. Anchors, decoding and suppression are in the model. Of all pairs of a
class and a box, the model passes the 400 with the highest scores to suppression, and keeps at most
100 after suppression.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import onnx

from rammer_mlir.benchmarks.models import resnet
from rammer_mlir.benchmarks.models.boxes import (
    Detections,
    Suppression,
    constant_boxes,
    decode,
    highest,
    outputs,
    suppress,
    take,
)
from rammer_mlir.benchmarks.models.builder import GraphBuilder, Value
from rammer_mlir.benchmarks.models.scale import Scale

SCALES = (0.1, 0.2)
"""Factors of the predicted offsets of centers, and of the predicted logarithms of sizes."""

RULE = Suppression(overlap=0.45, least=0.01, most=100)
CANDIDATES = 400

OUTPUTS = ("scores", "boxes", "labels")

_TWO = (1, 2, 1 / 2)
_THREE = (1, 2, 1 / 2, 3, 1 / 3)
RATIOS = (_TWO, _THREE, _THREE, _THREE, _TWO, _TWO)
"""Ratios of width to height of the anchors, for each feature map."""


@dataclass(frozen=True)
class Ssd:
    """Sizes of a detector.

    Attributes:
        image: height and width of the image in pixels.
        width: channels of the backbone's first convolution.
        extra: channels of each feature map that is added after the backbone.
        narrowest: lower bound of the channels of the 1x1 convolution before each added map.
        has_norms: whether the convolutions of the added maps have a batch norm instead of a bias.
        sizes: side in pixels of the smaller square anchor of each map, then an additional size.
            The side of a map's larger square anchor is the geometric mean of the map's size and
            the next size.
        steps: pixels from one anchor to the next, for each map.
        classes: number of classes, without the background.
    """

    image: int
    width: int
    extra: tuple[int, ...]
    narrowest: int
    has_norms: bool
    sizes: tuple[float, ...]
    steps: tuple[int, ...]
    classes: int


MOBILENET = {
    "full": Ssd(
        512, 32, (512, 512, 256, 256), 128, True, (51.2, 102.4, 189.4, 276.4, 363.52, 450.6, 492),
        (16, 32, 64, 128, 256, 512), 20,
    ),
    "small": Ssd(64, 4, (16, 16), 8, True, (8, 16, 30, 48, 60), (16, 32, 64, 64), 3),
}  # fmt: skip
RESNET_34 = {
    "full": Ssd(
        300, 64, (256, 256, 128, 128), 128, False, (21, 45, 99, 153, 207, 261, 315),
        (8, 16, 32, 64, 100, 300), 80,
    ),
    "small": Ssd(75, 4, (8, 8), 8, False, (8, 16, 30, 48, 70), (8, 16, 32, 75), 3),
}  # fmt: skip
_BLOCKS = {"full": (3, 4, 6, 3), "small": (1, 1, 1, 1)}
_STRIDES = (1, 2, 1, 2)
"""Strides of ResNet-34's stages; the third keeps the size in this detector."""

_SEPARABLE = {
    "full": ((2, 1), (4, 2), (4, 1), (8, 2), (8, 1), (16, 2), *((16, 1),) * 5, (32, 2), (32, 1)),
    "small": ((2, 1), (4, 2), (8, 2), (16, 2), (32, 2)),
}
"""MobileNet's separable convolutions: channels relative to the first convolution, and stride."""


def build_mobilenet(batch: int, scale: Scale) -> onnx.ModelProto:
    """Build SSD 512 on MobileNet v1.

    The input is ``image`` [N, 3, 512, 512] f32, the outputs are ``scores``, ``boxes``, ``labels``.
    """
    size = MOBILENET[scale]
    g = GraphBuilder("ssd_512_mobilenet", seed=512)
    x = g.input("image", [batch, 3, size.image, size.image])
    maps = _mobilenet(g, x, size.width, _SEPARABLE[scale])
    return _detector(g, maps, size, last_pad=1)


def build_resnet(batch: int, scale: Scale) -> onnx.ModelProto:
    """Build SSD 300 on ResNet-34.

    The input is ``image`` [N, 3, 300, 300] f32, the outputs are ``scores``, ``boxes``, ``labels``.
    """
    size = RESNET_34[scale]
    g = GraphBuilder("ssd_300_resnet34", seed=300)
    x = g.input("image", [batch, 3, size.image, size.image])
    shape = resnet.ResNet("", size.image, size.width, _BLOCKS[scale], False, 0)
    found = resnet.stages(g, resnet.stem(g, x, size.width), shape, _STRIDES)
    return _detector(g, [found[1], found[3]], size, last_pad=0)


def _mobilenet(
    g: GraphBuilder, x: Value, width: int, separable: Sequence[tuple[int, int]]
) -> list[Value]:
    """Add MobileNet v1 without its classifier; return its last maps at strides 16 and 32.

    ``separable`` has a pair for each separable convolution: the number of output channels as a
    multiple of ``width``, and the stride.
    """
    with g.scope("stem"):
        x = resnet.conv_norm_relu(g, x, width, 3, 2)
    maps: list[Value] = []
    for number, (times, stride) in enumerate(separable):
        if stride == 2:
            maps.append(x)
        with g.scope(f"separable{number + 1}"):
            y = g.conv(x, x.shape[1], 3, stride=stride, groups=x.shape[1])
            x = resnet.conv_norm_relu(g, g.op("Relu", g.batch_norm(y)), times * width, 1)
    return [maps[-1], x]


def _detector(g: GraphBuilder, maps: list[Value], size: Ssd, last_pad: int) -> onnx.ModelProto:
    maps = [*maps, *_extra(g, maps[-1], size, last_pad)]
    anchors = [_anchors(m, size, number) for number, m in enumerate(maps)]
    depths = [len(ratios) + 1 for ratios in RATIOS]
    classes = _predictions(g, maps, "classes", depths, size.classes + 1)
    deltas = _predictions(g, maps, "boxes", depths, 4)
    centers, sizes = (np.concatenate(each) for each in zip(*anchors, strict=True))
    boxes = decode(g, deltas, constant_boxes(g, centers, sizes), SCALES)
    found = suppress(g, _candidates(g, classes, boxes), RULE)
    outputs(g, found, OUTPUTS)
    return g.finish()


def _extra(g: GraphBuilder, x: Value, size: Ssd, last_pad: int) -> list[Value]:
    """Add and return feature maps after the backbone.

    Each map is the result of a 1x1 convolution and a 3x3 convolution of stride 2 on the previous
    map. ``last_pad`` is the padding of the last map's 3x3 convolution; the padding of all other
    maps is 1.
    """
    found: list[Value] = []
    for number, channels in enumerate(size.extra):
        pad = last_pad if number == len(size.extra) - 1 else 1
        with g.scope(f"extra{number + 1}"):
            y = g.conv(x, max(channels, size.narrowest), 1, with_bias=not size.has_norms)
            y = _norm_relu(g, y, size)
            y = g.conv(y, channels, 3, stride=2, pads=[pad] * 4, with_bias=not size.has_norms)
            x = _norm_relu(g, y, size)
        found.append(x)
    return found


def _norm_relu(g: GraphBuilder, x: Value, size: Ssd) -> Value:
    return g.op("Relu", g.batch_norm(x) if size.has_norms else x)


def _anchors(
    features: Value, size: Ssd, number: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return centers and sizes [H * W * depth, 2] in pixels of the anchors of a feature map.

    ``features`` is the map, [N, C, H, W]; ``number`` is its index among the maps, the finest first.
    ``depth`` is the number of anchors at each position of the map.
    """
    rows, columns = np.mgrid[: features.shape[2], : features.shape[3]] + 0.5
    own, following = size.sizes[number : number + 2]
    between = np.sqrt(own * following)
    shapes = [(own, own), (between, between)]
    shapes += [(own * np.sqrt(r), own / np.sqrt(r)) for r in RATIOS[number][1:]]
    cells = np.stack([columns, rows], -1).reshape(-1, 1, 2) * size.steps[number]
    spread = np.broadcast_to(cells, (len(cells), len(shapes), 2))
    return spread.reshape(-1, 2), np.tile(np.array(shapes), (len(cells), 1))


def _predictions(
    g: GraphBuilder, maps: Sequence[Value], name: str, depths: Sequence[int], length: int
) -> Value:
    """Add a 3x3 convolution on each map; return the predictions of all maps, [N, anchors, length].

    Args:
        g: the graph.
        maps: the feature maps.
        name: scope of the nodes' names.
        depths: number of anchors at each position, for each map.
        length: number of predictions for each anchor.
    """
    found: list[Value] = []
    with g.scope(name):
        for features, depth in zip(maps, depths, strict=False):
            y = g.conv(features, depth * length, 3, with_bias=True)
            y = g.op("Transpose", y, perm=[0, 2, 3, 1])
            found.append(g.reshape(y, y.shape[0], -1, length))
        return g.op("Concat", *found, axis=1)


def _candidates(g: GraphBuilder, classes: Value, boxes: Value) -> Detections:
    """Return the ``CANDIDATES`` pairs of a class and a box with the highest scores of each image.

    ``classes`` has the scores [N, anchors, classes] before softmax, the background first. The
    background is not a candidate. A box can occur with several classes.
    """
    batch, anchors, length = classes.shape
    scores = g.op("Softmax", classes, axis=-1)
    scores = g.op("Slice", scores, g.integers(1), g.integers(length), g.integers(2))
    scores = g.reshape(g.op("Transpose", scores, perm=[0, 2, 1]), batch, -1)
    found, numbers = highest(g, scores, CANDIDATES)
    per_class = g.constant(np.array(anchors, np.int64))
    at = g.op("Mod", numbers, per_class)
    return Detections(found, take(g, boxes, at), g.op("Div", numbers, per_class))
