"""Expresses element-wise functions by operators of JSON graphs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rammer_mlir.codegens.graph.writer import GraphWriter
from rammer_mlir.codegens.inexpressible import NotExpressibleError
from rammer_mlir.passes.regions.expressions import Apply, Constant, Expression, Input

_OPERATORS: Mapping[str, str] = {
    "add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "neg": "Neg", "abs": "Abs",
    "maximum": "Max", "minimum": "Min", "pow": "Pow", "exp": "Exp", "log": "Log", "sqrt": "Sqrt",
    "tanh": "Tanh", "erf": "Erf", "ceil": "Ceil", "floor": "Floor", "roundeven": "Round",
    "sin": "Sin", "cos": "Cos", "tan": "Tan", "sinh": "Sinh", "cosh": "Cosh", "asin": "Asin",
    "acos": "Acos", "atan": "Atan", "asinh": "Asinh", "acosh": "Acosh", "atanh": "Atanh",
    "select": "Where", "olt": "Less", "ogt": "Greater", "ole": "LessOrEqual",
    "oge": "GreaterOrEqual", "oeq": "Equal",
}  # fmt: skip

_NAMED: Mapping[str, tuple[str, Mapping[str, float]]] = {
    "relu": ("Relu", {}),
    "sigmoid": ("Sigmoid", {}),
    "gelu": ("Gelu", {}),
    "hard_sigmoid": ("HardSigmoid", {"alpha": 0.2, "beta": 0.5}),
    "hard_swish": ("HardSwish", {}),
    "leaky_relu": ("LeakyRelu", {"alpha": 0.01}),
    "elu": ("Elu", {"alpha": 1.0}),
    "softplus": ("Softplus", {}),
    "mish": ("Mish", {}),
    "softsign": ("Softsign", {}),
    "reciprocal": ("Reciprocal", {}),
}
"""ONNX operators of unary functions, by kind, with the defaults of the attributes."""

CASTS: Mapping[str, int] = {"f32": 1, "i8": 3, "i32": 6, "f16": 10}
"""ONNX's numbers of element types (``TensorProto.DataType``), by MLIR element type."""


def write_cast(writer: GraphWriter, value: str, element_type: str, out: str = "") -> str:
    """Append a conversion of tensor ``value`` to ``element_type``; return the result's name.

    The result is named ``out``, or gets a generated name if ``out`` is empty.

    Raises:
        NotExpressibleError: if graphs do not support the type.
    """
    if element_type not in CASTS:
        raise NotExpressibleError(element_type)
    return writer.node("Cast", [value], out, to=CASTS[element_type])


def write_function(
    writer: GraphWriter,
    kind: str,
    expression: Expression,
    parameters: Mapping[str, float],
    inputs: Sequence[str],
) -> str:
    """Append the operators of an element-wise function to a graph; return the result's name.

    Args:
        writer: the graph under construction.
        kind: the kind of the operation, such as ``relu`` or ``elementwise``.
        expression: expression tree of the function; its leaf ``Input(i)`` is ``inputs[i]``.
        parameters: floating-point attributes of the operation, such as ``alpha``, by name.
        inputs: names of the input tensors in the graph; their shapes must broadcast.

    Returns:
        The name of the result.

    Raises:
        NotExpressibleError: if graphs have no operator for a function in ``expression``.
    """
    if kind == "quantize" and "scale" in parameters:
        scale, zero = writer.number(parameters["scale"]), writer.number(parameters["zero"], "i8")
        return writer.node("QuantizeLinear", [*inputs, scale, zero])
    if kind in _NAMED and len(inputs) == 1:
        name, defaults = _NAMED[kind]
        given = {key: parameters.get(key, 1.0 if kind == "elu" else 0.0) for key in defaults}
        return writer.node(name, inputs, "", **given)
    return _write(writer, expression, inputs)


def _write(writer: GraphWriter, expression: Expression, inputs: Sequence[str]) -> str:
    if isinstance(expression, Input):
        return inputs[expression.number]
    if isinstance(expression, Constant):
        return writer.number(expression.value, expression.element_type)
    assert isinstance(expression, Apply)
    operands = [_write(writer, operand, inputs) for operand in expression.operands]
    if expression.function.startswith("cast_"):
        return write_cast(writer, operands[0], expression.function.removeprefix("cast_"))
    if expression.function == "rsqrt":
        return writer.node("Reciprocal", [writer.node("Sqrt", operands)])
    if expression.function not in _OPERATORS:
        raise NotExpressibleError(expression.function)
    return writer.node(_OPERATORS[expression.function], operands)
