"""Converts bodies of elementwise operations to expression trees in a normal form.

Equal bodies have equal trees: operands of commutative functions are sorted, comparisons have
constants on the right, and a select of the larger or smaller of a value and a constant is
``maximum`` or ``minimum`` (which return NaN for a NaN operand). Zeros of different sign are
considered equal.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from rammer_mlir.bindings import ir
from rammer_mlir.passes.ir.structured import Structured


@dataclass(frozen=True)
class Input:
    """A leaf of an expression tree: an element of operand ``number`` of an elementwise op."""

    number: int

    def __str__(self) -> str:
        """Return the input as text, such as ``x0`` for input number 0."""
        return f"x{self.number}"


@dataclass(frozen=True)
class Constant:
    """A number in an expression; truth values are 0 and 1.

    ``element_type`` is f32 unless ``with_typed_constants`` has determined the type.
    """

    value: float
    element_type: str = field(default="f32", kw_only=True)

    def __str__(self) -> str:
        """Return the number as text."""
        return repr(self.value)


@dataclass(frozen=True)
class Apply:
    """A call of the function named ``function``, such as ``add``, on expressions."""

    function: str
    operands: tuple[Expression, ...]

    def __str__(self) -> str:
        """Return the call as text, ``function(operand, ...)``."""
        return f"{self.function}({', '.join(map(str, self.operands))})"


Expression: TypeAlias = Input | Constant | Apply

COMMUTATIVE = frozenset({"add", "mul", "maximum", "minimum", "and", "or", "oeq", "one", "eq", "ne"})
"""Functions whose two operands may be exchanged."""

_FUNCTIONS: Mapping[str, str] = {
    **{f"arith.{name}f": name for name in ("add", "sub", "mul", "div", "neg")},
    **{f"arith.{name}i": name for name in ("add", "sub", "mul", "and", "or")},
    **{f"arith.{name}": name for name in ("select", "maxnumf", "minnumf")},
    "arith.maximumf": "maximum",
    "arith.minimumf": "minimum",
    "arith.maxsi": "maximum",
    "arith.minsi": "minimum",
    "math.absf": "abs",
    "math.absi": "abs",
    "math.powf": "pow",
    **{
        f"math.{name}": name
        for name in (
            "acos", "acosh", "asin", "asinh", "atan", "atanh", "ceil", "cos", "cosh", "erf", "exp",
            "expm1", "floor", "log", "log1p", "roundeven", "rsqrt", "sin", "sinh", "sqrt", "tan",
            "tanh",
        )
    },
}  # fmt: skip
"""The function name for each body operation whose result has the operands' type."""

_CASTS = frozenset({"arith.extf", "arith.truncf", "arith.sitofp", "arith.fptosi", "arith.extsi"})

_FLOAT_PREDICATES = (
    "false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord",
    "ueq", "ugt", "uge", "ult", "ule", "une", "uno", "true",
)  # fmt: skip
_INTEGER_PREDICATES = ("eq", "ne", "slt", "sle", "sgt", "sge")

_SWAPPED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}
"""The suffix of a comparison's predicate after its operands are exchanged, by old suffix."""


FUNCTIONS = frozenset({*_FUNCTIONS.values(), *_FLOAT_PREDICATES, *_INTEGER_PREDICATES})
"""Names of functions in expressions; there are also casts, ``cast_TYPE``."""


def body_expression(op: Structured) -> Expression | None:
    """Return the expression that the body of ``op`` computes, in normal form.

    ``Input(n)`` stands for an element of operand ``n`` of ``op``; the last operand is the
    destination. Return None if the body yields several values, contains an unsupported operation,
    or uses a value from outside of the body that is not a scalar constant.
    """
    if len(op.yielded) != 1:
        return None
    known: dict[ir.Value, Expression] = {
        argument: Input(number) for number, argument in enumerate(op.arguments)
    }
    for inner in op.body:
        operation = inner.operation
        operands = [_operand(value, known) for value in operation.operands]
        found = [operand for operand in operands if operand is not None]
        function = _function(operation)
        if function is None or len(found) < len(operands) or len(operation.results) != 1:
            return None
        known[operation.results[0]] = apply(function, *found)
    return _operand(op.yielded[0], known)


def _operand(value: ir.Value, known: Mapping[ir.Value, Expression]) -> Expression | None:
    if value in known:
        return known[value]
    number = scalar_constant(value)
    return None if number is None else Constant(number)


def scalar_constant(value: ir.Value) -> float | None:
    """Return the value of a scalar ``arith.constant`` as a float; None for any other IR value.

    A boolean constant is 0 or 1.
    """
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name != "arith.constant":
        return None
    attribute = owner.attributes["value"]
    if isinstance(attribute, ir.BoolAttr):
        return float(attribute.value)
    if isinstance(attribute, ir.FloatAttr | ir.IntegerAttr):
        return float(attribute.value)
    return None


