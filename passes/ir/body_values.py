"""Evaluates the body of a ``linalg.generic`` for given numbers, of which some may be unknown."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rammer_mlir.bindings import ir
from rammer_mlir.passes.ir.structured import body_operations, constant_value


def evaluate_body(op: ir.OpView, arguments: Sequence[float | None]) -> list[float | None]:
    """Return the values that a ``linalg.generic`` yields for the given block arguments.

    None stands for an unknown value, in arguments and in results. Numbers are computed in double
    precision: enough to tell finite from infinite and zero from non-zero, but not to fold
    constants.
    """
    block = op.operation.regions[0].blocks[0]
    known: dict[ir.Value, float] = {
        argument: number
        for argument, number in zip(block.arguments, arguments, strict=True)
        if number is not None
    }
    for inner in body_operations(op):
        number = _evaluate(inner.operation, known)
        if number is not None:
            known[inner.operation.results[0]] = number
    terminator = list(block.operations)[-1].operation
    return [_value(operand, known) for operand in terminator.operands]


def _value(value: ir.Value, known: Mapping[ir.Value, float]) -> float | None:
    return known[value] if value in known else constant_value(value)


def _evaluate(op: ir.Operation, known: Mapping[ir.Value, float]) -> float | None:
    function = _comparison(op) if op.name == "arith.cmpf" else _FUNCTIONS.get(op.name)
    operands = [_value(operand, known) for operand in op.operands]
    if function is None or len(op.results) != 1:
        return None
    numbers = [number for number in operands if number is not None]
    if len(numbers) < len(operands):
        return None
    try:
        return function(*numbers)
    except (ArithmeticError, ValueError):
        return None


def _comparison(op: ir.Operation) -> Callable[..., float]:
    """Return a function that evaluates the ``arith.cmpf`` ``op``: 1.0 for true, 0.0 for false."""
    ordered, unordered = _PREDICATES[ir.IntegerAttr(op.attributes["predicate"]).value]

    def compare(a: float, b: float) -> float:
        if math.isnan(a) or math.isnan(b):
            return float(unordered)
        # Index 0 is equal, 1 is less, 2 is greater.
        return float("=<>"[(a < b) + 2 * (a > b)] in ordered)

    return compare


_ORDERED = ("", "=", ">", ">=", "<", "<=", "<>", "=<>")
"""The relations for which each ordered predicate of ``arith.cmpf`` is true, in predicate order.

For example, ``>=`` has the relations ``>`` and ``=``; the first predicate is always false.
"""

_PREDICATES: Sequence[tuple[str, bool]] = (
    *((outcomes, False) for outcomes in _ORDERED),
    *((outcomes, True) for outcomes in (*_ORDERED[1:7], "", "=<>")),
)
"""The relations for which each predicate of ``arith.cmpf`` is true, and its result for NaN.

The index is the integer value of the predicate. A relation is ``=``, ``<`` or ``>``.
"""


def _maximum(a: float, b: float) -> float:
    return math.nan if math.isnan(a) or math.isnan(b) else max(a, b)


def _minimum(a: float, b: float) -> float:
    return math.nan if math.isnan(a) or math.isnan(b) else min(a, b)


def _select(condition: float, a: float, b: float) -> float:
    return a if condition else b


def _multiply_add(a: float, b: float, c: float) -> float:
    return a * b + c


_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "arith.addf": operator.add,
    "arith.subf": operator.sub,
    "arith.mulf": operator.mul,
    "arith.divf": operator.truediv,
    "arith.negf": operator.neg,
    "arith.maximumf": _maximum,
    "arith.minimumf": _minimum,
    "arith.maxnumf": max,
    "arith.minnumf": min,
    "arith.select": _select,
    "math.absf": abs,
    "math.ceil": math.ceil,
    "math.erf": math.erf,
    "math.exp": math.exp,
    "math.floor": math.floor,
    "math.fma": _multiply_add,
    "math.sqrt": math.sqrt,
    "math.tanh": math.tanh,
}
