"""Build Inception v3 for 299x299 images (Szegedy et al., CVPR 2016; IOS, Table 2).

Every convolution has a batch norm and a ReLU. The auxiliary classifier of training is omitted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import onnx

from rammer_mlir.benchmarks.models.builder import GraphBuilder, Value
from rammer_mlir.benchmarks.models.scale import Scale


@dataclass(frozen=True)
class InceptionV3:
    """Sizes of an Inception v3.

    Attributes:
        image: height and width of the image in pixels.
        thinner: divisor of all numbers of channels.
        pooled_35: channels of the pooling branch, for each module on the 35x35 grid.
        factored_17: channels inside the branches of factored 7x7 convolutions, for each module on
            the 17x17 grid.
        modules_8: number of modules on the 8x8 grid.
        classes: number of classes.
    """

    image: int
    thinner: int
    pooled_35: tuple[int, ...]
    """Channels of the pooled branch of each module on the 35x35 grid."""
    factored_17: tuple[int, ...]
    """Channels inside the factored 7x7 branches of each module on the 17x17 grid."""
    modules_8: int
    classes: int


SIZES = {
    "full": InceptionV3(299, 1, (32, 64, 64), (128, 160, 160, 192), 2, 1000),
    "small": InceptionV3(75, 8, (32,), (128,), 1, 20),
}


def build(batch: int, scale: Scale) -> onnx.ModelProto:
    """Build the classifier: ``image`` [N, 3, 299, 299] f32 to ``logits`` [N, 1000] f32."""
    size = SIZES[scale]
    g = GraphBuilder("inception_v3", seed=299)
    net = _Inception(g, size.thinner)
    x = g.input("image", [batch, 3, size.image, size.image])
    with g.scope("stem"):
        x = net.conv(x, 32, 3, stride=2, valid=True)
        x = net.conv(net.conv(x, 32, 3, valid=True), 64, 3)
        x = net.conv(net.shrink(x), 80, 1)
        x = net.shrink(net.conv(x, 192, 3, valid=True))
    for number, channels in enumerate(size.pooled_35):
        with g.scope(f"grid35/module{number + 1}"):
            x = net.module_35(x, channels)
    with g.scope("reduction17"):
        x = net.reduction_17(x)
    for number, channels in enumerate(size.factored_17):
        with g.scope(f"grid17/module{number + 1}"):
            x = net.module_17(x, channels)
    with g.scope("reduction8"):
        x = net.reduction_8(x)
    for number in range(size.modules_8):
        with g.scope(f"grid8/module{number + 1}"):
            x = net.module_8(x)
    x = g.op("Flatten", g.op("GlobalAveragePool", x))
    g.output(g.gemm(x, size.classes), "logits")
    return g.finish()


@dataclass(frozen=True)
class _Inception:
    g: GraphBuilder
    thinner: int

    def conv(
        self,
        x: Value,
        channels: int,
        kernel: int | tuple[int, int],
        *,
        stride: int = 1,
        valid: bool = False,
    ) -> Value:
        """Add a convolution, a batch norm and a ReLU; return the result.

        The padding keeps height and width at stride 1; with ``valid``, there is no padding.
        ``channels`` is the paper's number of output channels; it is divided by ``thinner``.
        """
        pads = [0, 0, 0, 0] if valid else None
        x = self.g.conv(x, channels // self.thinner, kernel, stride=stride, pads=pads)
        return self.g.op("Relu", self.g.batch_norm(x))

    def chain(self, x: Value, *layers: tuple[int, int | tuple[int, int]]) -> Value:
        """Add a chain of convolutions, and return the result of the last one.

        Each element of ``layers`` has the number of channels and the kernel size of a convolution.
        """
        for channels, kernel in layers:
            x = self.conv(x, channels, kernel)
        return x

    def shrink(self, x: Value) -> Value:
        """Add a max pooling that halves height and width; return the result."""
        return self.g.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2])

    def pooled(self, x: Value, channels: int) -> Value:
        """Add an average pooling over 3x3 and a 1x1 convolution; return the result."""
        attributes = {"kernel_shape": [3, 3], "strides": [1, 1], "pads": [1, 1, 1, 1]}
        return self.conv(self.g.op("AveragePool", x, **attributes), channels, 1)

    def join(self, branches: Sequence[Value]) -> Value:
        """Add a concatenation along the channels; return the result."""
        return self.g.op("Concat", *branches, axis=1)

    def module_35(self, x: Value, pooled: int) -> Value:
        """Add a module of the 35x35 grid (the paper's Figure 5); return its output.

        ``pooled`` is the number of channels of the pooling branch in the full-size network.
        """
        small = self.conv(x, 64, 1)
        middle = self.chain(x, (48, 1), (64, 5))
        large = self.chain(x, (64, 1), (96, 3), (96, 3))
        return self.join([small, middle, large, self.pooled(x, pooled)])

    def reduction_17(self, x: Value) -> Value:
        """Add the reduction from the 35x35 to the 17x17 grid (Figure 10); return its output."""
        direct = self.conv(x, 384, 3, stride=2, valid=True)
        deep = self.chain(x, (64, 1), (96, 3))
        return self.join([direct, self.conv(deep, 96, 3, stride=2, valid=True), self.shrink(x)])

    def module_17(self, x: Value, inner: int) -> Value:
        """Add a module of the 17x17 grid (Figure 6); return its output.

        Its 7x7 convolutions are factored into chains of 1x7 and 7x1 convolutions. ``inner`` is the
        number of channels, in the full-size network, of every convolution of a chain but the last.
        """
        row, column = (1, 7), (7, 1)
        once = self.chain(x, (inner, 1), (inner, row), (192, column))
        twice = self.chain(
            x, (inner, 1), (inner, column), (inner, row), (inner, column), (192, row)
        )
        return self.join([self.conv(x, 192, 1), once, twice, self.pooled(x, 192)])

    def reduction_8(self, x: Value) -> Value:
        """Add the reduction from the 17x17 to the 8x8 grid; return its output."""
        direct = self.conv(self.conv(x, 192, 1), 320, 3, stride=2, valid=True)
        deep = self.chain(x, (192, 1), (192, (1, 7)), (192, (7, 1)))
        return self.join([direct, self.conv(deep, 192, 3, stride=2, valid=True), self.shrink(x)])

    def module_8(self, x: Value) -> Value:
        """Add a module of the 8x8 grid, with branches that split again; return the output.

        See the paper's Figure 7.
        """
        middle = self.conv(x, 384, 1)
        large = self.chain(x, (448, 1), (384, 3))
        fans = [self.conv(y, 384, kernel) for y in (middle, large) for kernel in ((1, 3), (3, 1))]
        return self.join([self.conv(x, 320, 1), *fans, self.pooled(x, 192)])
