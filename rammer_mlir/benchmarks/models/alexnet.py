"""Build AlexNet for 224x224 images, for a single device (RAMMER, Table 1).

Sizes are those of Krizhevsky, "One weird trick for parallelizing convolutional neural networks",
2014. Unlike the network of 2012 and the "light" AlexNet of the onnx package, this network has no
split into two halves and no local response normalization.
"""

from __future__ import annotations

from dataclasses import dataclass

import onnx

from rammer_mlir.benchmarks.models.builder import GraphBuilder, Value
from rammer_mlir.benchmarks.models.scale import Scale


@dataclass(frozen=True)
class AlexNet:
    """Sizes of an AlexNet.

    Attributes:
        image: height and width of the image in pixels.
        channels: output channels of the five convolutions.
        hidden: features of each of the two hidden layers.
        classes: number of classes.
    """

    image: int
    channels: tuple[int, int, int, int, int]
    hidden: int
    classes: int


SIZES = {
    "full": AlexNet(224, (64, 192, 384, 384, 256), 4096, 1000),
    "small": AlexNet(64, (16, 24, 32, 32, 16), 64, 50),
}


def build(batch: int, scale: Scale) -> onnx.ModelProto:
    """Build the classifier: ``image`` [N, 3, 224, 224] f32 to ``probabilities`` [N, 1000] f32."""
    size = SIZES[scale]
    first, second, *rest = size.channels
    g = GraphBuilder("alexnet", seed=2012)
    x = g.input("image", [batch, 3, size.image, size.image])
    x = g.op("Relu", g.conv(x, first, 11, stride=4, pads=[2, 2, 2, 2], with_bias=True))
    x = _pool(g, x)
    x = _pool(g, g.op("Relu", g.conv(x, second, 5, with_bias=True)))
    for channels in rest:
        x = g.op("Relu", g.conv(x, channels, 3, with_bias=True))
    x = g.op("Flatten", _pool(g, x))
    for _ in range(2):
        x = g.op("Relu", g.gemm(x, size.hidden))
    g.output(g.op("Softmax", g.gemm(x, size.classes), axis=-1), "probabilities")
    return g.finish()


def _pool(g: GraphBuilder, x: Value) -> Value:
    return g.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2])
