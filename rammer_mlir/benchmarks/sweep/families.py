"""Define the families of random cases: each function adds nodes and returns their result.

Each function takes a graph builder ``g``, to which it adds nodes, and an object ``s`` that draws
random sizes. All tensors are f32. Images are [N, C, H, W].
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rammer_mlir.benchmarks.models import weights
from rammer_mlir.benchmarks.models.builder import GraphBuilder, Value
from rammer_mlir.benchmarks.sweep.sizes import Sizes

Family = Callable[[GraphBuilder, Sizes], Value]

_ACTIVATIONS = ("Relu", "Sigmoid", "Tanh", "HardSwish", "Gelu", "Softplus")
_BINARY = ("Add", "Sub", "Mul", "Max")


def _batch(s: Sizes) -> int:
    return s.one_of(1, 1, 1, 1, 2, 3, 4, 8, 16, 32)


def _activated(g: GraphBuilder, s: Sizes, x: Value) -> Value:
    return g.op(s.named(*_ACTIVATIONS), x) if s.chance(0.5) else x


def product(g: GraphBuilder, s: Sizes) -> Value:
    """Add a matrix product of an input and constant weights; return the result.

    Half of the cases are a Gemm with a bias, of which half have an activation. The other half are a
    MatMul.
    """
    rows, inner = s.size(1, 512), s.size(8, 4096)
    x = g.input("x", [rows, inner])
    features = s.size(1, 8192)
    if s.chance(0.5):
        return _activated(g, s, g.gemm(x, features))
    weight = weights.filters(g.rng, [features, inner], x.moments).T
    return g.op("MatMul", x, g.constant(weight, "weight"))


def given_product(g: GraphBuilder, s: Sizes) -> Value:
    """Add a matrix product of two inputs, each of which may be transposed; return the result."""
    rows, inner, columns = s.size(1, 1024), s.size(8, 2048), s.size(1, 1024)
    left, right = s.chance(0.3), s.chance(0.3)
    x = g.input("x", [inner, rows] if left else [rows, inner])
    y = g.input("y", [columns, inner] if right else [inner, columns])
    return g.op("Gemm", x, y, transA=int(left), transB=int(right))


def batch_product(g: GraphBuilder, s: Sizes) -> Value:
    """Add a MatMul of two inputs of random sizes [batch, rows, columns]; return the result."""
    batch = s.one_of(1, 2, 3, 8, 12, 16, 32)
    rows, inner, columns = s.size(1, 256), s.size(8, 256), s.size(1, 256)
    x, y = g.input("x", [batch, rows, inner]), g.input("y", [batch, inner, columns])
    return g.op("MatMul", x, y)


def attention(g: GraphBuilder, s: Sizes) -> Value:
    """Add multi-head attention; return the result. Queries, keys and values are inputs."""
    batch, heads, width = s.one_of(1, 1, 2), s.one_of(1, 4, 8, 12), s.one_of(32, 40, 64, 80, 128)
    queries, keys = s.size(1, 384), s.size(4, 384)
    q = g.input("q", [batch, heads, queries, width])
    k, v = (g.input(name, [batch, heads, keys, width]) for name in "kv")
    scores = g.op("MatMul", q, g.op("Transpose", k, perm=[0, 1, 3, 2]))
    scaled = g.op("Mul", scores, g.constant(np.array(width**-0.5, np.float32), "scale"))
    return g.op("MatMul", g.op("Softmax", scaled, axis=-1), v)


def _image(g: GraphBuilder, s: Sizes, channels: int, most: int) -> Value:
    """Add and return an input, an image [N, ``channels``, H, W] of random N, H and W.

    H and W are at most ``most``, and smaller for larger N.
    """
    batch = _batch(s)
    high = max(4, round(most / batch**0.5))
    height = s.size(3, high)
    width = height if s.chance(0.7) else s.size(3, high)
    return g.input("x", [batch, channels, height, width])


def _convolved(
    g: GraphBuilder, s: Sizes, x: Value, channels: int, kernel: int, groups: int, dilation: int
) -> Value:
    shape = [channels, x.shape[1] // groups, kernel, kernel]
    operands = [x, g.constant(weights.filters(g.rng, shape, x.moments), "weight")]
    if s.chance(0.7):
        operands.append(g.constant(weights.bias(g.rng, channels), "bias"))
    found = g.op(
        "Conv", *operands, kernel_shape=[kernel] * 2, strides=[s.one_of(1, 1, 1, 2)] * 2,
        pads=[dilation * (kernel // 2)] * 4, dilations=[dilation] * 2, group=groups,
    )  # fmt: skip
    return _activated(g, s, found)


def convolution(g: GraphBuilder, s: Sizes) -> Value:
    """Add a convolution of an image, sometimes dilated; return the result.

    The filters have 1 to 7 pixels in height and width.
    """
    channels, kernel = s.size(1, 512), s.one_of(1, 1, 3, 3, 3, 5, 7)
    x = _image(g, s, channels, 112 if channels < 64 else 56)
    dilation = s.one_of(1, 1, 1, 2, 4) if kernel > 1 else 1
    return _convolved(g, s, x, s.size(1, 512), kernel, 1, dilation)


def grouped_convolution(g: GraphBuilder, s: Sizes) -> Value:
    """Add a grouped convolution of an image; return the result. Half of the cases are depthwise."""
    if s.chance(0.5):
        groups = channels = s.size(3, 768)
        results = channels * s.one_of(1, 1, 1, 2)
    else:
        groups = s.one_of(2, 3, 4, 8, 32)
        channels, results = groups * s.size(1, 32), groups * s.size(1, 32)
    x = _image(g, s, channels, 64)
    return _convolved(g, s, x, results, s.one_of(3, 3, 5, 7), groups, s.one_of(1, 1, 1, 2))


def transposed_convolution(g: GraphBuilder, s: Sizes) -> Value:
    """Add a transposed convolution of an image; return the result."""
    channels, results, stride = s.size(1, 256), s.size(1, 256), s.one_of(1, 2, 2, 4)
    x = _image(g, s, channels, 48)
    kernel = stride + s.between(0, 2)
    shape = [channels, results, kernel, kernel]
    weight = g.constant(weights.filters(g.rng, shape, x.moments), "weight")
    return g.op("ConvTranspose", x, weight, kernel_shape=[kernel] * 2, strides=[stride] * 2)


def convolution_1d(g: GraphBuilder, s: Sizes) -> Value:
    """Add a 1D convolution, of an input [N, channels, length]; return the result."""
    channels, kernel, dilation = s.size(1, 512), s.one_of(1, 3, 3, 5, 9), s.one_of(1, 1, 2, 4)
    x = g.input("x", [_batch(s), channels, s.size(4, 1024)])
    weight = weights.filters(g.rng, [s.size(1, 512), channels, kernel], x.moments)
    found = g.op(
        "Conv", x, g.constant(weight, "weight"), kernel_shape=[kernel], dilations=[dilation],
        pads=[dilation * (kernel // 2)] * 2,
    )  # fmt: skip
    return _activated(g, s, found)


def normalization(g: GraphBuilder, s: Sizes) -> Value:
    """Add a layer normalization of rows or an instance normalization of an image.

    Return the result.
    """
    if s.chance(0.6):
        return g.layer_norm(g.input("x", [_batch(s), s.size(1, 512), s.size(8, 4096)]))
    channels = s.size(1, 256)
    x = _image(g, s, channels, 64)
    scale, bias = (g.constant(f(g.rng, channels), "p") for f in (weights.scale, weights.bias))
    return g.op("InstanceNormalization", x, scale, bias)


def _matrix(g: GraphBuilder, s: Sizes) -> Value:
    rows = s.size(1, 2048)
    return g.input("x", [rows, s.size(2, max(8, 2_000_000 // rows))])


def softmax(g: GraphBuilder, s: Sizes) -> Value:
    """Add a softmax along the rows or the columns of a matrix; return the result."""
    return g.op("Softmax", _matrix(g, s), axis=s.one_of(-1, -1, -1, 0))


def transposition(g: GraphBuilder, s: Sizes) -> Value:
    """Add a transposition of a tensor of rank 2 to 4; return the result."""
    rank = s.between(2, 4)
    most = {2: 1536, 3: 128, 4: 40}[rank]
    x = g.input("x", [s.size(2, most) for _ in range(rank)])
    perm = [int(i) for i in g.rng.permutation(rank)]
    return g.op("Transpose", x, perm=perm if perm != sorted(perm) else perm[::-1])


def pooling(g: GraphBuilder, s: Sizes) -> Value:
    """Add a maximum or average pooling of an image; return the result.

    A fifth of the cases are global poolings.
    """
    x = _image(g, s, s.size(1, 512), 112)
    if s.chance(0.2):
        return g.op(s.named("GlobalAveragePool", "GlobalMaxPool"), x)
    kernel, stride = s.one_of(2, 3, 3, 5), s.one_of(1, 2, 2)
    kernel = min(kernel, *x.shape[2:])
    return g.op(
        s.named("MaxPool", "AveragePool"), x, kernel_shape=[kernel] * 2, strides=[stride] * 2,
        pads=[s.one_of(0, kernel // 2)] * 4,
    )  # fmt: skip


def resize(g: GraphBuilder, s: Sizes) -> Value:
    """Add a Resize of an image; return the result.

    In half of the cases, height and width are doubled; in the others, they are random.
    """
    x = _image(g, s, s.size(1, 128), 64)
    if s.chance(0.5):
        sizes = [2 * x.shape[2], 2 * x.shape[3]]
    else:
        sizes = [s.size(3, 128), s.size(3, 128)]
    return g.op(
        "Resize", x, None, None, g.integers(*x.shape[:2], *sizes),
        mode=s.named("nearest", "linear"), coordinate_transformation_mode=s.named(
            "half_pixel", "asymmetric"), nearest_mode="floor",
    )  # fmt: skip


def gather(g: GraphBuilder, s: Sizes) -> Value:
    """Add a Gather of rows of a constant table, and multiply the rows by an input.

    Return the product.
    """
    rows, width = s.size(2, 4096), s.size(1, 1024)
    scale = g.input("x", [width])
    table = g.constant(weights.filters(g.rng, [rows, width], scale.moments), "table")
    index = g.constant(g.rng.integers(0, rows, s.size(1, 2048)), "index")
    return g.op("Mul", g.op("Gather", table, index, axis=0), scale)


def elementwise(g: GraphBuilder, s: Sizes) -> Value:
    """Add one to four elementwise operators, some with broadcasting; return the last result."""
    x = g.input("x", [_batch(s), s.size(1, 128), s.size(1, 128), s.size(1, 64)])
    found = x
    for number in range(s.between(1, 4)):
        if s.chance(0.4):
            found = g.op(s.named(*_ACTIVATIONS, "Exp", "Abs"), found)
            continue
        shape = [size if s.chance(0.5) else 1 for size in x.shape]
        found = g.op(s.named(*_BINARY), found, g.input(f"y{number}", shape))
    return found


def reduction(g: GraphBuilder, s: Sizes) -> Value:
    """Add a reduction of a tensor over random axes; return the result."""
    x = g.input("x", [s.size(1, 64), s.size(1, 256), s.size(1, 256)])
    axes = [axis for axis in range(3) if s.chance(0.5)] or [s.between(0, 2)]
    kind = s.named("ReduceSum", "ReduceMean", "ReduceMax", "ReduceL2")
    return g.op(kind, x, g.integers(*axes), keepdims=s.one_of(0, 1))


def movement(g: GraphBuilder, s: Sizes) -> Value:
    """Add a Slice of an image, a Pad, and a Concat with another input; return the result."""
    x = _image(g, s, s.size(2, 128), 64)
    axis = s.between(1, 3)
    end = max(1, x.shape[axis] - 1)
    part = g.op("Slice", x, g.integers(0), g.integers(end), g.integers(axis))
    padded = g.op("Pad", part, g.integers(0, 0, 1, 1, 0, 0, 1, 1))
    other = g.input("y", [padded.shape[0], s.size(1, 64), *padded.shape[2:]])
    return g.op("Concat", padded, other, axis=1)


def feed_forward(g: GraphBuilder, s: Sizes) -> Value:
    """Add layer norm, linear layer, activation, linear layer and residual; return the result."""
    width = s.size(16, 1024)
    x = g.input("x", [s.size(1, 256), width])
    hidden = g.op(s.named("Relu", "Gelu"), g.linear(g.layer_norm(x), width * s.one_of(1, 2, 4)))
    return g.op("Add", x, g.linear(hidden, width))


def separable_block(g: GraphBuilder, s: Sizes) -> Value:
    """Add an inverted residual block (as in MobileNet); return the result.

    The block has an expansion, a depthwise convolution, a projection, and the residual.
    """
    channels = s.size(3, 128)
    x = _image(g, s, channels, 56)
    wide = channels * s.one_of(2, 4, 6)
    y = g.op("HardSwish", g.batch_norm(g.conv(x, wide, 1)))
    y = g.op("HardSwish", g.batch_norm(g.conv(y, wide, s.one_of(3, 5), groups=wide)))
    return g.op("Add", x, g.batch_norm(g.conv(y, channels, 1)))


FAMILIES: dict[str, Family] = {
    family.__name__: family
    for family in (
        product, given_product, batch_product, attention, convolution, grouped_convolution,
        transposed_convolution, convolution_1d, normalization, softmax, transposition, pooling,
        resize, gather, elementwise, reduction, movement, feed_forward, separable_block,
    )
}  # fmt: skip
"""The functions that build cases, by the name of the family."""
