"""Builds softmax and normalizations: reductions along axes, then an elementwise operation."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from rammer_mlir.bindings import math
from rammer_mlir.frontends.onnx.builders.activations import approximate_exp
from rammer_mlir.frontends.onnx.builders.node import Builder, Node
from rammer_mlir.frontends.onnx.builders.structured import (
    Reduced,
    pointwise,
    reduce,
)
from rammer_mlir.frontends.onnx.builders.values import (
    Tensor,
)
from rammer_mlir.frontends.onnx.builders.views import (
    reshape,
)
from rammer_mlir.passes.ir.scalar import F32, F64, DType, Scalar, literal, lowest


def computing_type(dtype: DType) -> DType:
    """Return the dtype in which to compute on elements of ``dtype``: f64 for f64, else f32."""
    return F64 if dtype == F64 else F32


def sum_along(source: Tensor, axes: Sequence[int], dtype: DType | None = None) -> Reduced:
    """Emit the sum of ``source`` along ``axes``, computed in ``dtype``.

    If ``dtype`` is None, the sum is computed in the dtype of ``source``.
    """
    kind = source.dtype if dtype is None else dtype
    return reduce(lambda x, total: total + x.cast(kind), source, axes, 0, kind)


def max_along(source: Tensor, axes: Sequence[int]) -> Reduced:
    """Emit the maximum of a tensor along ``axes``.

    NaN is not propagated: if any of the reduced elements is NaN, the result is unspecified.
    """
    return reduce(lambda x, top: top.maximum_of_numbers(x), source, axes, lowest(source.dtype))


def softmax(node: Node) -> Tensor:
    """Emit Softmax or LogSoftmax; the maximum is subtracted first to avoid overflow."""
    x = node.tensor(0)
    shape = x.shape
    if node.opset < 13:
        axis = node.axis("axis", 1, len(shape))
        x = reshape(x, (prod(shape[:axis]), prod(shape[axis:])))
        axes = [1]
    else:
        axes = [node.axis("axis", -1, len(shape))]
    return reshape(_softmax(x, axes, node.op_type == "LogSoftmax"), shape)


def _softmax(x: Tensor, axes: Sequence[int], logarithm: bool) -> Tensor:
    kind = computing_type(x.dtype)
    top = max_along(x, axes)  # a NaN in x reaches the sum whatever the maximum is
    if logarithm:
        total = reduce_shifted(x, top, axes, kind)
        return pointwise(
            lambda x, m, s: (x.cast(kind) - m.cast(kind) - s.apply(math.LogOp)).cast(x.dtype),
            x, top, total,
        )  # fmt: skip
    powers = _shifted_powers(x, top, kind)
    # One division for a sum, products for its elements.
    scale = sum_along(powers, axes).map(lambda s: literal(1, kind) / s)
    return pointwise(lambda e, r: (e * r).cast(x.dtype), powers, scale, dtype=x.dtype)


def reduce_shifted(x: Tensor, top: Reduced, axes: Sequence[int], kind: DType) -> Reduced:
    """Emit the sum of ``exp(x - top)`` along ``axes``, computed in dtype ``kind``.

    ``top`` is the maximum of ``x`` along ``axes``; its subtraction avoids overflow.
    """
    return sum_along(_shifted_powers(x, top, kind), axes)


def _shifted_powers(x: Tensor, top: Reduced, kind: DType) -> Tensor:
    """Emit ``exp(x - top)`` in dtype ``kind``; ``top`` is the maximum of ``x`` along reduced axes.

    The exponential is approximate: subnormal results may become 0. This does not change the sum of
    the results along the reduced axes, since the sum is at least 1: the maximum contributes
    ``exp(0)``.
    """
    return pointwise(
        lambda x, m: (x.cast(kind) - m.cast(kind)).apply(approximate_exp), x, top, dtype=kind
    )


def mean_and_inverse_deviation(
    x: Tensor, axes: Sequence[int], epsilon: float, kind: DType
) -> tuple[Reduced, Reduced]:
    """Emit mean and ``1 / sqrt(variance + epsilon)`` along axes, computed in dtype ``kind``.

    The variance is computed in a second pass, from differences to the mean.
    """
    count = prod(x.shape[axis] for axis in axes)
    mean = sum_along(x, axes, kind).map(lambda s: s / count)

    def square(x: Scalar, m: Scalar) -> Scalar:
        difference = x.cast(kind) - m
        return difference * difference

    squares = pointwise(square, x, mean, dtype=kind)
    inverse = sum_along(squares, axes).map(lambda s: (s / count + epsilon).apply(math.RsqrtOp))
    return mean, inverse


def _normalize(
    x: Tensor,
    statistics: tuple[Reduced, Reduced],
    scale: Tensor | None,
    shift: Tensor | None,
) -> Tensor:
    mean, inverse = statistics
    kind = mean.tensor.dtype
    extra = [t for t in (scale, shift) if t is not None]

    def body(x: Scalar, m: Scalar, r: Scalar, *rest: Scalar) -> Scalar:
        y = (x.cast(kind) - m) * r
        if scale is not None:
            y = y * rest[0].cast(kind)
        if shift is not None:
            y = y + rest[-1].cast(kind)
        return y.cast(x.dtype)

    return pointwise(body, x, mean, inverse, *extra)


def layer_normalization(node: Node) -> list[Tensor | None]:
    """Emit LayerNormalization over the dimensions from attribute ``axis`` to the last dimension.

    Returns the normalized tensor, the mean, and the inverse standard deviation. The mean and the
    inverse deviation are None if the graph does not use them.
    """
    x = node.tensor(0)
    kind = computing_type(x.dtype)
    axes = range(node.axis("axis", -1, x.rank), x.rank)
    statistics = mean_and_inverse_deviation(x, axes, node.attribute("epsilon", 1e-5), kind)
    shift = node.tensor(2) if node.has(2) else None
    y = _normalize(x, statistics, node.tensor(1), shift)
    rest = [
        _converted(t.keepdims(x.rank), node.out(i).dtype) if node.uses(i) else None
        for i, t in enumerate(statistics, start=1)
    ]
    return [y, *rest]


def _converted(x: Tensor, dtype: DType) -> Tensor:
    return x if x.dtype == dtype else pointwise(lambda v: v.cast(dtype), x, dtype=dtype)


def rms_normalization(node: Node) -> Tensor:
    """Emit RMSNormalization: the data divided by its root mean square, times a scale."""
    x, scale = node.tensor(0), node.tensor(1)
    kind = computing_type(x.dtype)
    axes = range(node.axis("axis", -1, x.rank), x.rank)
    count = prod(x.shape[axis] for axis in axes)
    epsilon = node.attribute("epsilon", 1e-5)
    squares = pointwise(lambda x: x.cast(kind) * x.cast(kind), x, dtype=kind)
    inverse = sum_along(squares, axes).map(lambda s: (s / count + epsilon).apply(math.RsqrtOp))
    return pointwise(
        lambda x, r, g: (x.cast(kind) * r * g.cast(kind)).cast(x.dtype), x, inverse, scale
    )


def instance_normalization(node: Node) -> Tensor:
    """Emit InstanceNormalization: the normalization of each channel of each sample."""
    return _grouped(node, node.fact(0).shape[1])


def group_normalization(node: Node) -> Tensor:
    """Emit GroupNormalization: the normalization of each group of channels of each sample."""
    return _grouped(node, node.attribute("num_groups"))


def _grouped(node: Node, groups: int) -> Tensor:
    x = node.tensor(0)
    batch, channels, *space = x.shape
    split = reshape(x, (batch, groups, channels // groups, *space))
    kind = computing_type(x.dtype)
    axes = range(2, split.rank)
    statistics = mean_and_inverse_deviation(split, axes, node.attribute("epsilon", 1e-5), kind)
    each = (groups, channels // groups)
    scale, shift = (_per_channel(node.tensor(i), each, len(space)) for i in (1, 2))
    return reshape(_normalize(split, statistics, scale, shift), x.shape)


def _per_channel(parameter: Tensor, each: tuple[int, int], space: int) -> Tensor:
    """Return ``parameter`` reshaped to broadcast to data ``[N, groups, channels, *space]``.

    Args:
        parameter: a vector with an element per channel, or per group of channels.
        each: count of groups, and count of channels in each group.
        space: count of spatial dimensions of the data.
    """
    groups, size = each
    inner = size if parameter.size == groups * size else 1
    return reshape(parameter, (1, groups, inner, *[1] * space))


def _mean_variance(node: Node) -> Tensor:
    """Emit MeanVarianceNormalization: ``(x - mean) / (deviation + 1e-9)``.

    ONNX defines the operator with this constant, which avoids a division by zero.
    """
    x = node.tensor(0)
    kind = computing_type(x.dtype)
    axes = [axis % x.rank for axis in node.attribute("axes", [0, 2, 3])]
    count = prod(x.shape[axis] for axis in axes)
    mean = sum_along(x, axes, kind).map(lambda total: total / count)
    distance = pointwise(lambda x, m: x.cast(kind) - m, x, mean, dtype=kind)
    squares = pointwise(lambda d: d * d, distance)
    deviation = sum_along(squares, axes).map(lambda total: (total / count).apply(math.SqrtOp))
    return pointwise(
        lambda d, s: (d / (s + _LEAST_DEVIATION)).cast(x.dtype), distance, deviation, dtype=x.dtype
    )


_LEAST_DEVIATION = 1e-9
"""Constant that ONNX's definition of MeanVarianceNormalization adds to the deviation."""


BUILDERS: dict[str, Builder] = {
    "GroupNormalization": group_normalization,
    "InstanceNormalization": instance_normalization,
    "LayerNormalization": layer_normalization,
    "LogSoftmax": softmax,
    "MeanVarianceNormalization": _mean_variance,
    "RMSNormalization": rms_normalization,
    "Softmax": softmax,
}
