"""Gradients of element-wise operators, with broadcasting."""

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
    """Make an entry of ``RULES`` for an operator with one input and one output.

    ``rule`` is called with the graph, the gradient of the output, the input and the output; it
    returns the gradient of the input.
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
    """Return the gradient of each term of a sum.

    It is the result's gradient, summed over the dimensions along which the term was broadcast.
    """
    (dy,) = dys
    assert dy is not None
    return [sum_to(g, dy, value.shape) if value else None for value in node.inputs]


def sub(g: ExtendedGraph, node: Node, dys: Gradients) -> Gradients:
    """Return the gradients of a and b in ``a - b``, given that of the result."""
    (dy,) = dys
    assert dy is not None
    right = g.op("Neg", sum_to(g, dy, node.operand(1).shape))
    return [sum_to(g, dy, node.operand(0).shape), right]


def mul(g: ExtendedGraph, node: Node, dys: Gradients) -> Gradients:
    """Return the gradients of a and b in ``a * b``, given that of the result."""
    (dy,) = dys
    a, b = node.operand(0), node.operand(1)
    return _binary(g, node, g.op("Mul", dy, b), g.op("Mul", dy, a))


def div(g: ExtendedGraph, node: Node, dys: Gradients) -> Gradients:
    """Return the gradients of a and b in ``y = a / b``; the derivative by b is ``-y / b``."""
    (dy,) = dys
    a, b = node.operand(0), node.operand(1)
    left = g.op("Div", dy, b)
    right = sum_to(g, g.op("Mul", left, node.outputs[0]), b.shape)
    return [sum_to(g, left, a.shape), g.op("Neg", right)]  # negate after the sum: fewer elements


def power(g: ExtendedGraph, node: Node, dys: Gradients) -> Gradients:
    """Return the gradient of a in ``a ** b``; the exponent b counts as a constant."""
    (dy,) = dys
    a, b = node.operand(0), node.operand(1)
    less = g.op("Sub", b, g.scalar(1, b))
    slope = g.op("Mul", g.op("Pow", a, less), b)
    return [sum_to(g, g.op("Mul", dy, slope), a.shape), None]


def where(g: ExtendedGraph, node: Node, dys: Gradients) -> Gradients:
    """Return the gradients of Where's two operands; the condition has none.

    An operand's gradient is that of the result where the condition selects the operand, else zero.
    It is summed over the dimensions along which the operand was broadcast.
    """
    (dy,) = dys
    assert dy is not None
    condition, zero = node.operand(0), g.scalar(0, dy)
    left, right = g.op("Where", condition, dy, zero), g.op("Where", condition, zero, dy)
    taken, other = node.operand(1), node.operand(2)
    return [None, sum_to(g, left, taken.shape), sum_to(g, right, other.shape)]


def cast(g: ExtendedGraph, node: Node, dys: Gradients) -> Gradients:
    """Return the gradient of a conversion between floats; integers have no gradient."""
    (dy,) = dys
    x = node.operand(0)
    return [g.op("Cast", dy, to=x.elem_type) if x.elem_type in _FLOATS else None]


def clip(g: ExtendedGraph, node: Node, dys: Gradients) -> Gradients:
    """Return the gradient of Clip's input: the result's gradient, but zero outside of the bounds.

    The bounds count as constants.
    """
    (dy,) = dys
    assert dy is not None
    x, zero = node.operand(0), g.scalar(0, dy)
    for bound, op_type in zip(node.inputs[1:], ("GreaterOrEqual", "LessOrEqual"), strict=False):
        if bound is not None:
            dy = g.op("Where", g.op(op_type, x, bound), dy, zero)
    return [dy]


def gelu(g: ExtendedGraph, node: Node, dys: Gradients) -> Gradients:
    """Return the gradient of x in ``x * Phi(x)``, with derivative ``Phi(x) + x * phi(x)``.

    Phi and phi are the distribution and the density of a normal variable (Hendrycks and Gimpel,
    2016).
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
    """Return the gradient of ReLU; the derivative at zero is zero."""
    del x
    zero = g.scalar(0, y)
    return g.op("Where", g.op("Greater", y, zero), dy, zero)


def tanh(g: ExtendedGraph, dy: Value, x: Value, y: Value) -> Value:
    """Return the gradient of tanh, with derivative ``1 - y * y``."""
    del x
    return g.op("Mul", dy, g.op("Sub", g.scalar(1, y), g.op("Mul", y, y)))


def sigmoid(g: ExtendedGraph, dy: Value, x: Value, y: Value) -> Value:
    """Return the gradient of the sigmoid, with derivative ``y * (1 - y)``."""
    del x
    return g.op("Mul", dy, g.op("Mul", y, g.op("Sub", g.scalar(1, y), y)))


def exp(g: ExtendedGraph, dy: Value, x: Value, y: Value) -> Value:
    """Return the gradient of exp, with derivative ``y``."""
    del x
    return g.op("Mul", dy, y)


def log(g: ExtendedGraph, dy: Value, x: Value, y: Value) -> Value:
    """Return the gradient of log, with derivative ``1 / x``."""
    del y
    return g.op("Div", dy, x)


def sqrt(g: ExtendedGraph, dy: Value, x: Value, y: Value) -> Value:
    """Return the gradient of sqrt, with derivative ``0.5 / y``."""
    del x
    return g.op("Div", g.op("Mul", dy, g.scalar(0.5, y)), y)


def reciprocal(g: ExtendedGraph, dy: Value, x: Value, y: Value) -> Value:
    """Return the gradient of the reciprocal, with derivative ``-y * y``."""
    del x
    return g.op("Neg", g.op("Mul", dy, g.op("Mul", y, y)))


def erf(g: ExtendedGraph, dy: Value, x: Value, y: Value) -> Value:
    """Return the gradient of erf, with derivative ``2 / sqrt(pi) * exp(-x * x)``."""
    del y
    bell = g.op("Exp", g.op("Neg", g.op("Mul", x, x)))
    return g.op("Mul", dy, g.op("Mul", bell, g.scalar(2 / math.sqrt(math.pi), x)))


def negate(g: ExtendedGraph, dy: Value, x: Value, y: Value) -> Value:
    """Return the gradient of negation, with derivative -1."""
    del x, y
    return g.op("Neg", dy)


def identity(g: ExtendedGraph, dy: Value, x: Value, y: Value) -> Value:
    """Return the gradient of the identity, with derivative 1."""
    del g, x, y
    return dy
