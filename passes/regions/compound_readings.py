"""Recognizes groups of operations: averages, softmax, grouped convolutions.

A group is recognized by its last operation, and only the last operation's result is used outside of
the group. A ``Reading`` describes the recognized group as a single operation.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.bindings import ir
from rammer_mlir.passes.ir.structured import Structured, is_generic, shape_of
from rammer_mlir.passes.regions.contraction_readings import read_contraction
from rammer_mlir.passes.regions.elementwise import FIRST_ELEMENT, read_elementwise
from rammer_mlir.passes.regions.expressions import (
    Apply,
    Constant,
    Expression,
    Input,
    apply,
    body_expression,
    inputs_of,
)
from rammer_mlir.passes.regions.reading import Operand, Reading
from rammer_mlir.passes.regions.reductions import read_reduction
from rammer_mlir.passes.regions.weights import Weights, array_of, operand_of
from rammer_mlir.passes.regions.windows import joins_dimension

_EXPONENTIAL = apply("exp", apply("sub", Input(0), Input(1)))
_QUOTIENT = apply("div", Input(0), Input(1))
_PRODUCT = apply("mul", Input(0), Input(1))
_INVERSE = apply("div", Constant(1.0), Input(0))

_COUNT_TOLERANCE = 1e-6
"""Relative tolerance for the divisor of an average, or its inverse, which may be rounded to f32."""

_ROUGH_TOLERANCE = 1e-3
"""Relative tolerance for a divisor or its inverse of 16 bits."""


def read_average(op: Structured, weights: Weights) -> Reading | None:
    """Return the description of an average (``Reading``); None if ``op`` computes no average.

    An average is a sum over whole dimensions or windows, divided by the number of elements.
    ``weights`` count as constants.
    """
    expression = body_expression(op) if op.is_elementwise else None
    if expression is None or list(inputs_of(expression)).count(0) != 1:
        return None
    total = _producing_generic(op.inputs[0])
    whole = list(range(len(op.parallel)))
    if total is None or op.operand_dims(0) != whole or op.result_dims(0) != whole:
        return None
    reading = read_reduction(total, weights)
    divisor = _divisor(op, expression, weights)
    if reading is None or divisor is None:
        return None
    output = operand_of(op.op.operation.results[0], weights)
    operations = (*reading.operations, op.op.operation)
    if reading.kind == "reduce_sum":
        count = float(total.points // max(1, prod(reading.output.shape)))
        mean = replace(reading, kind="reduce_mean", output=output, operations=operations)
        return mean if np.allclose(divisor, count, rtol=_tolerance(output), atol=0) else None
    if reading.kind != "sum_pool":
        return None
    return _average_pool(reading, divisor, output, operations)


def _tolerance(output: Operand) -> float:
    return _ROUGH_TOLERANCE if output.element_type in ("f16", "bf16") else _COUNT_TOLERANCE


def _average_pool(
    total: Reading,
    divisor: NDArray[np.float64],
    output: Operand,
    operations: tuple[object, ...],
) -> Reading | None:
    kernel = total.attributes["kernel"]
    assert isinstance(kernel, tuple)
    everything = float(np.prod(kernel))
    for include, counts in ((True, everything), (False, elements_in_windows(total))):
        if np.allclose(divisor, counts, rtol=_tolerance(output), atol=0):
            attributes = {**total.attributes, "count_include_pad": include}
            return Reading("average_pool", total.inputs, output, attributes, operations)
    return None


def elements_in_windows(pool: Reading) -> NDArray[np.float64]:
    """Return, for each window of a pooling, the count of its elements inside the image.

    Elements in the padding are not counted. The array has the shape of the output.
    """
    axes = {name: pool.attributes[name] for name in ("kernel", "strides", "dilations", "pads")}
    layout = str(pool.attributes["layout"])
    counts = np.ones(pool.output.shape)
    spatial = [letter for letter in "DHW" if letter in layout]
    for number, letter in enumerate(spatial):
        kernel, stride, dilation, low = (
            np.asarray(axes[name])[number] for name in ("kernel", "strides", "dilations", "pads")
        )
        dim = layout.index(letter)
        places = np.arange(pool.output.shape[dim])[:, None] * stride - low
        places = places + np.arange(kernel) * dilation
        inside = ((places >= 0) & (places < pool.inputs[0].shape[dim])).sum(axis=1)
        shape = [1] * len(layout)
        shape[dim] = -1
        counts = counts * inside.reshape(shape)
    return counts


def _divisor(
    op: Structured, expression: Expression, weights: Weights
) -> NDArray[np.float64] | None:
    """Return the number by which an elementwise body divides the first input of an operation.

    For example, ``x0 * 0.5 / 4`` divides by 8. ``expression`` is the computation of the body. The
    number may differ between elements: it is returned as an array that broadcasts against the
    result. Return None if the body computes something else, or if the number is unknown at compile
    time.
    """
    if expression == Input(0):
        return np.ones(())
    if not isinstance(expression, Apply) or expression.function not in ("div", "mul"):
        return None
    first, second = expression.operands
    if expression.function == "mul" and 0 in inputs_of(second):
        first, second = second, first
    rest = _divisor(op, first, weights)
    factor = _known(op, second, weights)
    if rest is None or factor is None or 0 in inputs_of(second):
        return None
    with np.errstate(divide="ignore"):
        return rest * factor if expression.function == "div" else rest / factor


def _known(op: Structured, expression: Expression, weights: Weights) -> NDArray[np.float64] | None:
    """Return the value of ``expression`` if it is known at compile time; else None.

    This is the case for a constant, a constant input, and a product of such values. The array
    broadcasts against the result of ``op``.
    """
    if isinstance(expression, Apply):
        if expression.function != "mul":
            return None
        first, second = (_known(op, each, weights) for each in expression.operands)
        return None if first is None or second is None else first * second
    if not isinstance(expression, Input):
        return np.asarray(expression.value)
    dims = op.operand_dims(expression.number)
    array = array_of(op.inputs[expression.number], weights)
    if dims is None or array is None or dims != sorted(dims):
        return None
    extents = [op.extents[loop] if loop in dims else 1 for loop in range(len(op.parallel))]
    return np.asarray(array, np.float64).reshape(extents)


def read_softmax(op: Structured, weights: Weights) -> Reading | None:
    """Return the description of a softmax that ends with ``op`` (``Reading``); None for others.

    A softmax is ``exp(x - max) / sum`` or ``exp(x - max) * (1 / sum)``. Maximum and sum are along
    the same dimensions.
    """
    expression = body_expression(op) if len(op.inputs) == 2 else None
    if expression not in (_QUOTIENT, _PRODUCT):
        return None
    powers, total = _producing_generic(op.inputs[0], 2), _producing_generic(op.inputs[1])
    inverse = total if expression == _PRODUCT else None
    if inverse is not None:
        total = _inverted(inverse)
    if powers is None or total is None or body_expression(powers) != _EXPONENTIAL:
        return None
    source, largest = powers.inputs
    highest = _producing_generic(largest)
    sums = read_reduction(total, weights)
    maxima = None if highest is None else read_reduction(highest, weights)
    if sums is None or maxima is None or total.inputs != [op.inputs[0]]:
        return None
    if (sums.kind, maxima.kind) != ("reduce_sum", "reduce_max") or highest is None:
        return None
    same = sums.attributes["axes"] == maxima.attributes["axes"] and highest.inputs == [source]
    if not same or not (_is_kept(op, sums) and _is_kept(powers, maxima)):
        return None
    steps = (highest, powers, total, *([] if inverse is None else [inverse]), op)
    return Reading(
        "softmax",
        maxima.inputs,
        operand_of(op.op.operation.results[0], weights),
        {"axes": sums.attributes["axes"]},
        tuple(each.op.operation for each in steps),
    )


def _inverted(op: Structured) -> Structured | None:
    """Return the ``linalg.generic`` of whose result ``op`` computes the reciprocals.

    Return None if ``op`` does not compute ``1 / x``, if ``x`` is not the result of a
    ``linalg.generic``, or if ``x`` has other uses.
    """
    whole = list(range(len(op.parallel)))
    if not op.is_elementwise or body_expression(op) != _INVERSE:
        return None
    if [op.operand_dims(0), op.result_dims(0)] != [whole, whole]:
        return None
    return _producing_generic(op.inputs[0])


def _is_kept(op: Structured, reduction: Reading) -> bool:
    """Whether an elementwise operation has the shapes of ``x - max`` or ``exp / sum`` in a softmax.

    The first input of ``op`` has the shape of the result; the second input lacks the dimensions
    along which ``reduction`` reduces, and is broadcast along them.
    """
    reading = read_elementwise(op, {})
    axes = reduction.attributes["axes"]
    if reading is None or not isinstance(axes, tuple):
        return False
    rank = reading.output.rank
    kept = tuple(dim for dim in range(rank) if dim not in axes)
    return (
        reading.attributes["indexing"] == (tuple(range(rank)), kept) and FIRST_ELEMENT not in kept
    )


def read_grouped(op: ir.OpView, weights: Weights) -> Reading | None:
    """Return the description of a grouped convolution that ends with ``op``, a reshape; else None.

    The reshape merges the dimensions of groups and of filters per group.
    """
    operation = op.operation
    if operation.name != "tensor.collapse_shape":
        return None
    product = _producing_generic(operation.operands[0])
    reading = None if product is None else read_contraction(product, weights)
    if reading is None or "groups" not in reading.attributes:
        return None
    out = str(reading.attributes["output_layout"])
    if "GF" not in out or len(out) != len(shape_of(operation.results[0])) + 1:
        return None
    if not joins_dimension(operation, out.index("G")):
        return None
    return replace(
        reading,
        output=operand_of(operation.results[0], weights),
        attributes={**reading.attributes, "output_layout": out.replace("GF", "F")},
        operations=(*reading.operations, operation),
    )


def _producing_generic(value: ir.Value, uses: int = 1) -> Structured | None:
    """Return the ``linalg.generic`` that computes a value.

    Return None if the value is not the result of a ``linalg.generic``, or if it does not have
    exactly ``uses`` uses.
    """
    owner = value.owner
    if isinstance(owner, ir.Block) or not is_generic(owner.opview):
        return None
    return Structured(owner.opview) if len(list(value.uses)) == uses else None
