"""Builds BatchNormalization, with given statistics or, in training mode, those of the batch."""

from __future__ import annotations

from math import prod

from rammer_mlir.bindings import math
from rammer_mlir.frontends.onnx.builders.node import Builder, Node
from rammer_mlir.frontends.onnx.builders.normalization import computing_type, sum_along
from rammer_mlir.frontends.onnx.builders.structured import pointwise
from rammer_mlir.frontends.onnx.builders.values import Tensor
from rammer_mlir.passes.ir.scalar import Scalar


def _batch_normalization(node: Node) -> Tensor | list[Tensor | None]:
    x, scale, shift, mean, variance = node.tensors()
    if node.attribute("training_mode", 0):
        return _trained(node, x, scale, shift, mean, variance)
    if node.opset < 14 and len(node.outputs) > 1:
        raise node.unsupported("training is not supported before opset 14: expected one result")
    return _normalized(node, x, scale, shift, mean, variance)


def _normalized(
    node: Node, x: Tensor, scale: Tensor, shift: Tensor, mean: Tensor, variance: Tensor
) -> Tensor:
    wide = computing_type(x.dtype)
    epsilon = node.attribute("epsilon", 1e-5)
    factor = pointwise(
        lambda s, v: s.cast(wide) * (v.cast(wide) + epsilon).apply(math.RsqrtOp),
        scale,
        variance,
        dtype=wide,
    )
    axis = [1] if x.rank > 1 else [0]
    return pointwise(
        lambda x, m, f, b: ((x.cast(wide) - m.cast(wide)) * f + b.cast(wide)).cast(x.dtype),
        x,
        *[(parameter, axis) for parameter in (mean, factor, shift)],
        dtype=x.dtype,
        shape=x.shape,
    )


def _trained(
    node: Node, x: Tensor, scale: Tensor, shift: Tensor, mean: Tensor, variance: Tensor
) -> list[Tensor | None]:
    """Emit BatchNormalization in training mode, with the mean and variance of the batch ``x``.

    ``mean`` and ``variance`` are the running statistics. Returns the normalized tensor, the updated
    running mean and the updated running variance; None for unused results.
    """
    found_mean, found_variance = _statistics(x)
    momentum = node.attribute("momentum", 0.9)

    def moved(number: int, old: Tensor, new: Tensor) -> Tensor | None:
        if not node.uses(number):
            return None
        return pointwise(
            lambda a, b: (a.cast(b.dtype) * momentum + b * (1 - momentum)).cast(a.dtype), old, new
        )

    y = _normalized(node, x, scale, shift, found_mean, found_variance)
    return [y, moved(1, mean, found_mean), moved(2, variance, found_variance)]


def _statistics(x: Tensor) -> tuple[Tensor, Tensor]:
    """Emit mean and variance of ``x`` per channel (dimension 1), computed in two passes."""
    wide, axes = computing_type(x.dtype), [axis for axis in range(x.rank) if axis != 1]
    count = prod(x.shape[axis] for axis in axes)
    mean = sum_along(x, axes, wide).map(lambda total: total / count)

    def squared(x: Scalar, mean: Scalar) -> Scalar:
        distance = x.cast(wide) - mean
        return distance * distance

    squares = pointwise(squared, x, mean, dtype=wide, shape=x.shape)
    variance = sum_along(squares, axes, wide).map(lambda total: total / count)
    return mean.tensor, variance.tensor


BUILDERS: dict[str, Builder] = {"BatchNormalization": _batch_normalization}
"""Builders by operator name."""
