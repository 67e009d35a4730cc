"""Build ONNX models of the functions in ``jax_networks``, with the same parameters."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto

from rammer_mlir.benchmarks.frameworks.jax_networks import Parameters
from rammer_mlir.benchmarks.models.builder import GraphBuilder, Value


def residual_model(parameters: Parameters, size: int) -> onnx.ModelProto:
    """Return an ONNX model of the network ``residual`` with the weights ``parameters``.

    The input ``x`` is an image [1, 3, size, size]; the output ``logits`` has the class scores.
    """
    g = GraphBuilder("residual")

    def layer(given: Parameters, x: Value, stride: int) -> Value:
        weights = given["weights"]
        return g.op(
            "Conv", x, g.constant(weights), g.constant(given["bias"]),
            strides=[stride, stride], pads=[weights.shape[2] // 2] * 4,
        )  # fmt: skip

    x = g.input("x", (1, 3, size, size))
    x = g.op("Relu", layer(parameters["stem"], x, 2))
    x = g.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    for block in parameters["blocks"]:
        stride = 2 if "shortcut" in block else 1
        y = g.op("Relu", layer(block["first"], x, stride))
        shortcut = layer(block["shortcut"], x, 2) if stride == 2 else x
        x = g.op("Relu", g.op("Add", layer(block["second"], y, 1), shortcut))
    means = g.op("ReduceMean", x, g.integers(2, 3), keepdims=0)
    g.output(g.op("MatMul", means, g.constant(parameters["out"])), "logits")
    return g.finish()


def transformer_model(parameters: Parameters, tokens: int, heads: int) -> onnx.ModelProto:
    """Return an ONNX model of the network ``transformer`` with the weights ``parameters``.

    The input ``x`` has ``tokens`` token ids; the output ``logits`` has scores of the next token.
    """
    g = GraphBuilder("transformer")
    width = parameters["words"].shape[1]

    def normalized(x: Value) -> Value:
        ones = g.constant(np.ones(width, np.float32))
        return g.op("LayerNormalization", x, ones, axis=-1, epsilon=1e-5)

    def attention(x: Value) -> Value:
        parts = g.ops("Split", x, num_outputs=3, axis=-1)
        q, k, v = (
            g.op("Transpose", g.reshape(part, tokens, heads, width // heads), perm=[1, 0, 2])
            for part in parts
        )
        scale = g.constant(np.float32((width // heads) ** -0.5).reshape(()))
        scores = g.op("Mul", g.op("MatMul", q, g.op("Transpose", k, perm=[0, 2, 1])), scale)
        seen = g.constant(np.tril(np.ones((tokens, tokens), bool)))
        least = g.constant(np.float32(-1e9).reshape(()))
        weights = g.op("Softmax", g.op("Where", seen, scores, least), axis=-1)
        joined = g.op("Transpose", g.op("MatMul", weights, v), perm=[1, 0, 2])
        return g.reshape(joined, tokens, width)

    ids = g.input("x", (tokens,), TensorProto.INT32)
    words = g.constant(parameters["words"], "words")
    x = g.op("Add", g.op("Gather", words, ids), g.constant(parameters["places"][:tokens]))
    for layer in parameters["layers"]:
        weights = {name: g.constant(array, name) for name, array in layer.items()}
        y = g.op("MatMul", attention(g.op("MatMul", x, weights["joint"])), weights["out"])
        x = normalized(g.op("Add", x, y))
        y = g.op("Gelu", g.op("MatMul", x, weights["up"]), approximate="tanh")
        x = normalized(g.op("Add", x, g.op("MatMul", y, weights["down"])))
    g.output(g.op("MatMul", x, g.op("Transpose", words, perm=[1, 0])), "logits")
    return g.finish()
