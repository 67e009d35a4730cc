"""Build NASNet-A (Zoph et al., CVPR 2018) in three sizes: 6 @ 768, 6 @ 4032 and 4 @ 1056.

N @ P has N normal cells in each stack and P channels before the classifier:
- 6 @ 768 is for 32x32 images (RAMMER's Table 1);
- 6 @ 4032 is for 331x331 images (scheduled by IOS);
- 4 @ 1056 is for 224x224 images (RAMMER's Figure 13).

The cells are those of the paper's Figure 4; a cell reads the outputs of the two preceding cells. As
in the paper's appendix, separable convolutions are applied twice, each preceded by a ReLU and
followed by a batch norm. A 1x1 convolution converts each input of a cell to the cell's number of
channels. If the output of the cell before the preceding cell has twice the height and width, a
factorized reduction converts it instead. The auxiliary classifier of training is omitted.
"""

from __future__ import annotations

from dataclasses import dataclass

import onnx

from rammer_mlir.benchmarks.models.builder import GraphBuilder, Value
from rammer_mlir.benchmarks.models.scale import Scale

CLASSES = 10
CONCATENATED = 6
"""Number of tensors that a normal cell concatenates: its older input and its five blocks."""


@dataclass(frozen=True)
class NasNet:
    """Sizes of a NASNet-A.

    Attributes:
        image: height and width of the image in pixels.
        repeats: number of normal cells in each stack, N in the name N @ P.
        penultimate: number of channels before the classifier, P in the name N @ P.
    """

    image: int
    repeats: int
    """Number of normal cells in each of the three stacks."""
    penultimate: int
    """Number of channels before the classifier.

    A block of the first stack's cells has 1/24 of these channels.
    """


SIZES = {"full": NasNet(32, 6, 768), "small": NasNet(16, 1, 96)}
LARGE_SIZES = {"full": NasNet(331, 6, 4032), "small": NasNet(59, 0, 192)}
MOBILE_SIZES = {"full": NasNet(224, 4, 1056), "small": NasNet(59, 0, 192)}
LARGE_STEM, MOBILE_STEM = 96, 32
IMAGENET_CLASSES = 1000


def build(batch: int, scale: Scale) -> onnx.ModelProto:
    """Build NASNet-A 6 @ 768: ``image`` [N, 3, 32, 32] f32 to ``logits`` [N, 10] f32."""
    size = SIZES[scale]
    filters = size.penultimate // (CONCATENATED * 4)
    g = GraphBuilder("nasnet_a_6_768", seed=6768)
    image = g.input("image", [batch, 3, size.image, size.image])
    with g.scope("stem"):
        current = g.batch_norm(g.conv(image, 3 * filters, 3))
    g.output(_stacks(g, current, current, filters, size.repeats, CLASSES), "logits")
    return g.finish()


def build_large(batch: int, scale: Scale) -> onnx.ModelProto:
    """Build NASNet-A 6 @ 4032: ``image`` [N, 3, 331, 331] f32 to ``logits`` [N, 1000] f32."""
    return _for_imagenet("nasnet_a_6_4032", 4032, LARGE_SIZES[scale], LARGE_STEM, batch)


def build_mobile(batch: int, scale: Scale) -> onnx.ModelProto:
    """Build NASNet-A 4 @ 1056: ``image`` [N, 3, 224, 224] f32 to ``logits`` [N, 1000] f32."""
    return _for_imagenet("nasnet_a_4_1056", 1056, MOBILE_SIZES[scale], MOBILE_STEM, batch)


