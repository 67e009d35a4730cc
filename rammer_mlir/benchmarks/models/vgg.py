"""Build VGG-19 for 224x224 images (Simonyan and Zisserman, ICLR 2015, Table 1, column E)."""

from __future__ import annotations

from dataclasses import dataclass

import onnx

from rammer_mlir.benchmarks.models.builder import GraphBuilder
from rammer_mlir.benchmarks.models.scale import Scale


@dataclass(frozen=True)
class Vgg:
    """Sizes of a VGG network.

    Attributes:
        image: height and width of the image.
        stages: a pair for each pooling: the channels and the count of the 3x3 convolutions
            between the previous pooling and this pooling.
        hidden: features of each of the classifier's two hidden layers.
        classes: number of classes.
    """

    image: int
    stages: tuple[tuple[int, int], ...]
    hidden: int
    classes: int


SIZES = {
    "full": Vgg(224, ((64, 2), (128, 2), (256, 4), (512, 4), (512, 4)), 4096, 1000),
    "small": Vgg(16, ((4, 1), (8, 2), (8, 2)), 32, 20),
}


def build(batch: int, scale: Scale) -> onnx.ModelProto:
    """Build the network: ``image`` [batch, 3, 224, 224] f32 to ``logits`` [batch, 1000] f32.

    With the scale "small", the image has 16x16 pixels, and there are 20 classes.
    """
    size = SIZES[scale]
    g = GraphBuilder("vgg19", seed=19)
    x = g.input("image", [batch, 3, size.image, size.image])
    for number, (channels, repeats) in enumerate(size.stages):
        with g.scope(f"stage{number + 1}"):
            for _ in range(repeats):
                x = g.op("Relu", g.conv(x, channels, 3, with_bias=True))
            x = g.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = g.op("Flatten", x)
    for _ in range(2):
        x = g.op("Relu", g.gemm(x, size.hidden))
    g.output(g.gemm(x, size.classes), "logits")
    return g.finish()
