"""Builds elementwise operators, whose inputs are broadcast to the result's shape."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from rammer_mlir.bindings import ir, math
from rammer_mlir.frontends.onnx.builders.activations import ACTIVATIONS
from rammer_mlir.frontends.onnx.builders.node import Builder, Node
from rammer_mlir.frontends.onnx.builders.structured import (
    Body,
    pointwise,
)
from rammer_mlir.frontends.onnx.builders.values import (
    Tensor,
)
from rammer_mlir.passes.ir.byte_formats import in_bytes
from rammer_mlir.passes.ir.conversions import convert
from rammer_mlir.passes.ir.scalar import (
    BOOL,
    F32,
    F64,
    Comparison,
    Scalar,
    is_float,
    is_signed,
    literal,
)

Pair = Callable[[Scalar, Scalar], Scalar]


def elementwise(node: Node, function: Body) -> Tensor:
    """Emit an elementwise operation on a node's inputs, broadcast to the result's shape.

    ``function`` emits the computation of an element of the result from one scalar of each input.
    Constant inputs with a single element become literals in that computation.
    """
    result = node.out()
    literals = {
        number: fact.value.reshape(-1)[0].item()
        for number, fact in enumerate(node.inputs)
        if fact is not None and fact.value is not None and fact.value.size == 1
    }
    given = [number for number, fact in enumerate(node.inputs) if fact is not None]

    def body(*scalars: Scalar) -> Scalar:
        rest = iter(scalars)
        values = [
            literal(literals[number], node.fact(number).dtype) if number in literals else next(rest)
            for number in given
        ]
        return function(*values)

    operands = [node.tensor(number) for number in given if number not in literals]
    return pointwise(body, *operands, dtype=result.dtype, shape=result.shape)


def _operation(make: Callable[[ir.Value], ir.OpView], node: Node) -> Tensor:
    """Emit a unary operation of MLIR's `math` dialect on each element of the node's input.

    ``make`` creates the operation, on an f64 scalar for f64 elements, else on an f32 scalar.
    """

    def body(x: Scalar) -> Scalar:
        kind = F64 if x.dtype == F64 else F32
        return x.cast(kind).apply(make).cast(x.dtype)

    return elementwise(node, body)


def _activation(
    function: Callable[..., Scalar], defaults: dict[str, float | str], node: Node
) -> Tensor:
    """Emit an activation function on each element of the node's input.

    ``defaults`` has names and default values of the node's attributes. ``function`` emits the
    computation. Its arguments are a scalar, which is f64 for f64 elements, else f32, and the values
    of the attributes in the order of ``defaults``.
    """
    parameters = [node.attribute(name, default) for name, default in defaults.items()]

    def body(x: Scalar) -> Scalar:
        kind = F64 if x.dtype == F64 else F32
        return function(x.cast(kind), *parameters).cast(x.dtype)

    return elementwise(node, body)


def _function(function: Body, node: Node) -> Tensor:
    return elementwise(node, function)


_MOST_TERMS = 32
"""Most operands of an elementwise operation: an rOperator has few, and fuses several operations."""


def _fold(function: Pair, node: Node) -> Tensor:
    """Emit a variadic operator: a left fold of the node's inputs by a binary function."""

    def body(first: Scalar, *rest: Scalar) -> Scalar:
        for other in rest:
            first = function(first, other)
        return first

    if len(node.inputs) <= _MOST_TERMS:
        return elementwise(node, body)
    found, *rest = node.tensors()
    for begin in range(0, len(rest), _MOST_TERMS - 1):
        found = pointwise(body, found, *rest[begin : begin + _MOST_TERMS - 1])
    return found


def _mean(node: Node) -> Tensor:
    total = _fold(lambda x, y: x + y, node)
    return pointwise(lambda x: x / len(node.inputs), total)


def _absolute(x: Scalar) -> Scalar:
    if is_float(x.dtype):
        return x.apply(math.AbsFOp)
    return x.apply(math.AbsIOp) if is_signed(x.dtype) else x


def _sign(x: Scalar) -> Scalar:
    # If neither above nor below zero, the value is zero or NaN, which is returned unchanged.
    negative = x.compare("lt", 0).select(literal(-1, x.dtype), x) if x.dtype.kind != "u" else x
    return x.compare("gt", 0).select(literal(1, x.dtype), negative)


def _relu(x: Scalar) -> Scalar:
    # Compare and select keep NaN in one x86 instruction; a NaN-propagating maximum takes three.
    zero = literal(0, x.dtype)
    return x.compare("lt", zero).select(zero, x)


def _leaky(x: Scalar, slope: Scalar) -> Scalar:
    return x.compare("lt", 0).select(x * slope, x)


def _leaky_relu(node: Node) -> Tensor:
    alpha = node.attribute("alpha", 0.01)
    return elementwise(node, lambda x: _leaky(x, literal(alpha, x.dtype)))


