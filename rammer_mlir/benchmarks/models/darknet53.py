"""Build DarkNet-53 for 256x256 images (Redmon and Farhadi, "YOLOv3", 2018, Tables 1 and 2)."""

from __future__ import annotations

from dataclasses import dataclass

import onnx

from rammer_mlir.benchmarks.models.builder import GraphBuilder, Value
from rammer_mlir.benchmarks.models.moments import LEAKY_SLOPE
from rammer_mlir.benchmarks.models.scale import Scale


@dataclass(frozen=True)
class DarkNet:
    """Sizes: image, channels of the first convolution, residual blocks of each stage, classes."""

    image: int
    width: int
    blocks: tuple[int, ...]
    classes: int


SIZES = {
    "full": DarkNet(256, 32, (1, 2, 8, 8, 4), 1000),
    "small": DarkNet(32, 4, (1, 2), 20),
}


def build(batch: int, scale: Scale) -> onnx.ModelProto:
    """Build the classifier: ``image`` [N, 3, 256, 256] f32 to ``logits`` [N, 1000] f32."""
    size = SIZES[scale]
    g = GraphBuilder("darknet53", seed=53)
    x = g.input("image", [batch, 3, size.image, size.image])
    with g.scope("stem"):
        x = _conv(g, x, size.width, 3)
    for stage, blocks in enumerate(size.blocks):
        channels = size.width << (stage + 1)
        with g.scope(f"stage{stage + 1}"):
            x = _conv(g, x, channels, 3, stride=2)
            for block in range(blocks):
                with g.scope(f"block{block + 1}"):
                    x = g.op("Add", x, _conv(g, _conv(g, x, channels // 2, 1), channels, 3))
    x = g.op("Flatten", g.op("GlobalAveragePool", x))
    g.output(g.gemm(x, size.classes), "logits")
    return g.finish()


def _conv(g: GraphBuilder, x: Value, channels: int, kernel: int, stride: int = 1) -> Value:
    """Add convolution, batch norm and leaky ReLU, and return the result."""
    x = g.batch_norm(g.conv(x, channels, kernel, stride=stride))
    return g.op("LeakyRelu", x, alpha=LEAKY_SLOPE)
