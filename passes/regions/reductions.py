"""Recognizes reductions of one input: along whole dimensions, and over windows (pooling)."""

from __future__ import annotations

import math
from collections.abc import Mapping

from rammer_mlir.bindings import ir
from rammer_mlir.passes.ir.fills import filling
from rammer_mlir.passes.ir.structured import Structured, plain_dim
from rammer_mlir.passes.regions.expressions import (
    Apply,
    Expression,
    Input,
    apply,
    body_expression,
    scalar_constant,
)
from rammer_mlir.passes.regions.reading import Attribute, Reading
from rammer_mlir.passes.regions.weights import Weights, operand_of
from rammer_mlir.passes.regions.windows import (
    Axis,
    axis_of,
    layout_of,
    source_image,
    spatial_letters,
    window_attributes,
)

_X = Input(0)

_NEUTRAL: Mapping[str, float] = {
    "add": 0.0, "mul": 1.0, "maximum": -math.inf, "minimum": math.inf
}  # fmt: skip
"""The neutral element of each function that combines floats in a reduction."""

_KINDS: Mapping[tuple[str, Expression], str] = {
    ("add", _X): "sum",
    ("mul", _X): "prod",
    ("maximum", _X): "max",
    ("minimum", _X): "min",
    ("add", apply("mul", _X, _X)): "sum_square",
    ("add", apply("abs", _X)): "l1",
}
"""Names of reductions.

A key is a pair: the function that combines elements, and the expression that is applied to each
element before elements are combined.
"""


def starts_at(op: Structured, number: float) -> bool:
    """Whether an operation's first result is initialized with ``number``."""
    scalar = filling(op.outputs[0])
    return scalar is not None and scalar_constant(scalar) == number


def read_reduction(op: Structured, weights: Weights) -> Reading | None:
    """Recognize a reduction of one input, along whole dimensions or over windows.

    Return its description, or None for any other operation. A reduction over windows has a second
    operand in the IR, whose shape is the size of the windows and whose elements are not read.
    ``weights`` count as constants.
    """
    reads = [number for number in range(len(op.inputs)) if op.reads_input(number)]
    if op.num_outputs != 1 or all(op.parallel) or reads != [0]:
        return None
    kind = _combination(op)
    if kind is None:
        return None
    name, function = kind
    if not starts_at(op, _NEUTRAL[function]):
        return None
    if len(op.inputs) == 1:
        return _read_dimensions(op, name, weights)
    return _read_windows(op, name, _NEUTRAL[function], weights)


def _combination(op: Structured) -> tuple[str, str] | None:
    """Return the name of a reduction, and the name of the function that combines two elements.

    For example, ``("sum_square", "add")`` for a sum of squares. Return None if the body is no known
    reduction.
    """
    expression = body_expression(op)
    if not isinstance(expression, Apply) or len(expression.operands) != 2:
        return None
    accumulator = Input(len(op.inputs))
    rest = [operand for operand in expression.operands if operand != accumulator]
    name = _KINDS.get((expression.function, rest[0])) if len(rest) == 1 else None
    return None if name is None else (name, expression.function)


def _read_dimensions(op: Structured, name: str, weights: Weights) -> Reading | None:
    source, result = op.operand_dims(0), op.result_dims(0)
    if source is None or result is None or len(set(source)) < len(source):
        return None
    if [loop for loop in source if op.parallel[loop]] != result:
        return None
    operation = op.op.operation
    axes = tuple(dim for dim, loop in enumerate(source) if not op.parallel[loop])
    return Reading(
        f"reduce_{name}",
        (operand_of(op.inputs[0], weights),),
        operand_of(operation.results[0], weights),
        {"axes": axes},
        (operation,),
    )


def _read_windows(op: Structured, name: str, border: float, weights: Weights) -> Reading | None:
    axes = _axes(op)
    if axes is None or name not in ("max", "sum", "min"):
        return None
    letters = _letters(op, axes)
    image, out = (layout_of(op.maps[number], letters, axes) for number in (0, -1))
    if image is None or image != out:
        return None
    source = source_image(op.inputs[0], image, border)
    operation = op.op.operation
    attributes: dict[str, Attribute] = {
        **window_attributes(op, axes), "pads": source.pads, "layout": image
    }  # fmt: skip
    return Reading(
        f"{name}_pool",
        (operand_of(source.value, weights),),
        operand_of(operation.results[0], weights),
        attributes,
        (*source.operations, operation),
    )


def _axes(op: Structured) -> list[Axis] | None:
    """Return the spatial axes of a reduction over windows; None for any other operation.

    The first dimension must be the batch; channels must be the second or the last dimension.
    """
    exprs = list(op.maps[0].results)
    window = op.operand_dims(1)
    if window is None or len(exprs) < 3 or plain_dim(exprs[0]) is None:
        return None
    axes = [axis_of(expr, op.parallel) for expr in _spatial(exprs)]
    known = [axis for axis in axes if axis is not None]
    reduced = {axis.window for axis in known if axis.window is not None}
    complete = len(known) == len(axes) and reduced == set(op.reduction_loops) == set(window)
    return known if complete else None


def _spatial(exprs: list[ir.AffineExpr]) -> list[ir.AffineExpr]:
    """Return the index expressions of an image's spatial dimensions.

    The dimensions of batch, channels, and channels within a block are left out.
    """
    channels_last = plain_dim(exprs[1]) is None
    if channels_last:
        return exprs[1:-1]
    is_blocked = len(exprs) == 5 and plain_dim(exprs[-1]) is not None
    return exprs[2:-1] if is_blocked else exprs[2:]


def _letters(op: Structured, axes: list[Axis]) -> dict[int, str]:
    letters = spatial_letters(axes)
    names = iter("NCc")
    for expr in op.maps[0].results:
        loop = plain_dim(expr)
        if loop is not None and loop not in letters:
            letters[loop] = next(names, "?")
    return letters