def _cast(node: Node) -> Tensor:
    target = node.out().dtype
    saturate, rounding = bool(node.attribute("saturate", 1)), node.attribute("round_mode", "up")

    def body(x: Scalar) -> Scalar:
        return convert(x, target, saturate, rounding)

    return pointwise(body, node.tensor(0), dtype=target)


def _bit_cast(node: Node) -> Tensor:
    target = node.out().dtype
    if BOOL in (target, node.fact(0).dtype):
        return _cast(node)
    if node.fact(0).dtype.itemsize != target.itemsize:
        raise node.unsupported("only element types of the same size can be cast bit by bit")
    return pointwise(lambda x: x.bitcast(target), node.tensor(0), dtype=target)


def _as_number(x: Scalar) -> Scalar:
    return convert(x, F32) if in_bytes(x.dtype) else x


def _is_nan(x: Scalar) -> Scalar:
    number = _as_number(x)
    return number.compare("ne", number)


def _is_infinite(node: Node) -> Tensor:
    signs = (("detect_positive", float("inf")), ("detect_negative", float("-inf")))
    wanted = [value for name, value in signs if node.attribute(name, 1)]

    def body(x: Scalar) -> Scalar:
        found, number = literal(0, BOOL), _as_number(x)
        for value in wanted:
            found = found | number.compare("eq", value)
        return found

    return elementwise(node, body)


def _shrink(node: Node) -> Tensor:
    bias, edge = node.attribute("bias", 0.0), node.attribute("lambd", 0.5)

    def body(x: Scalar) -> Scalar:
        kind = x.dtype if is_float(x.dtype) else F32
        y = x.cast(kind)
        above = y.compare("gt", edge).select(y - bias, literal(0, kind))
        return y.compare("lt", -edge).select(y + bias, above).cast(x.dtype)

    return elementwise(node, body)


def _power(node: Node) -> Tensor:
    exponent = node.constant(1)
    if exponent is not None and exponent.size == 1 and is_float(node.fact(0).dtype):
        known = float(exponent.reshape(-1)[0])
        if known in _POWERS:
            shape = node.out().shape
            return pointwise(_POWERS[known], node.tensor(0), shape=shape)
    return elementwise(node, _power_of_scalars)


_POWERS: dict[float, Body] = {
    -1.0: lambda x: literal(1, x.dtype) / x,
    0.5: lambda x: x.apply(math.SqrtOp),
    1.0: lambda x: x,
    2.0: lambda x: x * x,
    3.0: lambda x: x * x * x,
}
"""Implementations that are cheaper than a general power, by constant exponent."""


def _power_of_scalars(x: Scalar, y: Scalar) -> Scalar:
    if not is_float(x.dtype) and not is_float(y.dtype):
        return _integer_power(x, y)
    kind = x.dtype if x.dtype in (F32, F64) else F64 if not is_float(x.dtype) else F32
    return x.cast(kind).power(y.cast(kind)).cast(x.dtype)


def _integer_power(x: Scalar, y: Scalar) -> Scalar:
    """Emit ``x ** y`` by repeated squaring over the six low bits of the exponent ``y``.

    With an exponent above 63 the power overflows anyway, unless ``x`` is -1, 0 or 1. A power with a
    negative exponent is rounded towards zero; that of 0 is 0, as are quotients by 0.
    """
    result, base = literal(1, x.dtype), x
    for bit in range(6):
        is_set = (y & (1 << bit)).compare("ne", 0)
        result = is_set.select(result * x, result)
        x = x * x
    # The low bits of 64 are zeros, so that the loop above computes the power 0 for it.
    is_zero = (base & 1).compare("eq", 0) & y.compare("ge", 1 << 6)
    if y.dtype.kind != "u":
        is_one = base.compare("eq", 1)
        if x.dtype.kind != "u":
            is_one = is_one | base.compare("eq", -1)
        is_zero = is_zero | (~is_one & y.compare("lt", 0))
    return is_zero.select(literal(0, x.dtype), result)


def _modulo(node: Node) -> Tensor:
    if node.attribute("fmod", 0):
        return elementwise(node, lambda x, y: x.remainder(y))

    def body(x: Scalar, y: Scalar) -> Scalar:
        rest = x.remainder(y)
        if x.dtype.kind == "u":
            return rest
        differ = rest.compare("lt", 0) ^ y.compare("lt", 0)
        return (rest.compare("ne", 0) & differ).select(rest + y, rest)

    return elementwise(node, body)


def _bit_shift(node: Node) -> Tensor:
    """Emit BitShift of each element, with a defined result for any shift count.

    If the count is negative, or at least the number of bits of the element type, the result is 0;
    for a right shift of a negative number it is -1.
    """
    left = node.attribute("direction") == "LEFT"

    def body(x: Scalar, count: Scalar) -> Scalar:
        width = 8 * x.dtype.itemsize
        fits = count.compare("lt", width) & count.compare("ge", 0)
        safe = fits.select(count, literal(width - 1, x.dtype))
        if not left:
            out = literal(0, x.dtype) if x.dtype.kind == "u" else x.shift_right(safe)
            return fits.select(x.shift_right(safe), out)
        return fits.select(x.shift_left(safe), literal(0, x.dtype))

    return elementwise(node, body)


