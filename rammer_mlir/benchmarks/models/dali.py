"""Build the forward models that the Dali paper trains; their output is the ``loss`` [] f32.

The ``full`` sizes are those of the paper's appendix; a training step needs up to 9.6 GB of memory.
The ``reduced`` sizes keep the structure, and a training step takes a fraction of a second on two
cores. The docstring of a function states the choices that the appendix leaves open.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import onnx
from onnx import TensorProto

from rammer_mlir.benchmarks.models import weights
from rammer_mlir.benchmarks.models.builder import GraphBuilder, Value
from rammer_mlir.benchmarks.models.losses import cross_entropy, softmax_cross_entropy
from rammer_mlir.benchmarks.models.moments import STANDARD, Moments

Size = Literal["full", "reduced", "small"]


@dataclass(frozen=True)
class Cnn:
    """Sizes of the CNN.

    Attributes:
        batch: batch size.
        image: height and width of an image, a multiple of 4.
        channels: output channels of each convolution.
        hidden: features of the hidden dense layer.
    """

    batch: int
    image: int
    channels: int
    hidden: int


@dataclass(frozen=True)
class Transformer:
    """Sizes of the Transformer.

    Attributes:
        batch: batch size.
        length: length of a sequence, in tokens.
        layers: number of layers.
        features: features of a token between the layers.
        hidden: features inside a feed-forward layer.
        heads: number of attention heads.
        vocabulary: number of different tokens.
    """

    batch: int
    length: int
    layers: int
    features: int
    hidden: int
    heads: int
    vocabulary: int


@dataclass(frozen=True)
class Scores:
    """Sizes of the model that has only the loss: batch, sequence length, classes."""

    batch: int
    length: int
    classes: int


CNN_SIZES = {
    "full": Cnn(256, 28, 64, 1024),
    "reduced": Cnn(32, 28, 32, 256),
    "small": Cnn(3, 8, 4, 12),
}
TRANSFORMER_SIZES = {
    "full": Transformer(32, 100, 8, 512, 1024, 4, 32768),
    "reduced": Transformer(4, 50, 8, 128, 256, 4, 1024),
    "small": Transformer(2, 5, 2, 12, 20, 3, 11),
}
SCORES_SIZES = {
    "full": Scores(32, 100, 32768),
    "reduced": Scores(8, 50, 4096),
    "small": Scores(2, 3, 13),
}


def build_cnn(size: Size) -> onnx.ModelProto:
    """Build Dali's CNN (table 3) for 10 classes: ``image`` [N, 1, 28, 28] f32, ``label`` [N] i64.

    Convolutions of stride 1 are padded to keep the height and width. The paper does not state the
    padding, but only with this padding has the first dense layer the published 3136 inputs.
    """
    sizes = CNN_SIZES[size]
    g = GraphBuilder("dali_cnn", seed=40)
    x = g.input("image", [sizes.batch, 1, sizes.image, sizes.image])
    labels = g.input("label", [sizes.batch], TensorProto.INT64)
    x = g.op("Relu", g.conv(x, sizes.channels, 5, with_bias=True))
    x = g.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = g.op("Relu", g.conv(x, sizes.channels, 5, with_bias=True))
    x = g.conv(x, sizes.channels, 2, stride=2, pads=[0, 0, 0, 0], with_bias=True)
    x = g.op("Relu", g.gemm(g.op("Flatten", x), sizes.hidden))
    g.output(cross_entropy(g, g.gemm(x, 10), labels), "loss")
    return g.finish()


def build_transformer(size: Size) -> onnx.ModelProto:
    """Build Dali's Transformer, a language model: ``tokens`` [N, T] i64 to ``loss`` [] f32.

    The input ``label`` [N, T] i64 has the next token at each position.

    Choices that the paper leaves open:
    - layer normalization precedes attention, the dense layers, and the classifier;
    - positions are sinusoids that are added to the embedding (Vaswani et al., 2017);
    - there is no dropout;
    - the vocabulary has 2**15 tokens, like the tokenizer of the paper's data set.
    """
    sizes = TRANSFORMER_SIZES[size]
    g = GraphBuilder("dali_transformer", seed=41)
    shape = [sizes.batch, sizes.length]
    tokens, labels = (g.input(name, shape, TensorProto.INT64) for name in ("tokens", "label"))
    table = g.constant(weights.uniform(g.rng, [sizes.vocabulary, sizes.features], 1.0), "table")
    x = g.op("Add", g.op("Gather", table, tokens, axis=0), _positions(g, sizes))
    mask = g.constant(np.triu(np.full([sizes.length] * 2, -1e9, np.float32), 1), "mask")
    for layer in range(sizes.layers):
        with g.scope(f"layer{layer + 1}"):
            x = g.op("Add", x, _attention(g, g.layer_norm(x), mask, sizes.heads))
            hidden = g.op("Gelu", g.linear(g.layer_norm(x), sizes.hidden))
            x = g.op("Add", x, g.linear(hidden, sizes.features))
    logits = g.linear(g.layer_norm(x), sizes.vocabulary)
    g.output(cross_entropy(g, logits, labels), "loss")
    return g.finish()


def _positions(g: GraphBuilder, sizes: Transformer) -> Value:
    rates = 1e4 ** (-np.arange(0, sizes.features, 2) / sizes.features)
    angles = np.arange(sizes.length)[:, np.newaxis] * rates
    waves = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
    return g.constant(waves.astype(np.float32), "positions")


def _attention(g: GraphBuilder, x: Value, mask: Value, heads: int) -> Value:
    """Add self-attention on x [N, T, features], and return its result.

    ``mask`` is added to the attention scores before the softmax.
    """
    batch, length, features = x.shape
    width = features // heads
    with g.scope("attention"):
        parts = [g.reshape(g.linear(x, features), batch, length, heads, width) for _ in "qkv"]
        query, value = (g.op("Transpose", parts[i], perm=[0, 2, 1, 3]) for i in (0, 2))
        key = g.op("Transpose", parts[1], perm=[0, 2, 3, 1])
        root = g.constant(np.array(1 / math.sqrt(width), np.float32), "root")
        scores = g.op("Mul", g.op("MatMul", query, key), root)
        shares = g.op("Softmax", g.op("Add", scores, mask), axis=-1)
        mixed = g.op("Transpose", g.op("MatMul", shares, value), perm=[0, 2, 1, 3])
        mixed = replace(g.reshape(mixed, batch, length, features), moments=Moments(0.0, 0.2))
        return g.linear(mixed, features)


def build_softmax_cross_entropy(size: Size) -> onnx.ModelProto:
    """Build only the loss (Dali, section 2.4): ``logits`` [N, T, C] f32, ``label`` [N, T] i64.

    The logits are an input; the training step computes the gradient of the loss with respect to the
    logits.
    """
    sizes = SCORES_SIZES[size]
    g = GraphBuilder("softmax_cross_entropy", seed=42)
    logits = g.input("logits", [sizes.batch, sizes.length, sizes.classes], moments=STANDARD)
    labels = g.input("label", [sizes.batch, sizes.length], TensorProto.INT64)
    losses = softmax_cross_entropy(g, logits, labels)
    g.output(g.op("ReduceMean", losses, keepdims=0), "loss")
    return g.finish()
