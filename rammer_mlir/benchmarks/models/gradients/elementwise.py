"""Define the gradient rules of element-wise operators, with broadcasting.

In the rules, ``x`` is an input, ``y`` the output, ``dy`` the gradient of the loss with respect to
the output. A rule adds nodes to the graph ``g``, and returns a gradient for each input, or None for
an input that has no gradient.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from onnx import TensorProto

from rammer_mlir.benchmarks.models.builder import Value
from rammer_mlir.benchmarks.models.gradients.broadcasting import sum_to
from rammer_mlir.benchmarks.models.gradients.graph import ExtendedGraph, Node

Gradients = Sequence[Value | None]
Unary = Callable[[ExtendedGraph, Value, Value, Value], Value]
"""A function that returns the gradient of an operator's input.

Its arguments are the graph, the gradient of the output, the input, and the output.
"""

_FLOATS = {TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16}


def unary(rule: Unary) -> Callable[[ExtendedGraph, Node, Gradients], Gradients]:
    """Convert the rule of an operator with a single input to the signature of rules in ``RULES``.

    ``rule`` is called with the graph, the gradient of the operator's output, the operator's input,
    and its output. ``rule`` returns the gradient of the input.
    """

    def differentiate(g: ExtendedGraph, node: Node, dys: Gradients) -> Gradients:
        (dy,) = dys
        assert dy is not None
        return [rule(g, dy, node.operand(0), node.outputs[0])]

    return differentiate


def _binary(g: ExtendedGraph, node: Node, left: Value, right: Value) -> Gradients:
    return [
        sum_to(g, left, node.operand(0).shape),
        sum_to(g, right, node.operand(1).shape),
    ]


def add(g: ExtendedGraph, node: Node, dys: Gradients) -> Gradients:
    """Return the gradient of each operand of Add or Sum: ``dy``, the gradient of the result.

    Each gradient is summed over the dimensions along which its operand was broadcast.
    """
    (dy,) = dys
    assert dy is not None
    return [sum_to(g, dy, value.shape) if value else None for value in node.inputs]


def sub(g: ExtendedGraph, node: Node, dys: Gradients) -> Gradients:
    """Return the gradients of a and b in ``y = a - b``: ``dy`` and ``-dy``.

    Each gradient is summed over the dimensions along which its operand was broadcast.
    """
    (dy,) = dys
    assert dy is not None
    right = g.op("Neg", sum_to(g, dy, node.operand(1).shape))
    return [sum_to(g, dy, node.operand(0).shape), right]


def mul(g: ExtendedGraph, node: Node, dys: Gradients) -> Gradients:
    """Return the gradients of a and b in ``y = a * b``: ``dy * b`` and ``dy * a``.

    Each gradient is summed over the dimensions along which its operand was broadcast.
    """
    (dy,) = dys
    a, b = node.operand(0), node.operand(1)
    return _binary(g, node, g.op("Mul", dy, b), g.op("Mul", dy, a))


def div(g: ExtendedGraph, node: Node, dys: Gradients) -> Gradients:
    """Return the gradients of a and b in ``y = a / b``: ``dy / b`` and ``-dy / b * y``.

    Each gradient is summed over the dimensions along which its operand was broadcast.
    """
    (dy,) = dys
    a, b = node.operand(0), node.operand(1)
    left = g.op("Div", dy, b)
    right = sum_to(g, g.op("Mul", left, node.outputs[0]), b.shape)
    return [sum_to(g, left, a.shape), g.op("Neg", right)]  # negate after the sum: fewer elements


def power(g: ExtendedGraph, node: Node, dys: Gradients) -> Gradients:
    """Return the gradient of a in ``y = a ** b``: ``dy * b * a ** (b - 1)``.

    The gradient is summed over the dimensions along which a was broadcast. The exponent b is
    treated as a constant: the second result is None.
    """
    (dy,) = dys
    a, b = node.operand(0), node.operand(1)
    less = g.op("Sub", b, g.scalar(1, b))
    slope = g.op("Mul", g.op("Pow", a, less), b)
    return [sum_to(g, g.op("Mul", dy, slope), a.shape), None]


def where(g: ExtendedGraph, node: Node, dys: Gradients) -> Gradients:
    """Return the gradients of Where's three inputs; the condition's gradient is None.

    A data input's gradient is ``dy``, the gradient of the result, where the condition selects this
    input, and zero elsewhere. It is summed over the dimensions along which the input was broadcast.
    """
    (dy,) = dys
    assert dy is not None
    condition, zero = node.operand(0), g.scalar(0, dy)
    left, right = g.op("Where", condition, dy, zero), g.op("Where", condition, zero, dy)
    taken, other = node.operand(1), node.operand(2)
    return [None, sum_to(g, left, taken.shape), sum_to(g, right, other.shape)]


def cast(g: ExtendedGraph, node: Node, dys: Gradients) -> Gradients:
    """Return the gradient of Cast's input, or None if the input has no float type.

    The gradient is the result's gradient, cast to the input's type.
    """
    (dy,) = dys
    x = node.operand(0)
    return [g.op("Cast", dy, to=x.elem_type) if x.elem_type in _FLOATS else None]


def clip(g: ExtendedGraph, node: Node, dys: Gradients) -> Gradients:
    """Return the gradient of Clip's input.

    The gradient is that of the result where the input is within the bounds, and zero elsewhere. The
    bounds are treated as constants.
    """
    (dy,) = dys
    assert dy is not None
    x, zero = node.operand(0), g.scalar(0, dy)
    for bound, op_type in zip(node.inputs[1:], ("GreaterOrEqual", "LessOrEqual"), strict=False):
        if bound is not None:
            dy = g.op("Where", g.op(op_type, x, bound), dy, zero)
    return [dy]


def gelu(g: ExtendedGraph, node: Node, dys: Gradients) -> Gradients:
    """Return the gradient of x in Gelu, ``y = x * Phi(x)``: ``dy * (Phi(x) + x * phi(x))``.

    Phi and phi are the cumulative distribution function and the density of a standard normal
    variable (Hendrycks and Gimpel, 2016). A Gelu with another ``approximate`` than "none" is
    refused.
    """
    (dy,) = dys
    x = node.operand(0)
    if node.text("approximate", "none") != "none":
        raise node.refuse("approximate 'none'", repr(node.text("approximate", "none")))
    half, one = g.scalar(0.5, x), g.scalar(1, x)
    erf = g.op("Erf", g.op("Mul", x, g.scalar(math.sqrt(0.5), x)))
    share = g.op("Mul", g.op("Add", erf, one), half)
    density = g.op("Exp", g.op("Mul", g.op("Mul", x, x), g.scalar(-0.5, x)))
    slope = g.op("Mul", g.op("Mul", x, density), g.scalar(1 / math.sqrt(2 * math.pi), x))
    return [g.op("Mul", dy, g.op("Add", share, slope))]


def relu(g: ExtendedGraph, dy: Value, x: Value, y: Value) -> Value:
    """Return the gradient of ReLU's input: ``dy`` where ``y > 0``, else zero."""
    del x
    zero = g.scalar(0, y)
    return g.op("Where", g.op("Greater", y, zero), dy, zero)


