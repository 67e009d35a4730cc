"""Build ResNets (He et al., CVPR 2016, Table 1; Bring Your Own Codegen, Table 1).

Images are 224x224 pixels. A bottleneck that halves height and width has stride 2 in its 3x3
convolution, as in torchvision and in GluonCV's v1b.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import onnx

from rammer_mlir.benchmarks.models.builder import GraphBuilder, Value
from rammer_mlir.benchmarks.models.scale import Scale

EXPANSION = 4
"""Ratio of the channels after a bottleneck to the channels inside it."""

BRANCH_GAIN = 0.25
"""Standard deviation of a block's result relative to its shortcut.

Trained networks refine their features gradually, too. With random blocks of full deviation,
rounding errors would grow: by a factor of a thousand in 50 layers.
"""


@dataclass(frozen=True)
class ResNet:
    """Sizes of a ResNet.

    Attributes:
        name: name of the model.
        image: height and width of the image in pixels.
        width: channels of the stem and of the first stage's 3x3 convolutions; each later stage has
            twice as many as the stage before.
        blocks: number of blocks in each stage.
        is_bottleneck: whether blocks are 1x1, 3x3, 1x1 convolutions instead of two 3x3
            convolutions.
        classes: number of classes.
    """

    name: str
    image: int
    width: int
    blocks: tuple[int, ...]
    is_bottleneck: bool
    classes: int


RESNET_18 = {
    "full": ResNet("resnet18", 224, 64, (2, 2, 2, 2), False, 1000),
    "small": ResNet("resnet18", 32, 8, (1, 1), False, 20),
}
RESNET_50 = {
    "full": ResNet("resnet50", 224, 64, (3, 4, 6, 3), True, 1000),
    "small": ResNet("resnet50", 32, 4, (1, 1), True, 20),
}


def build_18(batch: int, scale: Scale) -> onnx.ModelProto:
    """Build ResNet-18: ``image`` [N, 3, 224, 224] f32 to ``logits`` [N, 1000] f32."""
    return _build(RESNET_18[scale], batch)


def build_50(batch: int, scale: Scale) -> onnx.ModelProto:
    """Build ResNet-50: ``image`` [N, 3, 224, 224] f32 to ``logits`` [N, 1000] f32."""
    return _build(RESNET_50[scale], batch)


def _build(size: ResNet, batch: int) -> onnx.ModelProto:
    g = GraphBuilder(size.name, seed=2016)
    x = stem(g, g.input("image", [batch, 3, size.image, size.image]), size.width)
    x = stages(g, x, size)[-1]
    x = g.op("Flatten", g.op("GlobalAveragePool", x))
    g.output(g.gemm(x, size.classes), "logits")
    return g.finish()


def conv_norm_relu(g: GraphBuilder, x: Value, channels: int, kernel: int, stride: int = 1) -> Value:
    """Add a convolution without bias, a batch norm and a ReLU; return the result."""
    return g.op("Relu", g.batch_norm(g.conv(x, channels, kernel, stride=stride)))


def stem(g: GraphBuilder, image: Value, channels: int) -> Value:
    """Add a 7x7 convolution and a pooling; return the result.

    The result has a quarter of the image's height and width.
    """
    with g.scope("stem"):
        x = conv_norm_relu(g, image, channels, 7, 2)
        return g.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])


def stages(g: GraphBuilder, x: Value, size: ResNet, strides: Sequence[int] = ()) -> list[Value]:
    """Add the stages of a ResNet on ``x``, and return the result of each stage.

    ``strides`` has the stride of the first block of each stage; by default 1 in the first stage,
    and 2 in later stages.
    """
    found: list[Value] = []
    for stage, blocks in enumerate(size.blocks):
        first = strides[stage] if strides else 1 + (stage > 0)
        for block in range(blocks):
            with g.scope(f"stage{stage + 1}/block{block + 1}"):
                stride = first if block == 0 else 1
                x = _block(g, x, size.width << stage, stride, size.is_bottleneck)
        found.append(x)
    return found


def _block(g: GraphBuilder, x: Value, width: int, stride: int, is_bottleneck: bool) -> Value:
    """Add a block's convolutions and shortcut, and return the result.

    If ``is_bottleneck``, the block has a 1x1, a 3x3 and a 1x1 convolution; otherwise it has two 3x3
    convolutions. The shortcut is projected if the block's input and result have different
    shapes.
    """
    if is_bottleneck:
        y = conv_norm_relu(g, conv_norm_relu(g, x, width, 1), width, 3, stride)
        y = g.batch_norm(g.conv(y, EXPANSION * width, 1), BRANCH_GAIN)
    else:
        y = conv_norm_relu(g, x, width, 3, stride)
        y = g.batch_norm(g.conv(y, width, 3), BRANCH_GAIN)
    if x.shape != y.shape:
        with g.scope("shortcut"):
            x = g.batch_norm(g.conv(x, y.shape[1], 1, stride=stride))
    return g.op("Relu", g.op("Add", y, x))
