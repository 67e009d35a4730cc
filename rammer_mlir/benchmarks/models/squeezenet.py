"""Build SqueezeNet 1.0 with complex bypass (Iandola et al., 2016; IOS, Table 2).

The images are 224x224 pixels.
"""

from __future__ import annotations

from dataclasses import dataclass

import onnx

from rammer_mlir.benchmarks.models.builder import GraphBuilder, Value
from rammer_mlir.benchmarks.models.scale import Scale


@dataclass(frozen=True)
class SqueezeNet:
    """Sizes of a SqueezeNet.

    Attributes:
        image: height and width of the image in pixels.
        first: number of channels of the first convolution, before the fire modules.
        modules: for each fire module, the number of channels that it squeezes to; 0 stands for a
            pooling instead of a fire module.
        classes: number of classes.
    """

    image: int
    first: int
    modules: tuple[int, ...]
    """Squeezed channels of each fire module; zero stands for a pooling."""
    classes: int


SIZES = {
    "full": SqueezeNet(224, 96, (16, 16, 32, 0, 32, 48, 48, 64, 0, 64), 1000),
    "small": SqueezeNet(48, 8, (2, 2, 0, 4), 20),
}


def build(batch: int, scale: Scale) -> onnx.ModelProto:
    """Build the classifier: ``image`` [N, 3, 224, 224] f32 to ``logits`` [N, 1000] f32."""
    size = SIZES[scale]
    g = GraphBuilder("squeezenet", seed=50)
    x = g.input("image", [batch, 3, size.image, size.image])
    x = g.op("Relu", g.conv(x, size.first, 7, stride=2, with_bias=True))
    x = _pool(g, x)
    for number, squeezed in enumerate(size.modules):
        with g.scope(f"fire{number + 2}"):
            x = _fire(g, x, squeezed) if squeezed else _pool(g, x)
    x = g.op("Relu", g.conv(x, size.classes, 1, with_bias=True))
    g.output(g.op("Flatten", g.op("GlobalAveragePool", x)), "logits")
    return g.finish()


def _pool(g: GraphBuilder, x: Value) -> Value:
    return g.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2])


def _fire(g: GraphBuilder, x: Value, squeezed: int) -> Value:
    """Add a fire module that squeezes to ``squeezed`` channels, with its complex bypass.

    The bypass is a shortcut that is projected to the module's number of output channels.
    """
    expanded = 4 * squeezed
    inner = g.op("Relu", g.conv(x, squeezed, 1, with_bias=True))
    parts = [g.op("Relu", g.conv(inner, expanded, kernel, with_bias=True)) for kernel in (1, 3)]
    joined = g.op("Concat", *parts, axis=1)
    if x.shape[1] != 2 * expanded:
        with g.scope("bypass"):
            x = g.conv(x, 2 * expanded, 1, with_bias=True)
    return g.op("Add", joined, x)
