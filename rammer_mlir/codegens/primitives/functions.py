"""Expresses element-wise operations by a library's unary and binary functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import cast

from rammer_mlir.codegens.inexpressible import NotExpressibleError
from rammer_mlir.codegens.primitives.node import Function
from rammer_mlir.passes.regions.reading import Reading
from rammer_mlir.passes.regions.weights import uniform_of

_PARAMETERS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(
        "relu tanh square abs sqrt neg softplus sigmoid exp swish log reciprocal rsqrt gelu mish "
        "hard_swish".split(),
        (),
    ),
    "leaky_relu": ("alpha",),
    "elu": ("alpha",),
    "hard_sigmoid": ("alpha", "beta"),
    "clip": ("minimum", "maximum"),
}  # fmt: skip
"""Attributes of an operation that are the function's parameters, by kind of unary function."""

_WITH_NUMBER: Mapping[str, Callable[[float], Function]] = {
    "add": lambda c: linear(1.0, c),
    "mul": lambda c: linear(c),
    "sub": lambda c: linear(1.0, -c),
    "div": lambda c: linear(1.0 / c),
    "maximum": lambda c: Function("clip", c, math.inf),
    "minimum": lambda c: Function("clip", -math.inf, c),
    "pow": lambda c: Function("power", c),
}
"""The unary function of a binary operation with a constant ``c``, by kind of operation."""

_BINARY = ("add", "mul", "maximum", "minimum", "div", "sub")

_LEAST_DIVISOR = 1e-37
"""Smallest absolute value of a divisor; reciprocals of smaller numbers are infinite in f32."""

_ORDERED = ("div", "sub", "pow")

UNARY_KINDS = tuple(_PARAMETERS)

BINARY_KINDS = tuple(dict.fromkeys((*_BINARY, *_WITH_NUMBER)))


def linear(factor: float, offset: float = 0.0) -> Function:
    """Return the function ``factor * x + offset``."""
    return Function("linear", factor, offset)


def unary_function(reading: Reading) -> Function | None:
    """Return a library's function for an operation on one tensor; None for other operations.

    A second operand counts as a constant of the function, and not as a tensor, if it is a number or
    a tensor with the same number in all elements. For example, ``x * 2.0`` becomes ``linear``.
    """
    if reading.kind in _PARAMETERS:
        values = (reading.attributes.get(name, 1.0) for name in _PARAMETERS[reading.kind])
        return Function(reading.kind, *(float(cast("float", value)) for value in values))
    numbers = [uniform_of(operand) for operand in reading.inputs]
    if len(numbers) != 2 or reading.kind not in _WITH_NUMBER:
        return None
    if reading.kind not in _ORDERED and numbers[1] is None:
        numbers = numbers[::-1]
    number = numbers[1]
    if number is None or (reading.kind == "div" and abs(number) < _LEAST_DIVISOR):
        return None
    return _WITH_NUMBER[reading.kind](number)


def binary_function(reading: Reading, *, is_first: bool = True) -> Function:
    """Return a library's binary function for an operation on two tensors.

    Args:
        reading: description of the operation.
        is_first: whether the tensor that has the result's shape is the first operand; otherwise the
            operands are exchanged, and the function must be commutative.

    Raises:
        NotExpressibleError: if the library has no such function.
    """
    if reading.kind not in _BINARY or not (is_first or reading.kind not in _ORDERED):
        raise NotExpressibleError(reading.kind)
    return Function(reading.kind)
