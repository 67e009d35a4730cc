"""Generators of random contractions, pools, reductions, normalizations and recurrent layers.

Each adds nodes to a random graph.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from tests.fuzz.arrays import is_float
from tests.fuzz.graph import RandomGraph, Value
from tests.fuzz.operators.shaping import axes_as, axis_of
from tests.fuzz.oracle import Rejected

REDUCTIONS = (
    "ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceSumSquare "
    "ReduceLogSumExp ReduceLogSum ReduceSum ReduceMean ReduceMax"
).split()


_MOST_BITS = 100
"""Most bits of a product's partial results, less than the largest exponent of f32."""


def reduced(graph: RandomGraph) -> None:
    """Add a reduction of some axes, such as ReduceSum."""
    x = graph.tensor((1, 2, 3, 4), "ffffi")
    rank = len(x.shape)
    name = graph.random.choice(REDUCTIONS)
    axes = graph.random.sample(range(rank), graph.random.randrange(rank + 1))
    keepdims = graph.random.randrange(2)
    if not x.array.size:
        raise Rejected("ONNX leaves some of it open, and ONNX Runtime has shapes of its own")
    if name in ("ReduceLogSum", "ReduceLogSumExp") and x.dtype.kind == "i":
        raise Rejected("a rounding error becomes one, and no number any integer")
    if name == "ReduceProd" and is_float(x.dtype):
        with np.errstate(divide="ignore"):
            bits = np.log2(np.abs(x.array.astype(np.float64)))
        if np.maximum(bits, 0).sum() > _MOST_BITS:
            raise Rejected("the order decides whether it overflows before it meets a zero")
    if not axes:
        graph.node(name, [x], keepdims=keepdims)
        return
    shift = graph.random.choice((0, rank))
    since = 13 if name == "ReduceSum" else 18
    axes_as(graph, x, [axis - shift for axis in axes], name, since, keepdims=keepdims)


def softmax(graph: RandomGraph) -> None:
    """Add Softmax, LogSoftmax, Hardmax or LpNormalization."""
    name = graph.random.choice(("Softmax", "Softmax", "LogSoftmax", "Hardmax", "LpNormalization"))
    x = graph.tensor((1, 2, 3, 4), exact=name == "Hardmax")
    extra: dict[str, Any] = {"p": graph.random.choice((1, 2))} if name == "LpNormalization" else {}
    graph.node(name, [x], axis=axis_of(graph, len(x.shape)), **extra)


def product(graph: RandomGraph) -> None:
    """Add MatMul of matrices, vectors, or batches of matrices that may broadcast."""
    x = graph.tensor((1, 2, 2, 3, 4), "fffi")
    k, n = x.shape[-1], graph.size()
    batch = [1 if graph.random.random() < 0.4 else size for size in x.shape[:-2]]
    batch = batch[graph.random.choice((0, len(batch))) :]
    shape = (k,) if k and graph.random.random() < 0.1 else (*batch, k, n)
    graph.node("MatMul", [x, graph.weight(shape, x.dtype)])


def product_of_values(graph: RandomGraph) -> None:
    """Add MatMul of a value and its own transposition."""
    x = graph.tensor((2, 3))
    last = list(range(len(x.shape)))
    last[-2:] = last[-1], last[-2]
    (turned,) = graph.node("Transpose", [x], perm=last)
    graph.node("MatMul", [x, turned] if graph.random.random() < 0.5 else [turned, x])


def gemm(graph: RandomGraph) -> None:
    """Add Gemm with random factors, transpositions and addend."""
    x = graph.tensor(2, "fff")
    turned = [graph.random.randrange(2) for _ in range(2)]
    m, k = x.shape[::-1] if turned[0] else x.shape
    n = graph.size()
    w = graph.weight((n, k) if turned[1] else (k, n), x.dtype)
    addend = graph.random.choice(((), (n,), (1, n), (m, 1), (m, n), (1,)))
    operands = [x, w, graph.weight(addend, x.dtype)][: graph.random.choice((2, 3, 3))]
    factors: dict[str, Any] = {
        "alpha": graph.random.choice((1.0, 0.5)),
        "beta": graph.random.choice((1.0, 2.0)),
    }
    extra: dict[str, Any] = factors if graph.random.random() < 0.5 else {}
    if not k and "beta" in extra:
        raise Rejected("ONNX Runtime forgets the factor of the addend")
    graph.node("Gemm", operands, transA=turned[0], transB=turned[1], **extra)


