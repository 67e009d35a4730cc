"""Generators of random elementwise nodes, each of which adds a node to a random graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
from onnx import helper

from tests.fuzz.arrays import is_float
from tests.fuzz.graph import LARGEST, RandomGraph, Value
from tests.fuzz.oracle import Rejected

SMOOTH = (
    "Abs Neg Relu Sigmoid Tanh Exp Log Sqrt Erf Sin Cos Tan Atan Asin Acos Sinh Cosh Asinh Acosh "
    "Atanh Reciprocal Softplus Softsign Identity HardSwish Mish"
).split()
ROUNDED = "Round Floor Ceil Sign".split()
SHAPED: Mapping[str, Mapping[str, Sequence[Any]]] = {
    "LeakyRelu": {"alpha": (0.01, 0.3)}, "Elu": {"alpha": (1.0, 0.4)},
    "Celu": {"alpha": (1.0, 2.0)}, "Selu": {"alpha": (1.6, 0.5)},
    "HardSigmoid": {"alpha": (0.2, 0.5), "beta": (0.5, 0.1)},
    "Gelu": {"approximate": ("none", "tanh")}, "Swish": {"alpha": (1.0, 0.5)},
    "Shrink": {"lambd": (0.5, 0.3), "bias": (0.0, 0.1)}, "ThresholdedRelu": {"alpha": (1.0, 0.3)},
}  # fmt: skip
DISCONTINUOUS = frozenset(("Shrink", "ThresholdedRelu"))
ARITHMETIC = "Add Sub Mul Div Min Max Add Mul".split()
COMPARISONS = "Equal Greater Less GreaterOrEqual LessOrEqual".split()
CASTS = "float32 float32 float64 float16 int64 int32 int8 uint8 bool".split()


def unary(graph: RandomGraph) -> None:
    """Add a continuous function of real numbers, such as Exp."""
    graph.node(graph.random.choice(SMOOTH), [graph.tensor()])


def rounded(graph: RandomGraph) -> None:
    """Add a discontinuous function of real numbers, such as Floor."""
    graph.node(graph.random.choice(ROUNDED), [graph.tensor(exact=True)])


def shaped(graph: RandomGraph) -> None:
    """Add an activation with attributes, such as LeakyRelu."""
    name = graph.random.choice(list(SHAPED))
    chosen = {key: graph.random.choice(values) for key, values in SHAPED[name].items()}
    given = chosen if graph.random.random() < 0.7 else {}
    x = graph.tensor(exact=name in DISCONTINUOUS)
    if name in ("Shrink", "Gelu") and x.dtype.name == "float64":
        raise Rejected("ONNX Runtime computes some of it in single precision")
    graph.node(name, [x], **given)


def integer_unary(graph: RandomGraph) -> None:
    """Add a function of integers, such as Abs."""
    name = graph.random.choice(("Abs", "Neg", "Sign", "BitwiseNot", "Relu"))
    graph.node(name, [graph.tensor(kinds="i")])


def partner(graph: RandomGraph, x: Value) -> Value:
    """Return a value of the type of ``x`` whose shape broadcasts with that of ``x``."""

    def fits(value: Value) -> bool:
        try:
            both = np.broadcast_shapes(value.shape, x.shape)
        except ValueError:
            return False
        return value.dtype == x.dtype and prod(both) <= 4096

    found = graph.pick(fits) if graph.random.random() < 0.7 else None
    if found is not None:
        return found
    shape = [1 if graph.random.random() < 0.3 else size for size in x.shape]
    shape = shape[graph.random.randrange(len(shape) + 1) if graph.random.random() < 0.4 else 0 :]
    if graph.random.random() < 0.05:
        shape = [graph.random.choice((2, 3)), *([1] * (len(x.shape) - len(shape))), *shape]
    return graph.weight(shape, x.dtype)


def swapped(graph: RandomGraph, operands: Sequence[Value]) -> list[Value]:
    """Return operands in a random order."""
    return graph.random.sample(operands, len(operands))


def binary(graph: RandomGraph) -> None:
    """Add an arithmetic operation of two operands, which may broadcast."""
    x = graph.tensor(kinds="ffffi")
    name = graph.random.choice(ARITHMETIC)
    operands = swapped(graph, [x, partner(graph, x)])
    if name == "Div" and (np.abs(operands[1].array.astype(np.float64)) < 0.01).any():
        raise Rejected("divides by almost zero")
    graph.node(name, operands)


def power(graph: RandomGraph) -> None:
    """Add Pow with a constant exponent."""
    x = graph.tensor()
    exponent = graph.random.choice((2, 3, 0.5, 2, -1, 1, 0, 1.5, 4))
    graph.node("Pow", [x, graph.constant(np.array(exponent, x.dtype))])


def variadic(graph: RandomGraph) -> None:
    """Add Sum, Mean, Max or Min of one to four operands."""
    x = graph.tensor()
    others = [partner(graph, x) for _ in range(graph.random.randrange(4))]
    graph.node(graph.random.choice(("Sum", "Mean", "Max", "Min")), swapped(graph, [x, *others]))


def modulo(graph: RandomGraph) -> None:
    """Add Mod, with the sign of the dividend as in C, or of the divisor as in Python."""
    x = graph.tensor(kinds="ifi", exact=True)
    divisor = graph.constant(np.array(graph.random.choice((2, 3, 7)), x.dtype))
    # ONNX Runtime computes C's remainder of integers in f64.
    is_wide = bool((np.abs(x.array.astype(np.float64)) > 2**53).any())
    if is_float(x.dtype) or (graph.random.random() < 0.4 and not is_wide):
        graph.node("Mod", [x, divisor], fmod=1)
    else:
        graph.node("Mod", [x, divisor])


def compared(graph: RandomGraph) -> None:
    """Add a comparison of numbers without rounding errors."""
    x = graph.tensor(kinds="fi", exact=True)
    y = partner(graph, x)
    if not y.is_exact:
        y = graph.constant(np.array(1, x.dtype))
    graph.node(graph.random.choice(COMPARISONS), swapped(graph, [x, y]))


def logical(graph: RandomGraph) -> None:
    """Add a logical operation on booleans."""
    x = graph.tensor(kinds="b")
    name = graph.random.choice(("And", "Or", "Xor", "Not"))
    graph.node(name, [x] if name == "Not" else [x, partner(graph, x)])


def bitwise(graph: RandomGraph) -> None:
    """Add a bitwise operation or a shift of integers."""
    x = graph.tensor(kinds="iu")
    name = graph.random.choice(("BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitShift"))
    if name == "BitShift":
        x = graph.tensor(kinds="u")
        distance = graph.constant(np.array(graph.random.randrange(8), x.dtype))
        graph.node(name, [x, distance], direction=graph.random.choice(("LEFT", "RIGHT")))
    else:
        graph.node(name, [x, partner(graph, x)])


def chosen(graph: RandomGraph) -> None:
    """Add Where with a boolean condition and two operands."""
    x = graph.tensor(kinds="ffi")
    y = partner(graph, x)
    shape = np.broadcast_shapes(x.shape, y.shape)

    def fits(value: Value) -> bool:
        try:
            return value.dtype == np.bool_ and bool(np.broadcast_shapes(value.shape, shape))
        except ValueError:
            return False

    condition = graph.pick(fits) or graph.weight(shape[graph.random.randrange(2) :], "bool")
    graph.node("Where", [condition, *swapped(graph, [x, y])])


def clipped(graph: RandomGraph) -> None:
    """Add Clip with two bounds, one, or none."""
    x = graph.tensor(kinds="ffi")
    low, high = sorted(graph.random.choices((0, 1, 2, 6), k=2))
    if graph.opset < 11:
        attributes = {"min": float(low), "max": float(high)}
        kept: dict[str, Any] = {k: b for k, b in attributes.items() if graph.random.random() < 0.7}
        graph.node("Clip", [x], **kept)
        return
    bounds = [graph.constant(np.array(b, x.dtype)) for b in (low, high)]
    given = [b if graph.random.random() < 0.7 else None for b in bounds]
    graph.node("Clip", [x, *given] if given[1] else [x, given[0]] if given[0] else [x])


def cast(graph: RandomGraph) -> None:
    """Add Cast or CastLike to a random type that can hold all numbers of the operand."""
    to = graph.random.choice(CASTS)
    x = graph.tensor(kinds="fiub", exact=not to.startswith("float"))
    wide = x.array.astype(np.float64)
    if to == "uint8" and ((wide < 0).any() or (wide > 255).any()):
        raise Rejected("out of range")
    if (np.abs(wide) > (120 if to == "int8" else LARGEST)).any():
        raise Rejected("out of range")
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(to))
    if graph.opset >= 15 and graph.random.random() < 0.2:
        graph.node("CastLike", [x, graph.weight([1], to)])
    else:
        graph.node("Cast", [x], to=kind)


def parametric(graph: RandomGraph) -> None:
    """Add PRelu with a tensor of slopes, which broadcasts to the operand."""
    x = graph.tensor((1, 2, 3, 4))
    shape = [size if graph.random.random() < 0.5 else 1 for size in x.shape]
    graph.node("PRelu", [x, graph.weight(shape[graph.random.randrange(2) :], x.dtype)])


def classified(graph: RandomGraph) -> None:
    """Add IsNaN or IsInf."""
    name = graph.random.choice(("IsNaN", "IsInf"))
    graph.node(name, [graph.tensor()])


OPERATORS = (
    unary, unary, unary, rounded, shaped, shaped, integer_unary, binary, binary, binary, binary,
    power, variadic, modulo, compared, logical, bitwise, chosen, clipped, cast, parametric,
    classified,
)  # fmt: skip
