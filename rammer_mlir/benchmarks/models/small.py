"""Build small dense models of our own, for cases that the published networks lack."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import onnx
from onnx import TensorProto

from rammer_mlir.benchmarks.models import weights
from rammer_mlir.benchmarks.models.builder import GraphBuilder, Value
from rammer_mlir.benchmarks.models.moments import Moments
from rammer_mlir.benchmarks.models.scale import Scale


def build_mlp(batch: int, scale: Scale) -> onnx.ModelProto:
    """Build a perceptron with two hidden layers: ``x`` [N, 784] f32 to ``y`` [N, 10] f32."""
    inputs, hidden = (784, 512) if scale == "full" else (50, 32)
    g = GraphBuilder("mlp", seed=1)
    x = g.input("x", [batch, inputs])
    for _ in range(2):
        x = g.op("Relu", g.linear(x, hidden))
    g.output(g.linear(x, 10), "y")
    return g.finish()


def build_one_element(batch: int, scale: Scale) -> onnx.ModelProto:
    """Build ``y = -x`` for ``x`` [N] f32; its run time is the cost of a launch."""
    del scale  # there is nothing to make smaller
    g = GraphBuilder("one_element", seed=0)
    g.output(g.op("Neg", g.input("x", [batch])), "y")
    return g.finish()


def _attention(g: GraphBuilder, x: Value, heads: int) -> Value:
    """Add multi-head self-attention on x [N, T, features]; return the result.

    See Vaswani et al., 2017.
    """
    batch, length, features = x.shape
    width = features // heads
    with g.scope("attention"):
        projected = [g.reshape(g.linear(x, features), batch, length, heads, width) for _ in "qkv"]
        query, value = (g.op("Transpose", projected[i], perm=[0, 2, 1, 3]) for i in (0, 2))
        key = g.op("Transpose", projected[1], perm=[0, 2, 3, 1])
        root = g.constant(np.array(1 / math.sqrt(width), np.float32), "root")
        scores = g.op("Softmax", g.op("Mul", g.op("MatMul", query, key), root), axis=-1)
        mixed = g.op("Transpose", g.op("MatMul", scores, value), perm=[0, 2, 1, 3])
        mixed = g.reshape(mixed, batch, length, features)
        # A weighted mean: exponentials of standard normal scores have a relative square of e.
        variance = value.moments.variance * min(math.e / length, 1.0)
        return g.linear(replace(mixed, moments=Moments(0.0, variance)), features)


def build_attention(batch: int, scale: Scale) -> onnx.ModelProto:
    """Build an attention block: ``x`` [N, 64, 256] f32 to ``y`` of the same shape, 8 heads."""
    length, features, heads = (64, 256, 8) if scale == "full" else (7, 24, 3)
    g = GraphBuilder("attention", seed=2)
    x = g.input("x", [batch, length, features])
    g.output(_attention(g, x, heads), "y")
    return g.finish()


def build_transformer_encoder(batch: int, scale: Scale, *, layers: int = 1) -> onnx.ModelProto:
    """Build transformer encoder layers: ``x`` [N, 64, 256] f32 to ``y`` of the same shape.

    Layer normalization precedes the attention and the feed-forward layers (pre-norm).
    """
    length, features, heads = (64, 256, 8) if scale == "full" else (7, 24, 3)
    g = GraphBuilder("transformer_encoder", seed=3)
    x = g.input("x", [batch, length, features])
    for layer in range(layers):
        with g.scope(f"layer{layer + 1}"):
            x = g.op("Add", x, _attention(g, g.layer_norm(x), heads))
            hidden = g.linear(g.layer_norm(x), 4 * features)
            hidden = g.op("Gelu", hidden)
            x = g.op("Add", x, g.linear(hidden, features))
    g.output(x, "y")
    return g.finish()


def build_layer_norm_head(batch: int, scale: Scale) -> onnx.ModelProto:
    """Build a classifier of sequences with layer normalizations, as on top of a transformer.

    The input is ``x`` [N, 32, 256] f32, whose 32 vectors are averaged; the output is
    ``log_probabilities`` [N, 1000] f32.
    """
    length, features, classes = (32, 256, 1000) if scale == "full" else (5, 24, 30)
    g = GraphBuilder("layer_norm_head", seed=4)
    x = g.layer_norm(g.input("x", [batch, length, features]))
    pooled = g.op("ReduceMean", x, g.integers(1), keepdims=0)
    logits = g.linear(g.layer_norm(pooled), classes)
    g.output(g.op("LogSoftmax", logits, axis=-1), "log_probabilities")
    return g.finish()


def build_embedding(batch: int, scale: Scale) -> onnx.ModelProto:
    """Build a bag of words: ``tokens`` [N, 32] i64 to ``y`` [N, 16] f32.

    ``y`` is a linear function of the sum of the tokens' embeddings; token 0 is padding, and its
    embedding is not added.
    """
    length, features = (32, 128) if scale == "full" else (6, 16)
    g = GraphBuilder("embedding", seed=5)
    tokens = g.input("tokens", [batch, length], TensorProto.INT64)
    table = g.constant(weights.uniform(g.rng, [100, features], 1.0), "table")
    padding = g.op("Equal", tokens, g.constant(np.array(0, np.int64), "padding"))
    mask = g.op("Unsqueeze", padding, g.integers(2))
    zero = g.constant(np.array(0, np.float32), "zero")
    words = g.op("Where", mask, zero, g.op("Gather", table, tokens, axis=0))
    g.output(g.linear(g.op("ReduceSum", words, g.integers(1), keepdims=0), 16), "y")
    return g.finish()


def build_multi_io(batch: int, scale: Scale) -> onnx.ModelProto:
    """Build a graph of several inputs and outputs with concatenations, splits and transposes.

    Inputs are ``left`` and ``right`` [N, 24, 32] and ``gain`` [32]; outputs are ``top`` [N, 32,
    32], ``bottom`` [N, 32, 16] and ``total`` [N, 1, 1], all f32. ``bottom`` is also the operand of
    another node.
    """
    length, features = (24, 32) if scale == "full" else (6, 8)
    g = GraphBuilder("multi_io", seed=6)
    left = g.input("left", [batch, length, features])
    right = g.input("right", [batch, length, features])
    gain = g.input("gain", [features])
    joined = g.op("Concat", left, g.op("Mul", right, gain), axis=1)
    turned = g.op("Transpose", joined, perm=[0, 2, 1])
    parts = g.integers(2 * length // 3, 2 * length - 2 * length // 3)
    small, large = g.ops("Split", turned, parts, num_outputs=2, axis=2)
    total = g.op("ReduceSum", small, g.integers(1, 2), keepdims=1)
    g.output(g.op("Tanh", large), "top")
    g.output(small, "bottom")
    g.output(g.op("Sub", total, g.op("ReduceMax", large, g.integers(1, 2), keepdims=1)), "total")
    return g.finish()


def build_integer_ops(batch: int, scale: Scale) -> onnx.ModelProto:
    """Build integer and boolean arithmetic: ``a``, ``b`` i64 and ``flags`` bool, [N, 100] each.

    The outputs are ``selected`` i64, ``found`` bool, ``narrow`` i32 and ``ratio`` f32, [N, 100]
    each.
    """
    length = 100 if scale == "full" else 13
    g = GraphBuilder("integer_ops", seed=7)
    a = g.input("a", [batch, length], TensorProto.INT64)
    b = g.input("b", [batch, length], TensorProto.INT64)
    flags = g.input("flags", [batch, length], TensorProto.BOOL)
    one = g.constant(np.array(1, np.int64), "one")
    smaller = g.op("Less", a, b)
    found = g.op("Or", g.op("And", smaller, flags), g.op("Equal", a, b))
    difference = g.op("Sub", g.op("Mul", a, b), a)
    remainder = g.op("Mod", difference, g.op("Add", b, one))
    selected = g.op("Where", g.op("Not", found), difference, remainder)
    quotient = g.op("Div", selected, g.op("Add", g.op("Abs", a), one))
    g.output(selected, "selected")
    g.output(found, "found")
    g.output(g.op("Cast", g.op("Max", quotient, b), to=TensorProto.INT32), "narrow")
    numerator = g.op("Cast", selected, to=TensorProto.FLOAT)
    divisor = g.op("Cast", g.op("Add", g.op("Abs", b), one), to=TensorProto.FLOAT)
    g.output(g.op("Div", numerator, divisor), "ratio")
    return g.finish()