EQUATIONS = (
    ("ij,jk->ik", 2, "jk"), ("ij,ij->i", 2, "ij"), ("bij,bjk->bik", 3, "bjk"), ("ij->ji", 2, ""),
    ("bij,bkj->bik", 3, "bkj"), ("ij->", 2, ""), ("i,j->ij", 1, "j"), ("abc,cd->abd", 3, "cd"),
    ("bhqd,bhkd->bhqk", 4, "bhkd"), ("ii->i", 2, ""), ("...ij,jk->...ik", 3, "jk"),
)  # fmt: skip


def einsum(graph: RandomGraph) -> None:
    """Add Einsum with an equation of ``EQUATIONS``."""
    equation, rank, other = graph.random.choice(EQUATIONS)
    x = graph.tensor(rank)
    letters = dict(zip(equation.replace("...", "b").partition(",")[0], x.shape, strict=False))
    shape = [letters.get(letter) or graph.size() for letter in other]
    operands = [x, graph.weight(shape, x.dtype)] if other else [x]
    graph.node("Einsum", operands, equation=equation)


def _image(graph: RandomGraph, rank: int) -> Value:
    if graph.random.random() < 0.7:
        found = graph.pick(lambda v: len(v.shape) == rank + 2 and v.dtype.name == "float32")
        if found is not None:
            return found
    channels = graph.random.choice((1, 2, 3, 4, 8, 16, 17))
    sizes = [graph.random.choice((1, 3, 4, 5, 7, 8, 12)) for _ in range(rank)]
    return graph.input((graph.random.choice((1, 1, 2)), channels, *sizes), "float32")


def _window(graph: RandomGraph, kernel: list[int]) -> dict[str, Any]:
    """Return random strides, dilations and padding, as attributes of a convolution or pooling.

    They are for windows of the size ``kernel``.
    """
    rank, found = len(kernel), dict[str, Any]()
    if graph.random.random() < 0.5:
        found["strides"] = [graph.random.choice((1, 1, 2, 3)) for _ in range(rank)]
    if graph.random.random() < 0.25:
        found["dilations"] = [graph.random.choice((1, 2, 3)) for _ in range(rank)]
    if graph.random.random() < 0.6:
        found["pads"] = [graph.random.randrange(size) for size in kernel * 2]
    elif graph.random.random() < 0.3:
        found["auto_pad"] = graph.random.choice(("SAME_UPPER", "SAME_LOWER", "VALID"))
        found.pop("dilations", None)
        # A stride beyond the window makes the padding negative, which ONNX does not define.
        if "strides" in found:
            found["strides"] = [min(pair) for pair in zip(found["strides"], kernel, strict=True)]
    return found


def _groups(graph: RandomGraph, channels: int) -> int:
    choices = [d for d in (1, 2, 4, channels) if channels and channels % d == 0]
    return graph.random.choice([1, 1, *choices])


