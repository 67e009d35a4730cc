"""Recognizes expressions that have a name: activation functions, and single function calls."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rammer_mlir.passes.regions.expressions import Apply, Constant, Expression, Input, apply

_TOLERANCE = 1e-6
"""Relative tolerance for constants that are rounded to 32 bits."""


@dataclass(frozen=True)
class NamedExpression:
    """The name of an expression, such as ``clip``, and its constants by parameter name."""

    name: str
    parameters: Mapping[str, float]


def name_of(expression: Expression) -> NamedExpression | None:
    """Return the name of an expression, such as ``relu`` for ``maximum(x0, 0)``; None if unnamed.

    The inputs of ``expression`` must be numbered by first use, from left to right.
    """
    for name, template in _TEMPLATES:
        parameters: dict[str, float] = {}
        if _fits(template, expression, parameters) and _is_ordered(name, parameters):
            return NamedExpression(name, parameters)
    if isinstance(expression, Apply) and _is_plain(expression.operands):
        return NamedExpression(expression.function, {})
    return None


def _is_plain(operands: Sequence[Expression]) -> bool:
    """Whether the operands are one or more different inputs and at most one constant."""
    numbers = [operand.number for operand in operands if isinstance(operand, Input)]
    constants = sum(isinstance(operand, Constant) for operand in operands)
    is_leaf = len(numbers) + constants == len(operands)
    return is_leaf and bool(numbers) and constants <= 1 and len(set(numbers)) == len(numbers)


def _is_ordered(name: str, parameters: Mapping[str, float]) -> bool:
    return name != "clip" or parameters["minimum"] <= parameters["maximum"]


def _fits(template: Expression, found: Expression, parameters: dict[str, float]) -> bool:
    if isinstance(template, _Parameter):
        if not isinstance(found, Constant):
            return False
        return parameters.setdefault(template.name, found.value) == found.value
    if isinstance(template, Constant):
        return isinstance(found, Constant) and _is_rounded(template.value, found.value)
    if isinstance(template, Input) or not isinstance(found, Apply):
        return template == found
    if template.function != found.function or len(template.operands) != len(found.operands):
        return False
    pairs = zip(template.operands, found.operands, strict=True)
    return all(_fits(part, operand, parameters) for part, operand in pairs)


def _is_rounded(exact: float, found: float) -> bool:
    """Whether ``found`` is the constant ``exact`` after rounding to f32 or f16."""
    return math.isclose(exact, found, rel_tol=_TOLERANCE) or float(np.float16(exact)) == found


@dataclass(frozen=True)
class _Parameter(Constant):
    """A placeholder in the template of an expression, which matches any constant.

    A match records the constant's value as the parameter ``name``.
    """

    name: str = ""


def _parameter(name: str) -> Expression:
    return _Parameter(0.0, name)


def _call(function: str, *operands: Expression | float) -> Expression:
    given = (Constant(float(o)) if isinstance(o, int | float) else o for o in operands)
    return apply(function, *given)


def _sigmoid(x: Expression) -> Expression:
    return _call("div", 1, _call("add", _call("exp", _call("neg", x)), 1))


def _softplus(x: Expression) -> Expression:
    small = _call("log1p", _call("exp", _call("neg", _call("abs", x))))
    return _call("add", _call("maximum", x, 0), small)


def _clip(x: Expression, low: Expression | float, high: Expression | float) -> Expression:
    return _call("minimum", _call("maximum", x, low), high)


def _below_zero(x: Expression, below: Expression) -> Expression:
    return _call("select", _call("olt", x, 0), below, x)


def _gelu(x: Expression) -> Expression:
    inner = _call("add", _call("erf", _call("mul", x, math.sqrt(0.5))), 1)
    return _call("mul", _call("mul", x, 0.5), inner)


def _quantize(x: Expression, scale: Expression, zero: Expression) -> Expression:
    """Return the expression that quantizes ``x`` to signed 8-bit integers.

    The quantization is that of ONNX's QuantizeLinear, with a scale and a zero point.
    """
    rounded = _call("roundeven", _call("div", x, scale))
    return _call("cast_i8", _clip(_call("add", rounded, zero), -128, 127))


_X, _Y = Input(0), Input(1)
_LINEAR = _call("add", _call("mul", _X, _parameter("alpha")), _parameter("beta"))

_TEMPLATES: tuple[tuple[str, Expression], ...] = (
    ("relu", _call("maximum", _X, 0)),
    ("clip", _clip(_X, _parameter("minimum"), _parameter("maximum"))),
    (
        "clip",
        _call("maximum", _call("minimum", _X, _parameter("maximum")), _parameter("minimum")),
    ),
    ("quantize", _quantize(_X, _parameter("scale"), _parameter("zero"))),
    # In the normal form of a sum, the zero point comes first, so that it is input 0.
    ("quantize", _quantize(_Y, Input(2), _call("cast_f32", _X))),
    ("sigmoid", _sigmoid(_X)),
    ("swish", _call("mul", _X, _sigmoid(_X))),
    ("gelu", _gelu(_X)),
    ("hard_sigmoid", _clip(_LINEAR, 0, 1)),
    ("hard_swish", _call("mul", _X, _clip(_call("add", _call("mul", _X, 1 / 6), 0.5), 0, 1))),
    ("leaky_relu", _below_zero(_X, _call("mul", _X, _parameter("alpha")))),
    ("prelu", _below_zero(_X, _call("mul", _X, _Y))),
    ("elu", _below_zero(_X, _call("expm1", _X))),
    ("elu", _below_zero(_X, _call("mul", _call("expm1", _X), _parameter("alpha")))),
    ("softplus", _softplus(_X)),
    ("mish", _call("mul", _X, _call("tanh", _softplus(_X)))),
    ("softsign", _call("div", _X, _call("add", _call("abs", _X), 1))),
    ("reciprocal", _call("div", 1, _X)),
    ("square", _call("mul", _X, _X)),
)
"""The names of whole expressions and their templates, in the order in which they are tried."""

NAMES = frozenset(name for name, _ in _TEMPLATES)
"""Names of the whole expressions in ``_TEMPLATES``."""
