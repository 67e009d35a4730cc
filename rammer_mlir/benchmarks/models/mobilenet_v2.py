"""Build MobileNet v2 for 224x224 images (Sandler et al., CVPR 2018, Table 2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx

from rammer_mlir.benchmarks.models.builder import GraphBuilder, Value
from rammer_mlir.benchmarks.models.scale import Scale


@dataclass(frozen=True)
class Stage:
    """Consecutive inverted residuals: a row of the paper's table.

    Attributes:
        expansion: ratio of the depthwise convolution's channels to the input channels (t).
        channels: number of output channels (c).
        repeats: number of inverted residuals (n).
        stride: stride of the first inverted residual (s).
    """

    expansion: int
    channels: int
    repeats: int
    stride: int


@dataclass(frozen=True)
class MobileNetV2:
    """Sizes of a MobileNet v2.

    ``first`` and ``last`` are the channels of the first and the last convolution.
    """

    image: int
    first: int
    stages: tuple[Stage, ...]
    last: int
    classes: int


SIZES = {
    "full": MobileNetV2(
        224,
        32,
        (
            Stage(1, 16, 1, 1),
            Stage(6, 24, 2, 2),
            Stage(6, 32, 3, 2),
            Stage(6, 64, 4, 2),
            Stage(6, 96, 3, 1),
            Stage(6, 160, 3, 2),
            Stage(6, 320, 1, 1),
        ),
        1280,
        1000,
    ),
    "small": MobileNetV2(32, 8, (Stage(1, 4, 1, 1), Stage(6, 8, 2, 2)), 32, 20),
}


def build(batch: int, scale: Scale) -> onnx.ModelProto:
    """Build the classifier: ``image`` [N, 3, 224, 224] f32 to ``logits`` [N, 1000] f32."""
    size = SIZES[scale]
    g = GraphBuilder("mobilenet_v2", seed=2018)
    x = g.input("image", [batch, 3, size.image, size.image])
    with g.scope("stem"):
        x = _relu6(g, g.batch_norm(g.conv(x, size.first, 3, stride=2)))
    for number, stage in enumerate(size.stages):
        for repeat in range(stage.repeats):
            with g.scope(f"stage{number + 1}/block{repeat + 1}"):
                x = _inverted_residual(g, x, stage, stage.stride if repeat == 0 else 1)
    x = _relu6(g, g.batch_norm(g.conv(x, size.last, 1)))
    x = g.op("Flatten", g.op("GlobalAveragePool", x))
    g.output(g.gemm(x, size.classes), "logits")
    return g.finish()


def _relu6(g: GraphBuilder, x: Value) -> Value:
    low, high = (g.constant(np.array(bound, np.float32), "bound") for bound in (0, 6))
    return g.op("Clip", x, low, high)


def _inverted_residual(g: GraphBuilder, x: Value, stage: Stage, stride: int) -> Value:
    """Add an inverted residual, and return its result.

    An inverted residual consists of an expansion, a depthwise convolution, a linear projection, and
    a shortcut if the input and the result have the same shape.
    """
    inner, y = x.shape[1] * stage.expansion, x
    if stage.expansion > 1:
        y = _relu6(g, g.batch_norm(g.conv(y, inner, 1)))
    y = _relu6(g, g.batch_norm(g.conv(y, inner, 3, stride=stride, groups=inner)))
    y = g.batch_norm(g.conv(y, stage.channels, 1))
    return g.op("Add", x, y) if x.shape == y.shape else y
