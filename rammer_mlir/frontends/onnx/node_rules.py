"""Checks nodes' axes, indices, divisors and channels, which shape inference does not check."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import prod
from typing import Any

import onnx
from onnx import helper

from rammer_mlir.errors import ModelError
from rammer_mlir.frontends.onnx.model import Model
from rammer_mlir.frontends.onnx.operand_rules import OPERAND_RULES
from rammer_mlir.frontends.onnx.tensors import (
    ONNX_DOMAINS,
    Array,
    ShapeTable,
    divides_by_zero,
    label,
)


class _Facts:
    """The shapes, constant operands and attributes of a node, which the rules check.

    A shape is None if it is unknown. The value of an operand is None if the operand is not
    constant. A rule is a function that yields the problems of a node as texts for an error message.
    """

    def __init__(
        self, node: onnx.NodeProto, table: ShapeTable, values: Mapping[str, Array]
    ) -> None:
        self.operator = node.op_type
        self._table = table
        self._values = values
        self._inputs = list(node.input)
        self._attributes = {a.name: a for a in node.attribute}
        self.result = table.find_shape(node.output[0])

    def shape(self, number: int) -> list[int] | None:
        given = number < len(self._inputs) and self._inputs[number]
        return self._table.find_shape(self._inputs[number]) if given else None

    def value(self, number: int) -> Array | None:
        return self._values.get(self._inputs[number]) if number < len(self._inputs) else None

    def integers(self, name: str) -> list[int] | None:
        given = self._attributes.get(name)
        return None if given is None else list(given.ints)

    def number(self, name: str, default: int) -> int:
        given = self._attributes.get(name)
        return default if given is None else given.i

    def text(self, name: str, default: str) -> str:
        given = self._attributes.get(name)
        return default if given is None else given.s.decode(errors="replace")

    # Any: an attribute has the type that its operator's rule expects.
    def attribute(self, name: str, default: object) -> Any:
        given = self._attributes.get(name)
        return default if given is None else helper.get_attribute_value(given)


_Rule = Callable[[_Facts], Iterator[str]]
"""A function that yields the problems of a node, as texts "expected ..., found ..."."""


def check_nodes(model: Model) -> None:
    """Check all nodes against the rules of their operators.

    The rules skip shapes that are unknown in the model.

    Raises:
        ModelError: for the first invalid node.
    """
    problem = first_problem(model.graph, model.constants())
    if problem is not None:
        raise ModelError(problem)


def first_problem(graph: onnx.GraphProto, values: Mapping[str, Array]) -> str | None:
    """Return a message about the first invalid node of a graph; None if all nodes are valid.

    Args:
        graph: a graph with inferred shapes.
        values: values of constants, by name.
    """
    table = ShapeTable(graph)
    for node in graph.node:
        if node.domain not in ONNX_DOMAINS:
            continue
        facts = _Facts(node, table, values)
        rules = (*OPERAND_RULES.get(node.op_type, ()), *_RULES.get(node.op_type, ()))
        for rule in (_sizes, *rules):
            for problem in rule(facts):
                return f"{label(node)} is not valid: {problem}"
    return None


def _sizes(node: _Facts) -> Iterator[str]:
    if node.result is not None and any(size < 0 for size in node.result):
        yield (
            f"expected a window no larger than the padded input, found a result of shape "
            f"{node.result}"
        )


def _axis_range(axis: int, rank: int) -> Iterator[str]:
    if not -rank <= axis < rank:
        yield f"expected an axis from {-rank} to {rank - 1}, found {axis}"


def _axis_attribute(node: _Facts) -> Iterator[str]:
    shape = node.shape(0)
    axis = node.attribute("axis", None)
    if shape is not None and axis is not None:
        yield from _axis_range(axis, len(shape))


def _axis_input(node: _Facts) -> Iterator[str]:
    shape, axis = node.shape(0), node.value(1)
    if shape is not None and axis is not None and axis.size == 1:
        yield from _axis_range(int(axis.item()), len(shape))


def _index_on_axis(node: _Facts) -> Iterator[str]:
    shape, indices = node.shape(0), node.value(1)
    axis = node.attribute("axis", 0)
    if shape is None or indices is None or not -len(shape) <= axis < len(shape):
        return
    yield from _index_range(indices, shape[axis])


def _index_tuples(node: _Facts) -> Iterator[str]:
    shape, indices = node.shape(0), node.value(1)
    first = node.attribute("batch_dims", 0)
    if shape is None or indices is None or indices.ndim == 0:
        return
    for number, size in enumerate(shape[first : first + indices.shape[-1]]):
        yield from _index_range(indices[..., number], size)


def _columns(node: _Facts) -> Iterator[str]:
    shape, block = node.shape(0), node.value(2)
    if shape is None or block is None or len(shape) != 3:
        return
    size = prod(block.tolist())
    if size < 1 or shape[1] % size:
        yield f"expected columns of a multiple of {size} elements, as blocks have, found {shape[1]}"


def _index_range(indices: Array, size: int) -> Iterator[str]:
    wrong = indices[(indices < -size) | (indices >= size)]  # type: ignore[operator]
    if wrong.size:
        yield f"expected indices from {-size} to {size - 1}, found {wrong.reshape(-1)[0]}"


def _no_zero_divisor(node: _Facts) -> Iterator[str]:
    if divides_by_zero(node.operator, node.value(1)):
        yield "expected a divisor of integers without zeros, found a constant that holds 0"


def _normalized(node: _Facts) -> Iterator[str]:
    """Yield a problem if a normalization's scale or bias does not broadcast to the data's shape.

    Broadcasting must not change the shape of the data.
    """
    shape = node.shape(0)
    for number, name in ((1, "scale"), (2, "bias")):
        given = node.shape(number)
        if shape is None or given is None:
            continue
        tail = shape[len(shape) - len(given) :] if len(given) <= len(shape) else None
        if tail is None or any(g not in (1, s) for g, s in zip(given, tail, strict=True)):
            yield f"expected a {name} that broadcasts to {shape}, found {given}"


def _elements_kept(node: _Facts) -> Iterator[str]:
    shape = node.shape(0)
    if shape is not None and node.result is not None and prod(shape) != prod(node.result):
        yield (
            f"expected a shape of {prod(shape)} elements, like the input's {shape}, found "
            f"{node.result}"
        )


def _zeros_kept(node: _Facts) -> Iterator[str]:
    """Yield a problem for each dimension that Resize changes to or from size 0."""
    shape, sizes = node.shape(0), node.value(3)
    if shape is None or sizes is None:
        return
    axes = node.attribute("axes", range(len(shape)))
    for axis, size in zip(axes, sizes.reshape(-1).tolist(), strict=False):
        if -len(shape) <= axis < len(shape) and (size == 0) != (shape[axis] == 0):
            expected = "a size of 0" if shape[axis] == 0 else "a positive size"
            yield f"expected {expected} for dimension {axis} of {shape}, found {size}"


def _parts(node: _Facts) -> Iterator[str]:
    """Yield a problem if a part of Split has a negative size."""
    shape, sizes, count = node.shape(0), node.value(1), node.number("num_outputs", 0)
    axis = node.number("axis", 0)
    if shape is not None and count > 0 and -len(shape) <= axis < len(shape):
        size, part = shape[axis], -(-shape[axis] // count)
        if part * (count - 1) > size:
            yield (
                f"num_outputs: expected a number of parts for the {size} elements of dimension "
                f"{axis}, found {count} parts of {part}; lower it, or give sizes as input 'split'"
            )
    if sizes is not None and (sizes < 0).any():  # type: ignore[operator]
        found = ", ".join(map(str, sizes.reshape(-1).tolist()))
        yield f"expected parts of at least 0 elements, found sizes {found}"


def _conv(node: _Facts) -> Iterator[str]:
    yield from _channels(node, weight_inputs=1, weight_outputs=0)


def _conv_transpose(node: _Facts) -> Iterator[str]:
    yield from _channels(node, weight_inputs=0, weight_outputs=1)


def _channels(node: _Facts, weight_inputs: int, weight_outputs: int) -> Iterator[str]:
    """Yield a problem if the data, weights and bias of a convolution have different channel counts.

    ``weight_inputs`` is the index of the weights' dimension of input channels, and
    ``weight_outputs`` the index of their dimension of output channels.
    """
    data, weights, bias = node.shape(0), node.shape(1), node.shape(2)
    group = node.attribute("group", 1)
    if group < 1:
        yield f"expected a positive group, found {group}"
    if data is None or weights is None:
        return
    # The inputs' dimension of Conv, and the outputs' of ConvTranspose, count only one group.
    inputs = weights[weight_inputs] * (group if weight_inputs == 1 else 1)
    outputs = weights[weight_outputs] * (group if weight_outputs == 1 else 1)
    if data[1] != inputs:
        yield (
            f"expected {inputs} input channels, from weights {weights} in {group} groups, found "
            f"{data[1]}"
        )
    if weights[0] % group:
        yield f"expected weights that {group} groups divide, found {weights[0]} in {weights}"
    if bias is not None and bias != [outputs]:
        yield f"expected a bias of {outputs} elements, found {bias}"


_RULES: Mapping[str, tuple[_Rule, ...]] = {
    "Col2Im": (_columns,),
    "Conv": (_conv,),
    "ConvTranspose": (_conv_transpose,),
    "CumProd": (_axis_input,),
    "CumSum": (_axis_input,),
    "Compress": (_axis_attribute,),
    "Div": (_no_zero_divisor,),
    "Gather": (_index_on_axis,),
    "GatherElements": (_axis_attribute, _index_on_axis),
    "GatherND": (_index_tuples,),
    "Hardmax": (_axis_attribute,),
    "LayerNormalization": (_axis_attribute, _normalized),
    "LogSoftmax": (_axis_attribute,),
    "LpNormalization": (_axis_attribute,),
    "Mod": (_no_zero_divisor,),
    "RMSNormalization": (_axis_attribute, _normalized),
    "Reshape": (_elements_kept,),
    "Split": (_parts,),
    "Resize": (_zeros_kept,),
    "ScatterElements": (_axis_attribute, _index_on_axis),
    "ScatterND": (_index_tuples,),
    "TensorScatter": (_axis_attribute,),
}