def _function(op: ir.Operation) -> str | None:
    if op.name in _CASTS:
        return f"cast_{op.results[0].type}"
    if op.name == "arith.cmpf":
        return _FLOAT_PREDICATES[ir.IntegerAttr(op.attributes["predicate"]).value]
    if op.name == "arith.cmpi":
        predicate = ir.IntegerAttr(op.attributes["predicate"]).value
        signed = predicate < len(_INTEGER_PREDICATES)
        return _INTEGER_PREDICATES[predicate] if signed else None
    return _FUNCTIONS.get(op.name)


def apply(function: str, *operands: Expression) -> Expression:
    """Return the normal form of a function applied to expressions in normal form."""
    if len(operands) == 2 and function in COMMUTATIVE:
        return Apply(function, tuple(sorted(operands, key=_rank)))
    is_swapped = len(operands) == 2 and isinstance(operands[0], Constant)
    if is_swapped and function[-2:] in _SWAPPED and not isinstance(operands[1], Constant):
        return Apply(function[:-2] + _SWAPPED[function[-2:]], operands[::-1])
    if function == "select":
        return _larger_or_smaller(operands) or Apply(function, operands)
    return Apply(function, operands)


def _rank(expression: Expression) -> tuple[int, str]:
    """Return a sort key for the operands of commutative functions: calls first, constants last.

    Expressions that differ only in the values of constants have equal keys.
    """
    if isinstance(expression, Constant):
        return 2, ""
    if isinstance(expression, Input):
        return 1, f"{expression.number:4}"
    return 0, f"{expression.function} {[_rank(operand) for operand in expression.operands]}"


def _larger_or_smaller(operands: Sequence[Expression]) -> Expression | None:
    """Return the ``maximum`` or ``minimum`` that a ``select`` with these three operands computes.

    An example is ``select(a < c, c, a)``, which is ``maximum(a, c)``; ``c`` must be a constant.
    Return None for any select that is neither a maximum nor a minimum.
    """
    condition, chosen, other = operands
    if not isinstance(condition, Apply) or len(condition.operands) != 2:
        return None
    value, bound = condition.operands
    if not isinstance(bound, Constant) or math.isnan(bound.value):
        return None
    order, relation = condition.function[:1], condition.function[1:]
    # A NaN must select the value: ordered predicates are false for it, unordered ones true.
    if (chosen, other) == (bound, value) and order in "os":
        functions = {"lt": "maximum", "le": "maximum", "gt": "minimum", "ge": "minimum"}
    elif (chosen, other) == (value, bound) and order in "us":
        functions = {"gt": "maximum", "ge": "maximum", "lt": "minimum", "le": "minimum"}
    else:
        return None
    return apply(functions[relation], value, bound) if relation in functions else None


def inputs_of(expression: Expression) -> Iterator[int]:
    """Yield the operand index of each ``Input`` leaf of an expression, from left to right.

    An operand with several leaves is yielded once for each leaf.
    """
    if isinstance(expression, Input):
        yield expression.number
    elif isinstance(expression, Apply):
        for operand in expression.operands:
            yield from inputs_of(operand)


def renumbered(expression: Expression, numbers: Mapping[int, int]) -> Expression:
    """Return an expression with input ``n`` replaced by input ``numbers[n]``, in normal form."""
    if isinstance(expression, Input):
        return Input(numbers[expression.number])
    if isinstance(expression, Apply):
        operands = (renumbered(operand, numbers) for operand in expression.operands)
        return apply(expression.function, *operands)
    return expression


def with_typed_constants(expression: Expression, types: Sequence[str]) -> Expression:
    """Return an expression whose constants have the element types of the operands beside them.

    ``types`` has the element type of each input.
    """
    if not isinstance(expression, Apply):
        return expression
    kind = _operand_type(expression, types) or "f32"
    operands = (
        replace(each, element_type=kind)
        if isinstance(each, Constant)
        else with_typed_constants(each, types)
        for each in expression.operands
    )
    return Apply(expression.function, tuple(operands))


def _operand_type(expression: Expression, types: Sequence[str]) -> str | None:
    """Return the element type on which a function operates; None if its operands are constants.

    A conversion counts as an operation on its result type. The function ``select`` operates on its
    second and third operands.
    """
    if not isinstance(expression, Apply):
        return types[expression.number] if isinstance(expression, Input) else None
    if expression.function.startswith("cast_"):
        return expression.function.removeprefix("cast_")
    operands = expression.operands[1:] if expression.function == "select" else expression.operands
    return next(filter(None, (_operand_type(each, types) for each in operands)), None)