def convolution(graph: RandomGraph) -> None:
    """Add a convolution over one to three dimensions, with random groups and bias."""
    rank = graph.random.choice((1, 2, 2, 2, 3))
    x = _image(graph, rank)
    if not x.shape[1]:
        raise Rejected("ONNX Runtime leaves sums without terms uninitialized")
    groups = _groups(graph, x.shape[1])
    features = groups * graph.random.choice((1, 2, 3, 4, 8, 16))
    kernel = [graph.random.choice((1, 2, 3, 3, 5)) for _ in range(rank)]
    w = graph.weight((features, x.shape[1] // groups, *kernel), x.dtype, "q")
    operands = [x, w, graph.weight((features,), x.dtype)][: graph.random.choice((2, 3))]
    graph.node("Conv", operands, group=groups, **_window(graph, kernel))


def transposed_convolution(graph: RandomGraph) -> None:
    """Add a transposed convolution over one or two dimensions."""
    rank = graph.random.choice((1, 2, 2))
    x = _image(graph, rank)
    groups = _groups(graph, x.shape[1])
    kernel = [graph.random.choice((1, 2, 3, 4)) for _ in range(rank)]
    features = graph.random.choice((1, 2, 3, 8))
    w = graph.weight((x.shape[1], features, *kernel), x.dtype, "q")
    operands = [x, w, graph.weight((features * groups,), x.dtype)][: graph.random.choice((2, 3))]
    window = _window(graph, kernel)
    window.pop("auto_pad", None)
    if graph.random.random() < 0.3:
        window["strides"] = [2] * rank
        window["output_padding"] = [graph.random.randrange(2) for _ in range(rank)]
    graph.node("ConvTranspose", operands, group=groups, **window)


def pool(graph: RandomGraph) -> None:
    """Add a pooling by windows: MaxPool, AveragePool or LpPool."""
    rank = graph.random.choice((1, 2, 2, 3))
    x = _image(graph, rank)
    name = graph.random.choice(("MaxPool", "AveragePool", "LpPool"))
    kernel = [graph.random.choice((1, 2, 3)) for _ in range(rank)]
    window = _window(graph, kernel)
    if graph.opset < {"MaxPool": 11, "AveragePool": 19, "LpPool": 18}[name]:
        window.pop("dilations", None)
    if graph.random.random() < 0.3 and (name != "LpPool" or graph.opset >= 18):
        window["ceil_mode"] = 1
    if name == "AveragePool" and graph.random.random() < 0.4:
        window["count_include_pad"] = 1
        pads = window.get("pads", [0] * 2 * rank)
        reach = [size + pads[i] + pads[rank + i] for i, size in enumerate(x.shape[2:])]
        if graph.opset < 19 and any(map(operator.lt, reach, kernel)):
            raise Rejected("ONNX Runtime's result depends on the opset")
    outputs = 2 if name == "MaxPool" and graph.random.random() < 0.2 else 1
    graph.node(name, [x], outputs, kernel_shape=kernel, **window)


def global_pool(graph: RandomGraph) -> None:
    """Add a pooling of all elements of each channel."""
    x = _image(graph, graph.random.choice((1, 2, 3)))
    graph.node(graph.random.choice(("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")), [x])


def batch_normalization(graph: RandomGraph) -> None:
    """Add BatchNormalization with random statistics."""
    x = _image(graph, graph.random.choice((0, 1, 2, 2)))
    moments = [graph.weight((x.shape[1],), x.dtype, prefix) for prefix in "xxxp"]
    graph.node("BatchNormalization", [x, *moments], epsilon=graph.random.choice((1e-5, 1e-2)))


def normalization(graph: RandomGraph) -> None:
    """Add a normalization other than BatchNormalization, such as LayerNormalization or LRN."""
    name = graph.random.choice(
        ("InstanceNormalization", "GroupNormalization", "LayerNormalization", "LRN",
         "RMSNormalization", "MeanVarianceNormalization")
    )  # fmt: skip
    if name in ("LayerNormalization", "RMSNormalization"):
        x = graph.tensor((1, 2, 3, 4))
        if x.dtype.name == "float64":
            raise Rejected("ONNX Runtime computes some of it in single precision")
        axis = axis_of(graph, len(x.shape))
        moments = [graph.weight(x.shape[axis:], x.dtype) for _ in range(2)]
        count = 1 if name == "RMSNormalization" else graph.random.choice((1, 2))
        graph.node(name, [x, *moments[:count]], axis=axis, epsilon=1e-3)
        return
    x = _image(graph, graph.random.choice((1, 2)) if name[0] in "IG" else 2)
    if name == "LRN":
        graph.node(name, [x], size=graph.random.choice((1, 3, 5)), alpha=0.1)
    elif name == "MeanVarianceNormalization":
        if x.array.astype(np.float64).std((0, 2, 3)).min(initial=np.inf) < 1e-3:
            raise Rejected("ONNX adds 1e-9 to the deviation, ONNX Runtime adds nothing")
        graph.node(name, [x])
    else:
        _scaled(graph, name, x)


def _scaled(graph: RandomGraph, name: str, x: Value) -> None:
    if name.startswith("Group") and graph.opset < 21:
        raise Rejected("ONNX's checker refuses the older form")
    groups = _groups(graph, x.shape[1]) if name.startswith("Group") else None
    moments = [graph.weight((x.shape[1],), x.dtype) for _ in range(2)]
    extra: dict[str, Any] = {"num_groups": groups} if groups is not None else {}
    graph.node(name, [x, *moments], epsilon=1e-3, **extra)


def _upsampled(graph: RandomGraph) -> None:
    """Add a resize of an image by Upsample, or by Resize of opset 10."""
    x = _image(graph, graph.random.choice((1, 2, 2)))
    mode = graph.random.choice(("nearest", "linear"))
    choices = (1.0, 2.0, 3.0, 1.5) if graph.opset < 10 else (1.0, 2.0, 0.5, 1.5)
    factors = [1.0, 1.0, *(graph.random.choice(choices) for _ in x.shape[2:])]
    if graph.opset < 9:
        graph.node("Upsample", [x], mode=mode, scales=factors)
    else:
        name = "Upsample" if graph.opset < 10 else "Resize"
        graph.node(name, [x, graph.constant(np.array(factors, np.float32))], mode=mode)


def resized(graph: RandomGraph) -> None:
    """Add a resize of an image in a random mode."""
    if graph.opset < 11:
        _upsampled(graph)
        return
    x = _image(graph, graph.random.choice((1, 2, 2)))
    mode = graph.random.choice(("nearest", "linear", "cubic"))
    modes = ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"]
    extra: dict[str, Any] = {"coordinate_transformation_mode": graph.random.choice(modes)}
    if mode == "nearest":
        choices = ("round_prefer_floor", "floor", "ceil", "round_prefer_ceil")
        extra["nearest_mode"] = graph.random.choice(choices)
    factors = [
        1.0,
        1.0,
        *(graph.random.choice((1.0, 2.0, 0.5, 1.5)) for _ in x.shape[2:]),
    ]
    whole = all(f * n % 1 == 0 for f, n in zip(factors, x.shape, strict=True))
    # A part of a pixel at the end counts for some and not for others.
    if whole and graph.random.random() < 0.5:
        scales = graph.constant(np.array(factors, np.float32))
        graph.node("Resize", [x, None, scales], mode=mode, **extra)
    else:
        sizes = [*x.shape[:2], *(graph.random.choice((1, 3, 6, 9)) for _ in x.shape[2:])]
        graph.node("Resize", [x, None, None, graph.integers(sizes)], mode=mode, **extra)


def recurrent(graph: RandomGraph) -> None:
    """Add LSTM, GRU or RNN."""
    name, gates = graph.random.choice((("LSTM", 4), ("GRU", 3), ("RNN", 1)))
    steps, batch, width, hidden = (graph.random.choice((1, 2, 3, 5)) for _ in range(4))
    direction = graph.random.choice(("forward", "reverse", "bidirectional"))
    many = 2 if direction == "bidirectional" else 1
    x = graph.input((steps, batch, width), "float32")
    w = graph.weight((many, gates * hidden, width), "float32")
    r = graph.weight((many, gates * hidden, hidden), "float32")
    bias = graph.weight((many, 2 * gates * hidden), "float32")
    extra: dict[str, Any] = (
        {"linear_before_reset": graph.random.randrange(2)} if name == "GRU" else {}
    )
    operands = [x, w, r, bias] if graph.random.random() < 0.6 else [x, w, r]
    if graph.random.random() < 0.4:
        state = graph.input((many, batch, hidden), "float32")
        operands = [*operands, *([None] * (5 - len(operands))), state]  # type: ignore[list-item]
    outputs = graph.random.randrange(1, 4 if name == "LSTM" else 3)
    graph.node(name, operands, outputs, hidden_size=hidden, direction=direction, **extra)


def quantized(graph: RandomGraph) -> None:
    """Add QuantizeLinear and, in most cases, a DequantizeLinear of its result.

    There is a single scale, or a scale for each channel.
    """
    kind = graph.random.choice(("int8", "uint8"))
    x = graph.tensor((1, 2, 3, 4), exact=True)
    if x.dtype != np.float32:
        raise Rejected("scales are of the type")
    axis = axis_of(graph, len(x.shape))
    per_channel = graph.opset >= 13 and graph.random.random() < 0.4
    shape = (x.shape[axis],) if per_channel else ()
    scale = graph.constant(np.full(shape, graph.random.choice((0.5, 0.25, 2.0)), np.float32))
    zero = graph.constant(np.full(shape, graph.random.choice((0, 3)), kind))
    extra: dict[str, Any] = {"axis": axis} if per_channel else {}
    (small,) = graph.node("QuantizeLinear", [x, scale, zero], **extra)
    if graph.random.random() < 0.8:
        graph.node("DequantizeLinear", [small, scale, zero], **extra)


def integer_product(graph: RandomGraph) -> None:
    """Add MatMulInteger of 8-bit integers."""
    x = graph.input(graph.shape(2), "uint8")
    w = graph.weight((x.shape[1], graph.size()), graph.random.choice(("int8", "uint8")))
    zeros = [graph.constant(np.array(3, v.dtype)) for v in (x, w)]
    graph.node("MatMulInteger", [x, w, *zeros[: graph.random.randrange(3)]])


def sampled(graph: RandomGraph) -> None:
    """Add GridSample: an image at random positions between its pixels."""
    x = _image(graph, 2)
    h, w = (graph.random.choice((1, 2, 4)) for _ in range(2))
    grid = graph.input((x.shape[0], h, w, 2), "float32", "x")
    modes = ("linear", "nearest", "cubic") if graph.opset >= 20 else ("bilinear", "bicubic")
    mode = graph.random.choice([m for m in modes if m != "nearest"])
    padding = graph.random.choice(("zeros", "border", "reflection"))
    graph.node("GridSample", [x, grid], mode=mode, padding_mode=padding,
               align_corners=graph.random.randrange(2))  # fmt: skip


CONTRIBUTED = ("Gelu", "QuickGelu", "BiasGelu", "FastGelu", "FusedMatMul", "SkipLayerNormalization")


def contributed(graph: RandomGraph) -> None:
    """Add a contrib operator, such as FusedMatMul."""
    name = graph.random.choice(CONTRIBUTED)
    rank = 3 if name.startswith("Skip") else (2, 3)
    x = graph.pick(lambda v: v.dtype.name == "float32" and len(v.shape) in np.atleast_1d(rank))
    x = x or graph.input(graph.shape(3), "float32")
    last = x.shape[-1:]
    operands = [x]
    if name == "BiasGelu":
        operands.append(graph.weight(last))
    elif name == "FusedMatMul":
        operands.append(graph.weight((*x.shape[:-2], *last, graph.size())))
    elif name.startswith("Skip"):
        operands += [graph.weight(x.shape), graph.weight(last), graph.weight(last)]
    graph.node(name, operands, domain="com.microsoft")


OPERATORS = (
    reduced, reduced, reduced, softmax, softmax, product, product, product, product_of_values, gemm,
    gemm, einsum, convolution, convolution, convolution, transposed_convolution, pool, pool,
    global_pool, batch_normalization, normalization, normalization, resized, recurrent, quantized,
    integer_product, sampled, contributed,
)  # fmt: skip