def _clip(node: Node) -> Tensor:
    """Emit Clip; an omitted lower or upper limit does not limit the elements."""
    has = [node.has(1), node.has(2)]

    def body(x: Scalar, *limits: Scalar) -> Scalar:
        given = iter(limits)
        low, high = (next(given) if present else None for present in has)
        return _limit(x, low, high)

    return elementwise(node, body)


def _limit(x: Scalar, low: Scalar | None, high: Scalar | None) -> Scalar:
    kinds: tuple[Comparison, Comparison] = ("lt", "gt")
    for kind, limit in zip(kinds, (low, high), strict=True):
        if limit is not None:
            x = x.compare(kind, limit).select(limit, x)
    return x


def _comparison(kind: Comparison, node: Node) -> Tensor:
    return elementwise(node, lambda x, y: x.compare(kind, y))


def _dropout(node: Node) -> list[Tensor | None]:
    """Emit Dropout for inference: return the node's input, and a mask of ones.

    The mask is None if it is unused. Raises UnsupportedError unless ``training_mode`` is omitted,
    or constant and false.
    """
    if node.has(2) and (node.constant(2) is None or node.constant(2)):
        raise node.unsupported("training_mode must be constant and false")
    mask = None
    if node.uses(1):
        out = node.out(1)
        mask = pointwise(lambda: literal(1, out.dtype), dtype=out.dtype, shape=out.shape)
    return [node.tensor(0), mask]


_MATH: dict[str, Callable[[ir.Value], ir.OpView]] = {
    "Acos": math.AcosOp,
    "Acosh": math.AcoshOp,
    "Asin": math.AsinOp,
    "Asinh": math.AsinhOp,
    "Atan": math.AtanOp,
    "Atanh": math.AtanhOp,
    "Ceil": math.CeilOp,
    "Cos": math.CosOp,
    "Cosh": math.CoshOp,
    "Erf": math.ErfOp,
    "Exp": math.ExpOp,
    "Floor": math.FloorOp,
    "Log": math.LogOp,
    "Round": math.RoundEvenOp,
    "Sin": math.SinOp,
    "Sinh": math.SinhOp,
    "Sqrt": math.SqrtOp,
    "Tan": math.TanOp,
    "Tanh": math.TanhOp,
}

_FUNCTIONS: dict[str, Body] = {
    "Abs": _absolute,
    "Add": lambda x, y: x + y,
    "And": lambda x, y: x & y,
    "BitwiseAnd": lambda x, y: x & y,
    "BitwiseNot": lambda x: ~x,
    "BitwiseOr": lambda x, y: x | y,
    "BitwiseXor": lambda x, y: x ^ y,
    "Div": lambda x, y: x / y,
    "IsNaN": _is_nan,
    "Mul": lambda x, y: x * y,
    "Neg": lambda x: -x,
    "Not": lambda x: ~x,
    "Or": lambda x, y: x | y,
    "PRelu": _leaky,
    "Reciprocal": lambda x: literal(1, x.dtype) / x,
    "Relu": _relu,
    "Sign": _sign,
    "Sub": lambda x, y: x - y,
    "Where": lambda condition, x, y: condition.select(x, y),
    "Xor": lambda x, y: x ^ y,
}

_VARIADIC: dict[str, Pair] = {
    "Max": lambda x, y: x.maximum(y),
    "Min": lambda x, y: x.minimum(y),
    "Sum": lambda x, y: x + y,
}

_COMPARISONS: dict[str, Comparison] = {
    "Equal": "eq",
    "Greater": "gt",
    "GreaterOrEqual": "ge",
    "Less": "lt",
    "LessOrEqual": "le",
}

BUILDERS: dict[str, Builder] = {
    **{name: partial(_operation, make) for name, make in _MATH.items()},
    **{name: partial(_activation, *entry) for name, entry in ACTIVATIONS.items()},
    **{name: partial(_function, function) for name, function in _FUNCTIONS.items()},
    **{name: partial(_fold, function) for name, function in _VARIADIC.items()},
    **{name: partial(_comparison, kind) for name, kind in _COMPARISONS.items()},
    "BitCast": _bit_cast,
    "BitShift": _bit_shift,
    "Cast": _cast,
    "CastLike": _cast,
    "Clip": _clip,
    "Dropout": _dropout,
    "Identity": lambda node: node.tensor(0),
    "IsInf": _is_infinite,
    "LeakyRelu": _leaky_relu,
    "Mean": _mean,
    "Mod": _modulo,
    "Pow": _power,
    "Shrink": _shrink,
}
"""Builders by operator name."""
