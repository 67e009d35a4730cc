"""Recognizes elementwise operations: scalar functions, transposes and broadcasts."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan

from rammer_mlir.bindings import ir
from rammer_mlir.passes.ir.fills import filling
from rammer_mlir.passes.ir.structured import Structured, plain_dim
from rammer_mlir.passes.regions.expressions import (
    Apply,
    Constant,
    Expression,
    Input,
    body_expression,
    inputs_of,
    renumbered,
    scalar_constant,
)
from rammer_mlir.passes.regions.named_expressions import name_of
from rammer_mlir.passes.regions.reading import Attribute, Operand, Reading
from rammer_mlir.passes.regions.weights import Weights, operand_of

FIRST_ELEMENT = -1
"""Marks, in ``indexing``, a dimension of size 1 that is broadcast."""

Indexing = tuple[tuple[int, ...], ...]
"""For each input and each of its dimensions, the dimension of the result that indexes it."""


def read_elementwise(op: Structured, weights: Weights) -> Reading | None:
    """Recognize an elementwise function, transpose or broadcast; return its ``Reading`` or None.

    ``weights`` count as constants.
    """
    if not op.is_elementwise or op.num_outputs != 1 or not op.parallel:
        return None
    expression = body_expression(op)
    used = [] if expression is None else list(dict.fromkeys(inputs_of(expression)))
    if expression is None or not used or len(op.inputs) in used:
        return None
    indexing = _indexing(op, used)
    if indexing is None:
        return None
    ordered = renumbered(expression, {number: place for place, number in enumerate(used)})
    inputs = [operand_of(op.inputs[number], weights) for number in used]
    output = operand_of(op.op.operation.results[0], weights)
    if ordered == Input(0):
        return _moved(op, inputs[0], output, indexing[0])
    return _function(op, ordered, inputs, output, indexing)


def read_fill(op: ir.OpView, weights: Weights) -> Reading | None:
    """Recognize a fill with a constant and return its description; None for any other operation.

    ``weights`` count as constants.
    """
    scalar = filling(op.operation.results[0]) if len(op.operation.results) == 1 else None
    number = None if scalar is None else scalar_constant(scalar)
    if number is None:
        return None
    output = operand_of(op.operation.results[0], weights)
    return Reading("fill", (), output, {"value": number}, (op.operation,))


def _indexing(op: Structured, used: Sequence[int]) -> Indexing | None:
    result = op.result_dims(0)
    if result is None:
        return None
    place = {loop: dim for dim, loop in enumerate(result)}
    found = tuple(_dimensions(op.maps[number], place) for number in used)
    known = tuple(each for each in found if each is not None)
    return known if len(known) == len(found) else None


def _dimensions(map_: ir.AffineMap, place: dict[int, int]) -> tuple[int, ...] | None:
    dims: list[int] = []
    for expr in map_.results:
        loop = plain_dim(expr)
        if loop is not None and loop in place:
            dims.append(place[loop])
        elif isinstance(expr, ir.AffineConstantExpr) and expr.value == 0:
            dims.append(FIRST_ELEMENT)
        else:
            return None
    return tuple(dims)


def _moved(
    op: Structured, source: Operand, output: Operand, dims: tuple[int, ...]
) -> Reading | None:
    """Return the description of an operation that only copies elements: a transpose or broadcast.

    ``dims`` has, for each dimension of ``source``, the dimension of the result that indexes it. The
    operation is a transpose if ``dims`` contains all dimensions of ``output``, else a broadcast.
    """
    operations = (op.op.operation,)
    if sorted(dims) == list(range(output.rank)):
        order = tuple(dims.index(dim) for dim in range(output.rank))
        return Reading("transpose", (source,), output, {"permutation": order}, operations)
    attributes: dict[str, Attribute] = {"indexing": (dims,)}
    return Reading("broadcast", (source,), output, attributes, operations)


def _function(
    op: Structured,
    expression: Expression,
    inputs: Sequence[Operand],
    output: Operand,
    indexing: Indexing,
) -> Reading:
    named = name_of(expression)
    attributes: dict[str, Attribute] = {"expression": expression}
    operands = list(inputs)
    if named is not None:
        attributes.update(named.parameters)
        if isinstance(expression, Apply) and named.name == expression.function:
            operands, indexing = _with_constants(op, expression, operands, indexing)
    attributes["indexing"] = indexing
    name = "elementwise" if named is None else named.name
    return Reading(name, tuple(operands), output, attributes, (op.op.operation,))


def _is_number(value: ir.Value, number: float) -> bool:
    """Whether a value in the IR is the scalar constant ``number``, which may be NaN."""
    found = scalar_constant(value)
    return found == number or (found is not None and isnan(found) and isnan(number))


def _with_constants(
    op: Structured, expression: Apply, inputs: list[Operand], indexing: Indexing
) -> tuple[list[Operand], Indexing]:
    """Return the operands of an elementwise function, constants included, and their indexing.

    The operands are in the order of the arguments of the function call ``expression``. The indexing
    has, for each operand and each of its dimensions, the dimension of the result that indexes it.

    Args:
        op: the operation.
        expression: the call of the function on constants and inputs; a constant becomes a scalar
            operand.
        inputs: the operand for each input of the expression, by the input's index.
        indexing: the indexing of each of ``inputs``.
    """
    operands: list[Operand] = []
    dims: list[tuple[int, ...]] = []
    for operand in expression.operands:
        if isinstance(operand, Constant):
            scalar = next(v for v in op.captures if _is_number(v, operand.value))
            operands.append(operand_of(scalar, {}))
            dims.append(())
        elif isinstance(operand, Input):
            operands.append(inputs[operand.number])
            dims.append(indexing[operand.number])
    return operands, tuple(dims)