def tanh(g: ExtendedGraph, dy: Value, x: Value, y: Value) -> Value:
    """Return the gradient of tanh's input, ``dy * (1 - y * y)``."""
    del x
    return g.op("Mul", dy, g.op("Sub", g.scalar(1, y), g.op("Mul", y, y)))


def sigmoid(g: ExtendedGraph, dy: Value, x: Value, y: Value) -> Value:
    """Return the gradient of the sigmoid's input, ``dy * y * (1 - y)``."""
    del x
    return g.op("Mul", dy, g.op("Mul", y, g.op("Sub", g.scalar(1, y), y)))


def exp(g: ExtendedGraph, dy: Value, x: Value, y: Value) -> Value:
    """Return the gradient of exp's input, ``dy * y``."""
    del x
    return g.op("Mul", dy, y)


def log(g: ExtendedGraph, dy: Value, x: Value, y: Value) -> Value:
    """Return the gradient of log's input, ``dy / x``."""
    del y
    return g.op("Div", dy, x)


def sqrt(g: ExtendedGraph, dy: Value, x: Value, y: Value) -> Value:
    """Return the gradient of sqrt's input, ``0.5 * dy / y``."""
    del x
    return g.op("Div", g.op("Mul", dy, g.scalar(0.5, y)), y)


def reciprocal(g: ExtendedGraph, dy: Value, x: Value, y: Value) -> Value:
    """Return the gradient of the reciprocal's input, ``-dy * y * y``."""
    del x
    return g.op("Neg", g.op("Mul", dy, g.op("Mul", y, y)))


def erf(g: ExtendedGraph, dy: Value, x: Value, y: Value) -> Value:
    """Return the gradient of erf's input, ``dy * 2 / sqrt(pi) * exp(-x * x)``."""
    del y
    bell = g.op("Exp", g.op("Neg", g.op("Mul", x, x)))
    return g.op("Mul", dy, g.op("Mul", bell, g.scalar(2 / math.sqrt(math.pi), x)))


def negate(g: ExtendedGraph, dy: Value, x: Value, y: Value) -> Value:
    """Return the gradient of a negation's input, ``-dy``."""
    del x, y
    return g.op("Neg", dy)


def identity(g: ExtendedGraph, dy: Value, x: Value, y: Value) -> Value:
    """Return the gradient of the identity's input, ``dy``."""
    del g, x, y
    return dy
