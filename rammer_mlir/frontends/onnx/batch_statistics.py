"""Expands BatchNormalization in training mode, which computes the statistics of its input.

Nodes in this mode have ``training_mode = 1``. Inference models contain them for weight
standardization, which normalizes weights by their mean and variance. If these weights are constant,
constant folding then evaluates the nodes of the expansion.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
import onnx

from rammer_mlir.frontends.onnx.node_writer import NodeWriter
from rammer_mlir.frontends.onnx.tensors import Array


def normalizes_by_batch(node: onnx.NodeProto) -> bool:
    """Whether a BatchNormalization computes mean and variance of its input (training mode)."""
    return any(a.name == "training_mode" and a.i for a in node.attribute)


def write_batch_normalization(
    node: onnx.NodeProto, shape: Sequence[int], dtype: np.dtype[np.generic], write: NodeWriter
) -> list[onnx.NodeProto]:
    """Return nodes that replace a BatchNormalization in training mode.

    The nodes compute the normalized value and, if the node has these results, the new running mean
    and variance. ``shape`` and ``dtype`` describe the input of the replaced node; ``write`` creates
    the nodes.
    """
    settings = {a.name: a.f for a in node.attribute}
    x, scale, shift, *running = node.input
    axes = write.integers(*(axis for axis in range(len(shape)) if axis != 1))
    # Without elements the mean is undefined; divide by 1, since nothing reads the result.
    count = write.constant(_scalar(max(1, prod(shape) // max(1, shape[1])), dtype))
    mean = _mean(x, axes, count, write)
    centered = write.node("Sub", [x, mean])
    variance = _mean(write.node("Mul", [centered, centered]), axes, count, write)
    epsilon = write.constant(_scalar(settings.get("epsilon", 1e-5), dtype))
    deviation = write.node("Sqrt", [write.node("Add", [variance, epsilon])])
    broadcast = write.integers(-1, *[1] * (len(shape) - 2))
    factor = write.node("Div", [write.node("Reshape", [scale, broadcast]), deviation])
    offset = write.node("Reshape", [shift, broadcast])
    write.named("Add", [write.node("Mul", [centered, factor]), offset], [node.output[0]])
    old = write.constant(_scalar(settings.get("momentum", 0.9), dtype))
    new = write.constant(_scalar(1 - settings.get("momentum", 0.9), dtype))
    for result, before, found in zip(node.output[1:], running, (mean, variance), strict=False):
        if result:
            flat = write.node("Reshape", [found, write.integers(-1)])
            kept = write.node("Mul", [before, old])
            write.named("Add", [kept, write.node("Mul", [flat, new])], [result])
    return write.nodes


def _mean(value: str, axes: str, count: str, write: NodeWriter) -> str:
    # Unlike ReduceMean, ReduceSum has an axes operand in every supported opset.
    return write.node("Div", [write.node("ReduceSum", [value, axes], keepdims=1), count])


def _scalar(value: float, dtype: np.dtype[np.generic]) -> Array:
    return np.array(value, dtype)
