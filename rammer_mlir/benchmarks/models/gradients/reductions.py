"""Define the gradient rules of reductions, softmax and layer normalization.

In the rules, ``x`` is the input, ``y`` the result, ``dy`` the gradient of the loss with respect to
the result.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from rammer_mlir.benchmarks.models.builder import Value
from rammer_mlir.benchmarks.models.gradients.broadcasting import sum_to
from rammer_mlir.benchmarks.models.gradients.graph import ExtendedGraph, Node

Gradients = Sequence[Value | None]


def _axes(g: ExtendedGraph, node: Node) -> list[int]:
    """Return the axes that a reduction node reduces, in ascending order; empty if it reduces none.

    Raises:
        ModelError: if the axes are not constant.
    """
    rank = len(node.operand(0).shape)
    given = node.inputs[1] if len(node.inputs) > 1 else None
    axes = [] if given is None else g.contents(given)
    if axes is None:
        raise node.refuse("constant axes", "computed ones")
    if not axes and node.integer("noop_with_empty_axes", 0):
        return []
    return sorted(axis % rank for axis in axes) or [*range(rank)]


def _kept(g: ExtendedGraph, node: Node, value: Value) -> Value:
    """Return ``value``, reshaped to keep each axis that ``node`` reduces as an axis of size 1.

    ``value`` is the result of the reduction ``node``, or the gradient of that result. If ``value``
    has the reduced axes already, it is returned unchanged.
    """
    shape = node.operand(0).shape
    axes = set(_axes(g, node))
    kept = [1 if axis in axes else size for axis, size in enumerate(shape)]
    return value if list(value.shape) == kept else g.reshape(value, *kept)


def _broadcastable(g: ExtendedGraph, node: Node, dys: Gradients) -> Value:
    """Return the gradient of the result of the reduction ``node``, with reduced axes of size 1.

    With these axes, the gradient can be broadcast to the shape of the input. The only element of
    ``dys`` is the gradient, with or without the reduced axes.
    """
    (dy,) = dys
    assert dy is not None
    return _kept(g, node, dy)


def _expanded(g: ExtendedGraph, node: Node, value: Value) -> Value:
    shape = node.operand(0).shape
    return value if value.shape == shape else g.op("Expand", value, g.integers(*shape))


def reduce_sum(g: ExtendedGraph, node: Node, dys: Gradients) -> Gradients:
    """Return the gradient of ReduceSum's input: ``dy``, broadcast to the input's shape."""
    return [_expanded(g, node, _broadcastable(g, node, dys))]


def reduce_mean(g: ExtendedGraph, node: Node, dys: Gradients) -> Gradients:
    """Return the gradient of ReduceMean's input.

    The gradient is ``dy / n``, broadcast to the input's shape; each mean is over n elements.
    """
    count = math.prod(node.operand(0).shape[axis] for axis in _axes(g, node))
    dy = _broadcastable(g, node, dys)
    return [_expanded(g, node, g.op("Mul", dy, g.scalar(1 / count, dy)))]


def reduce_extremum(g: ExtendedGraph, node: Node, dys: Gradients) -> Gradients:
    """Return the gradient of the input of ReduceMax or ReduceMin.

    The gradient of each extremum is split equally among the reduced elements that are equal to it.
    """
    x, dy = node.operand(0), _broadcastable(g, node, dys)
    is_it = g.op("Equal", x, _kept(g, node, node.outputs[0]))
    mask = g.op("Cast", is_it, to=x.elem_type)
    count = g.reduced("ReduceSum", mask, _axes(g, node))
    return [g.op("Mul", mask, g.op("Div", dy, count))]


def reduce_sum_square(g: ExtendedGraph, node: Node, dys: Gradients) -> Gradients:
    """Return the gradient of ReduceSumSquare's input, ``dy * 2 * x``."""
    x, dy = node.operand(0), _broadcastable(g, node, dys)
    return [g.op("Mul", x, g.op("Mul", dy, g.scalar(2, dy)))]


def reduce_l2(g: ExtendedGraph, node: Node, dys: Gradients) -> Gradients:
    """Return the gradient of ReduceL2's input, ``dy * x / y``."""
    x, dy = node.operand(0), _broadcastable(g, node, dys)
    return [g.op("Mul", x, g.op("Div", dy, _kept(g, node, node.outputs[0])))]


def reduce_log_sum_exp(g: ExtendedGraph, node: Node, dys: Gradients) -> Gradients:
    """Return the gradient of ReduceLogSumExp's input, ``dy * exp(x - y)``."""
    x, dy = node.operand(0), _broadcastable(g, node, dys)
    share = g.op("Exp", g.op("Sub", x, _kept(g, node, node.outputs[0])))
    return [g.op("Mul", dy, share)]


def softmax(g: ExtendedGraph, node: Node, dys: Gradients) -> Gradients:
    """Return the gradient of softmax's input, ``y * (dy - sum(y * dy))``.

    The sum is along the axis of the softmax.
    """
    (dy,) = dys
    y = node.outputs[0]
    axes = [node.integer("axis", -1) % len(y.shape)]
    total = g.reduced("ReduceSum", g.op("Mul", y, dy), axes)
    return [g.op("Mul", y, g.op("Sub", dy, total))]


def log_softmax(g: ExtendedGraph, node: Node, dys: Gradients) -> Gradients:
    """Return the gradient of log-softmax's input, ``dy - exp(y) * sum(dy)``.

    The sum is along the axis of the softmax.
    """
    (dy,) = dys
    assert dy is not None
    y = node.outputs[0]
    total = g.reduced("ReduceSum", dy, [node.integer("axis", -1) % len(y.shape)])
    return [g.op("Sub", dy, g.op("Mul", g.op("Exp", y), total))]


def layer_norm(g: ExtendedGraph, node: Node, dys: Gradients) -> Gradients:
    """Return the gradients of a layer normalization's input, scale and bias.

    With ``n = (x - mean(x)) / deviation``, where the deviation is the standard deviation of x, and
    ``d = dy * scale``, the input's gradient is ``(d - mean(d) - n * mean(d * n)) / deviation`` (Ba,
    Kiros and Hinton, 2016). The means and the deviation are over the normalized axes.
    """
    dy = dys[0]
    assert dy is not None
    if any(other is not None for other in dys[1:]):
        raise node.refuse("no gradient of the mean and the deviation", "one")
    x, scale = node.operand(0), node.operand(1)
    first = node.integer("axis", -1) % len(x.shape)
    axes = [*range(first, len(x.shape))]
    centered = g.op("Sub", x, g.reduced("ReduceMean", x, axes))
    variance = g.reduced("ReduceMean", g.op("Mul", centered, centered), axes)
    shifted = g.op("Add", variance, g.scalar(node.number("epsilon", 1e-5), x))
    inverse = g.op("Reciprocal", g.op("Sqrt", shifted))
    normal = g.op("Mul", centered, inverse)
    scaled = g.op("Mul", dy, scale)
    mean = g.reduced("ReduceMean", scaled, axes)
    along = g.reduced("ReduceMean", g.op("Mul", scaled, normal), axes)
    rest = g.op("Sub", g.op("Sub", scaled, mean), g.op("Mul", normal, along))
    found = [g.op("Mul", rest, inverse), sum_to(g, g.op("Mul", dy, normal), scale.shape)]
    if len(node.inputs) > 2 and (bias := node.inputs[2]) is not None:
        found.append(sum_to(g, dy, bias.shape))
    return found
