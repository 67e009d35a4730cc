"""Build ResNeXt (Xie et al., CVPR 2017) in two sizes: 29 layers, 16x64d, and 101 layers, 64x4d.

16x64d means a cardinality of 16 groups with 64 channels each. The network of 29 layers is for 32x32
images (RAMMER's Table 1), the network of 101 layers for 224x224 images (RAMMER's Figure 13).
"""

from __future__ import annotations

from dataclasses import dataclass

import onnx

from rammer_mlir.benchmarks.models.builder import GraphBuilder, Value
from rammer_mlir.benchmarks.models.scale import Scale

CLASSES = 10


@dataclass(frozen=True)
class ResNeXt:
    """Sizes of a ResNeXt.

    Attributes:
        image: height and width of the image in pixels.
        stem_channels: channels of the first convolution.
        blocks: number of blocks in each stage.
        cardinality: number of groups of the grouped convolutions.
        group_width: channels of a group in the first stage; the number doubles from stage to stage.
        output_channels: output channels of the first stage; the number doubles from stage to stage.
    """

    image: int
    stem_channels: int
    blocks: tuple[int, ...]
    """Number of blocks in each stage."""
    cardinality: int
    group_width: int
    output_channels: int
    """Output channels of the first stage; each later stage doubles them."""


SIZES = {
    "full": ResNeXt(32, 64, (3, 3, 3), 16, 64, 256),
    "small": ResNeXt(16, 8, (1, 1, 1), 4, 4, 32),
}
IMAGENET_SIZES = {
    "full": ResNeXt(224, 64, (3, 4, 23, 3), 64, 4, 256),
    "small": ResNeXt(32, 8, (1, 1, 1, 1), 4, 4, 32),
}
IMAGENET_CLASSES = 1000


def build(batch: int, scale: Scale) -> onnx.ModelProto:
    """Build ResNeXt-29, 16x64d: ``image`` [N, 3, 32, 32] f32 to ``logits`` [N, 10] f32."""
    size = SIZES[scale]
    g = GraphBuilder("resnext29_16x64d", seed=29)
    x = g.input("image", [batch, 3, size.image, size.image])
    with g.scope("stem"):
        x = _conv_norm_relu(g, x, size.stem_channels, 3)
    g.output(_stages(g, x, size, CLASSES), "logits")
    return g.finish()


def build_imagenet(batch: int, scale: Scale) -> onnx.ModelProto:
    """Build ResNeXt-101, 64x4d: ``image`` [N, 3, 224, 224] f32 to ``logits`` [N, 1000] f32."""
    size = IMAGENET_SIZES[scale]
    g = GraphBuilder("resnext101_64x4d", seed=101)
    x = g.input("image", [batch, 3, size.image, size.image])
    with g.scope("stem"):
        x = _conv_norm_relu(g, x, size.stem_channels, 7, stride=2)
        x = g.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    g.output(_stages(g, x, size, IMAGENET_CLASSES), "logits")
    return g.finish()


def _stages(g: GraphBuilder, x: Value, size: ResNeXt, classes: int) -> Value:
    """Add all stages and the classifier; return the logits.

    Each stage but the first halves height and width.
    """
    for stage, blocks in enumerate(size.blocks):
        width = size.cardinality * size.group_width << stage
        for block in range(blocks):
            stride = 2 if stage > 0 and block == 0 else 1
            with g.scope(f"stage{stage + 1}/block{block + 1}"):
                x = _block(g, x, width, size.output_channels << stage, size.cardinality, stride)
    return g.gemm(g.op("Flatten", g.op("GlobalAveragePool", x)), classes)


def _conv_norm_relu(
    g: GraphBuilder, x: Value, channels: int, kernel: int, stride: int = 1, groups: int = 1
) -> Value:
    x = g.batch_norm(g.conv(x, channels, kernel, stride=stride, groups=groups))
    return g.op("Relu", x)


def _block(
    g: GraphBuilder, x: Value, width: int, channels: int, cardinality: int, stride: int
) -> Value:
    """Add a bottleneck and its shortcut, and return the result.

    The bottleneck is a 1x1, a grouped 3x3 and a 1x1 convolution; the shortcut is projected if
    the input and the result have different shapes.
    """
    branch = _conv_norm_relu(g, x, width, 1)
    branch = _conv_norm_relu(g, branch, width, 3, stride, cardinality)
    branch = g.batch_norm(g.conv(branch, channels, 1))
    if x.shape != branch.shape:
        with g.scope("shortcut"):
            x = g.batch_norm(g.conv(x, channels, 1, stride=stride))
    return g.op("Relu", g.op("Add", branch, x))