def _for_imagenet(name: str, seed: int, size: NasNet, stem: int, batch: int) -> onnx.ModelProto:
    """Build a NASNet-A for the classes of ImageNet; return it as a model named ``name``.

    The network is a convolution of stride 2 with ``stem`` channels, two reduction cells, and then
    the stacks and the classifier of ``_stacks``.
    """
    filters = size.penultimate // (CONCATENATED * 4)
    g = GraphBuilder(name, seed)
    image = g.input("image", [batch, 3, size.image, size.image])
    with g.scope("stem"):
        first = g.batch_norm(g.conv(image, stem, 3, stride=2, pads=[0, 0, 0, 0]))
    with g.scope("stem/reduction1"):
        second = _reduction_cell(g, first, first, filters // 4)
    with g.scope("stem/reduction2"):
        third = _reduction_cell(g, second, first, filters // 2)
    g.output(_stacks(g, third, second, filters, size.repeats, IMAGENET_CLASSES), "logits")
    return g.finish()


def _stacks(
    g: GraphBuilder, current: Value, previous: Value, filters: int, repeats: int, classes: int
) -> Value:
    """Add three stacks of ``repeats`` normal cells and the final classifier; return the logits.

    There is a reduction cell between two stacks. ``current`` is the result of the cell or
    convolution before the first cell, ``previous`` the result that precedes ``current``.
    ``filters`` is the number of channels of a block (two operations and their sum) in the first
    stack; the number doubles from stack to stack.
    """
    for stack in range(3):
        if stack > 0:
            filters *= 2
            with g.scope(f"reduction{stack}"):
                current, previous = _reduction_cell(g, current, previous, filters), current
        for cell in range(repeats):
            with g.scope(f"stack{stack + 1}/cell{cell + 1}"):
                current, previous = normal_cell(g, current, previous, filters), current
    features = g.op("GlobalAveragePool", g.op("Relu", current))
    return g.gemm(g.op("Flatten", features), classes)


def normal_cell(g: GraphBuilder, current: Value, previous: Value, filters: int) -> Value:
    """Add a normal cell of NASNet-A, and return its result [N, 6 * filters, H, W].

    ``current`` [N, *, H, W] is the result of the preceding cell. ``previous`` is the result of the
    cell that precedes the preceding cell, and may have twice the height and width.
    """
    previous = _adjust(g, previous, current.shape[2], filters)
    current = _project(g, current, filters)
    blocks = [
        g.op("Add", _separable(g, current, 5), _separable(g, previous, 3)),
        g.op("Add", _separable(g, previous, 5), _separable(g, previous, 3)),
        g.op("Add", _pool(g, "AveragePool", current), previous),
        g.op("Add", _pool(g, "AveragePool", previous), _pool(g, "AveragePool", previous)),
        g.op("Add", _separable(g, current, 3), current),
    ]
    return g.op("Concat", previous, *blocks, axis=1)


def _reduction_cell(g: GraphBuilder, current: Value, previous: Value, filters: int) -> Value:
    """Add a reduction cell that halves height and width, and return its result."""
    previous = _adjust(g, previous, current.shape[2], filters)
    current = _project(g, current, filters)
    first = g.op("Add", _separable(g, current, 5, 2), _separable(g, previous, 7, 2))
    second = g.op("Add", _pool(g, "MaxPool", current, 2), _separable(g, previous, 7, 2))
    third = g.op("Add", _pool(g, "AveragePool", current, 2), _separable(g, previous, 5, 2))
    fourth = g.op("Add", second, _pool(g, "AveragePool", first))
    fifth = g.op("Add", _separable(g, first, 3), _pool(g, "MaxPool", current, 2))
    return g.op("Concat", second, third, fourth, fifth, axis=1)


def _separable(g: GraphBuilder, x: Value, kernel: int, stride: int = 1) -> Value:
    """Add ReLU, depthwise and pointwise convolution and batch norm, twice; return the result."""
    channels = x.shape[1]
    with g.scope(f"separable{kernel}x{kernel}"):
        for step in (stride, 1):
            x = g.op("Relu", x)
            x = g.conv(x, channels, kernel, stride=step, groups=channels)
            x = g.batch_norm(g.conv(x, channels, 1))
    return x


def _pool(g: GraphBuilder, op_type: str, x: Value, stride: int = 1) -> Value:
    return g.op(op_type, x, kernel_shape=[3, 3], strides=[stride, stride], pads=[1, 1, 1, 1])


def _project(g: GraphBuilder, x: Value, filters: int) -> Value:
    with g.scope("project"):
        return g.batch_norm(g.conv(g.op("Relu", x), filters, 1))


def _adjust(g: GraphBuilder, x: Value, height: int, filters: int) -> Value:
    """Convert ``x`` to ``filters`` channels; halve its height and width if these are too large.

    ``x`` is the result of the cell that precedes the preceding cell; its height is ``height`` or
    twice as large. Return ``x`` itself if nothing has to change.
    """
    with g.scope("adjust"):
        if x.shape[2] != height:
            return _factorized_reduction(g, x, filters)
        if x.shape[1] != filters:
            return _project(g, x, filters)
        return x


def _factorized_reduction(g: GraphBuilder, x: Value, filters: int) -> Value:
    """Halve height and width by two convolutions, on the even and on the odd positions of ``x``.

    Return the batch-normalized concatenation of the results, with ``filters`` channels.
    """
    even = g.op("Relu", x)
    padded = g.op("Pad", even, g.integers(0, 0, 0, 0, 0, 0, 1, 1))
    ends = g.integers(x.shape[2] + 1, x.shape[3] + 1)
    odd = g.op("Slice", padded, g.integers(1, 1), ends, g.integers(2, 3))
    paths: list[Value] = []
    for path in (even, odd):
        sampled = g.op("AveragePool", path, kernel_shape=[1, 1], strides=[2, 2])
        paths.append(g.conv(sampled, filters // 2, 1))
    return g.batch_norm(g.op("Concat", *paths, axis=1))
