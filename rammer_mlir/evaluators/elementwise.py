"""Evaluates ONNX's elementwise operators on NumPy arrays."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce

import numpy as np

from rammer_mlir.evaluators.operation import (
    FLOATS,
    INTEGERS,
    Evaluator,
    Numbers,
    Operation,
    integer_limits,
    require,
    single,
)

_Function = Callable[..., Numbers]


def _is_float(x: Numbers) -> bool:
    return x.dtype in FLOATS


def _rounded_once(function: _Function) -> Evaluator:
    """Return an evaluator that applies ``function`` to float operands, with a single rounding.

    The function computes in f64; its result is rounded to the operands' type. The evaluator raises
    NotFoldableError for integers.
    """

    def compute(operation: Operation) -> Numbers:
        values = operation.operands()
        require(all(_is_float(value) for value in values))
        result = function(*(value.astype(np.float64) for value in values))
        return result.astype(values[0].dtype)

    return single(compute)


def _in_type(function: _Function) -> Evaluator:
    """Return an evaluator that applies ``function`` to operands without converting their type.

    Operands of 16-bit floats are an exception: the function computes in f32, and its result is
    rounded to 16 bits.
    """

    def compute(operation: Operation) -> Numbers:
        values = operation.operands()
        kind = values[0].dtype
        if _is_float(values[0]) and kind.itemsize == 2:
            values = [value.astype(np.float32) for value in values]
        return np.asarray(function(*values)).astype(kind, copy=False)

    return single(compute)


def _plain(function: _Function) -> Evaluator:
    """Return an evaluator that applies a NumPy function (comparison, logic) to its operands."""
    return single(lambda operation: function(*operation.operands()))


def _joined(function: _Function) -> Evaluator:
    """Return an evaluator of a variadic operator that combines all operands by ``function``.

    ``function`` is binary and is applied from left to right, as by ``functools.reduce``.
    """
    return _in_type(lambda *values: reduce(function, values))


def _quotient(x: Numbers, y: Numbers) -> Numbers:
    """Return ``x / y`` element by element; quotients of integers are truncated toward zero."""
    if _is_float(x):
        return x / y
    require(bool((y != 0).all()))
    quotient = x // y
    return quotient + ((x % y != 0) & ((x < 0) ^ (y < 0))).astype(quotient.dtype)


def _modulo(operation: Operation) -> Numbers:
    x, y = operation.input(0), operation.input(1)
    is_float = _is_float(x)
    require(is_float or bool((y != 0).all()))
    return (np.fmod if operation.attribute("fmod", 0) else np.mod)(x, y)


def _power(operation: Operation) -> Numbers:
    base, exponent = operation.input(0), operation.input(1)
    if base.dtype in INTEGERS and exponent.dtype in INTEGERS:
        require(bool(((exponent >= 0) & (exponent < 64)).all()))
        return np.power(base, exponent.astype(base.dtype))
    result = np.power(base.astype(np.float64), exponent.astype(np.float64))
    return convert(result, base.dtype)


def _shift(operation: Operation) -> Numbers:
    x, count = operation.input(0), operation.input(1)
    require(bool((count < 8 * x.dtype.itemsize).all() and (count >= 0).all()))
    is_left = operation.attribute("direction") == b"LEFT"
    return np.left_shift(x, count) if is_left else np.right_shift(x, count)


def _clip(operation: Operation) -> Numbers:
    x, low, high = operation.input(0), operation.find(1), operation.find(2)
    if low is not None:
        x = np.maximum(x, low)
    return x if high is None else np.minimum(x, high)


def _sign(x: Numbers) -> Numbers:
    return np.sign(x)


def _error_function(x: Numbers) -> Numbers:
    return np.vectorize(math.erf, otypes=[np.float64])(x)


def _is_infinite(operation: Operation) -> Numbers:
    x = operation.input(0)
    above = bool(operation.attribute("detect_positive", 1))
    below = bool(operation.attribute("detect_negative", 1))
    return np.isinf(x) & ((x > 0) & above | (x < 0) & below)


def convert(x: Numbers, kind: np.dtype[np.generic]) -> Numbers:
    """Return ``x`` converted to element type ``kind``; floats are truncated to integers.

    Raises:
        NotFoldableError: if evaluators do not support ``kind``, or if a float of ``x`` is outside
            the range of the integer type ``kind``.
    """
    require(kind in FLOATS or kind in INTEGERS or kind == np.bool_)
    if _is_float(x) and kind in INTEGERS:
        low, high = integer_limits(kind)
        whole = np.trunc(x.astype(np.float64))
        # Comparing with `<= high` would be wrong: the limit may round up to a float out of range.
        require(bool(((whole >= low) & (whole < float(high) + 1)).all()))
        return whole.astype(kind)
    return x.astype(np.float64) != 0 if kind == np.bool_ else x.astype(kind)


def _cast(operation: Operation) -> Numbers:
    return convert(operation.input(0), operation.attribute("to"))


def _cast_like(operation: Operation) -> Numbers:
    return convert(operation.input(0), operation.input(1).dtype)


def _mean(*values: Numbers) -> Numbers:
    return reduce(np.add, values) / np.asarray(len(values), values[0].dtype)


def _sigmoid(x: Numbers) -> Numbers:
    return 1 / (1 + np.exp(-x))


def _relu(x: Numbers) -> Numbers:
    return np.maximum(x, np.zeros((), x.dtype))


def _where(condition: Numbers, x: Numbers, y: Numbers) -> Numbers:
    return np.where(condition, x, y)


EVALUATORS: dict[str, Evaluator] = {
    "Abs": _in_type(np.abs),
    "Acos": _rounded_once(np.arccos),
    "Acosh": _rounded_once(np.arccosh),
    "Add": _in_type(np.add),
    "And": _plain(np.logical_and),
    "Asin": _rounded_once(np.arcsin),
    "Asinh": _rounded_once(np.arcsinh),
    "Atan": _rounded_once(np.arctan),
    "Atanh": _rounded_once(np.arctanh),
    "BitShift": single(_shift),
    "BitwiseAnd": _plain(np.bitwise_and),
    "BitwiseNot": _plain(np.invert),
    "BitwiseOr": _plain(np.bitwise_or),
    "BitwiseXor": _plain(np.bitwise_xor),
    "Cast": single(_cast),
    "CastLike": single(_cast_like),
    "Ceil": _in_type(np.ceil),
    "Clip": single(_clip),
    "Cos": _rounded_once(np.cos),
    "Cosh": _rounded_once(np.cosh),
    "Div": _in_type(_quotient),
    "Equal": _plain(np.equal),
    "Erf": _rounded_once(_error_function),
    "Exp": _rounded_once(np.exp),
    "Floor": _in_type(np.floor),
    "Greater": _plain(np.greater),
    "GreaterOrEqual": _plain(np.greater_equal),
    "Identity": single(lambda operation: operation.input(0)),
    "IsInf": single(_is_infinite),
    "IsNaN": _plain(np.isnan),
    "Less": _plain(np.less),
    "LessOrEqual": _plain(np.less_equal),
    "Log": _rounded_once(np.log),
    "Max": _joined(np.maximum),
    "Mean": _in_type(_mean),
    "Min": _joined(np.minimum),
    "Mod": single(_modulo),
    "Mul": _in_type(np.multiply),
    "Neg": _in_type(np.negative),
    "Not": _plain(np.logical_not),
    "Or": _plain(np.logical_or),
    "Pow": single(_power),
    "Reciprocal": _in_type(np.reciprocal),
    "Relu": _in_type(_relu),
    "Round": _in_type(np.rint),
    "Sigmoid": _rounded_once(_sigmoid),
    "Sign": _in_type(_sign),
    "Sin": _rounded_once(np.sin),
    "Sinh": _rounded_once(np.sinh),
    "Sqrt": _rounded_once(np.sqrt),
    "Sub": _in_type(np.subtract),
    "Sum": _joined(np.add),
    "Tan": _rounded_once(np.tan),
    "Tanh": _rounded_once(np.tanh),
    "Where": _plain(_where),
    "Xor": _plain(np.logical_xor),
}
"""Evaluators of the elementwise operators, by operator name."""
