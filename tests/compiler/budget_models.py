"""Models whose intermediates take memory for different reasons, and random ones."""

from __future__ import annotations

import math
import random

import numpy as np
import onnx

from rammer_mlir.benchmarks.models.builder import GraphBuilder, Value


def training_step(layers: int = 8, rows: int = 24, width: int = 32) -> onnx.ModelProto:
    """Return a perceptron and the gradient of its input, which reads what each layer computed."""
    g = GraphBuilder("training_step", seed=5)
    x = g.input("x", [rows, width])
    rng = np.random.default_rng(5)
    values, weights = (
        [x],
        [
            (rng.standard_normal((width, width)) / math.sqrt(width)).astype(np.float32)
            for _ in range(layers)
        ],
    )
    for weight in weights:
        values.append(g.op("Tanh", g.op("MatMul", values[-1], g.constant(weight))))
    one = g.constant(np.array(1, np.float32))
    gradient = values[-1]
    for value, weight in zip(reversed(values[1:]), reversed(weights), strict=True):
        slope = g.op("Sub", one, g.op("Mul", value, value))
        gradient = g.op("MatMul", g.op("Mul", gradient, slope), g.constant(weight.T.copy()))
    g.output(gradient, "gradient")
    return g.finish()


def long_attention(length: int = 96, features: int = 16) -> onnx.ModelProto:
    """Return self-attention and a feed-forward block on a sequence longer than it is wide."""
    g = GraphBuilder("long_attention", seed=3)
    x = g.input("x", [1, length, features])
    query, key, value = (g.linear(x, features) for _ in range(3))
    scores = g.op("MatMul", query, g.op("Transpose", key, perm=[0, 2, 1]))
    x = g.op("Add", x, g.op("MatMul", g.op("Softmax", scores, axis=-1), value))
    hidden = g.op("Relu", g.linear(x, 4 * features))
    g.output(g.op("Add", x, g.linear(hidden, features)), "y")
    return g.finish()


def inception_blocks(size: int = 48) -> onnx.ModelProto:
    """Return a stem, and two blocks of four branches each, concatenated, as those of Inception."""
    g = GraphBuilder("inception_blocks", seed=4)
    x = g.input("x", [1, 3, size, size])
    x = g.op("MaxPool", g.op("Relu", g.conv(x, 24, 3)), kernel_shape=[3, 3], strides=[3, 3])
    for _ in range(2):
        pooled = g.op("MaxPool", x, kernel_shape=[3, 3], strides=[1, 1], pads=[1, 1, 1, 1])
        inner = g.op("Relu", g.conv(x, 8, 1))
        wide = g.op("Relu", g.conv(g.op("Relu", g.conv(x, 4, 1)), 8, 5))
        branches = [g.conv(x, 8, 1), g.conv(inner, 16, 3), wide, g.conv(pooled, 8, 1)]
        x = g.op("Relu", g.op("Concat", *branches, axis=1))
    g.output(g.op("GlobalAveragePool", x), "y")
    return g.finish()


def random_model(seed: int) -> onnx.ModelProto:
    """Return a random model on rows or images, some of whose values are read much later."""
    rng = random.Random(seed)
    g = GraphBuilder(f"random{seed}", seed=seed)
    return _random_rows(g, rng) if seed % 2 else _random_images(g, rng)


def _random_rows(g: GraphBuilder, rng: random.Random) -> onnx.ModelProto:
    rows, width = rng.choice((10, 16)), 16
    values = [g.input("x", [rows, width])]
    for _ in range(rng.randrange(8, 16)):
        x = rng.choice(values[-3:])
        kind = rng.choice(("Tanh", "MatMul", "Softmax", "Add", "Mul", "Wide"))
        if kind == "MatMul":
            x = g.linear(x, width)
        elif kind == "Wide":
            x = g.linear(g.op("Relu", g.linear(x, 4 * width)), width)
        elif kind in ("Add", "Mul"):
            x = g.op("Tanh", g.op(kind, x, rng.choice(values)))
        else:
            x = g.op(kind, x, **({"axis": rng.choice((0, 1))} if kind == "Softmax" else {}))
        values.append(x)
    g.output(g.op("Add", values[-1], values[-2]), "y")
    if rng.random() < 0.5:
        g.output(g.op("Relu", values[len(values) // 2]), "middle")
    return g.finish()


def _random_images(g: GraphBuilder, rng: random.Random) -> onnx.ModelProto:
    x = g.input("x", [rng.choice((1, 2)), 4, 12, 12])
    seen = [x]
    for _ in range(rng.randrange(4, 8)):
        x = _image_layer(g, rng, rng.choice(seen[-2:]))
        seen.append(x)
    g.output(g.op("GlobalAveragePool", x), "y")
    return g.finish()


def _image_layer(g: GraphBuilder, rng: random.Random, x: Value) -> Value:
    kind = rng.choice(("conv", "pool", "concat", "pointwise", "residual"))
    if kind == "pool":
        return g.op("MaxPool", x, kernel_shape=[3, 3], strides=[1, 1], pads=[1, 1, 1, 1])
    if kind == "concat":
        parts = [g.op("Relu", g.conv(x, 4, size)) for size in (1, 3)]
        return g.op("Concat", *parts, axis=1)
    if kind == "residual":
        return g.op("Relu", g.op("Add", x, g.conv(x, x.shape[1], 3)))
    return g.op("Relu", g.conv(x, rng.choice((4, 8)), 3 if kind == "conv" else 1))
