"""Folds batch norms, and operators with a constant per channel, into the preceding convolution.

The operators with a constant per channel are Mul, Add, Sub and Div. A Gemm counts as a convolution.
If no convolution precedes a batch norm, the batch norm and such operators after it become a Mul and
an Add.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import prod

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper

from rammer_mlir.frontends.onnx.model import Model, used_names
from rammer_mlir.frontends.onnx.tensors import Array, ShapeTable

_FLOATS = (np.float16, np.float32, np.float64)

_LEAST_FACTOR = 1e-18
"""Least factor, and inverse of the largest, by which weights are multiplied."""

Doubles = NDArray[np.float64]


@dataclass(frozen=True)
class _Affine:
    """The function ``y = scale * x + shift``, applied to each channel of the value ``x``.

    ``source`` is the name of ``x``; ``scale`` and ``shift`` have the shape ``[channels]``.
    """

    source: str
    scale: Doubles
    shift: Doubles


@dataclass
class _Producer:
    """A Conv, ConvTranspose, Gemm or batch norm, with the affine functions that are folded into it.

    Attributes:
        node: the node; the name of its output is the output name of the last folded function.
        scale: product of the factors of all folded functions, for each channel.
        shift: addend of each channel, from all folded functions.
        changed: whether a function was folded, so that the node needs new weights.
    """

    node: onnx.NodeProto
    scale: Doubles
    shift: Doubles
    changed: bool = False


def fold_affine(model: Model) -> None:
    """Fold batch norms, and operators with a constant per channel, into convolutions, in place.

    The operators are Mul, Add, Sub and Div; a Gemm counts as a convolution. The model's shapes must
    be inferred, and its constants folded.
    """
    folding = _Folding(model)
    with np.errstate(all="ignore"):  # weights and constants may be NaN or infinite
        model.set_nodes(folding.run())
    model.drop_unused_constants()


class _Folding:
    def __init__(self, model: Model) -> None:
        self._model = model
        self._table = ShapeTable(model.graph)
        self._constants = model.constants()
        self._producers: dict[str, _Producer] = {}
        self._uses = Counter(name for node in model.graph.node for name in node.input)
        self._uses.update(value.name for value in model.graph.output)
        self._uses.update(_captured(model.graph))

    def run(self) -> list[onnx.NodeProto]:
        order: list[onnx.NodeProto | _Producer] = []
        for node in self._model.graph.node:
            affine = self._affine(node)
            producer = self._producers.get(affine.source) if affine else None
            # A second consumer needs the value before the function: fold only single uses.
            single = affine is not None and self._uses[affine.source] == 1
            if affine and producer and single and _are_factors(producer.scale * affine.scale):
                producer.scale = producer.scale * affine.scale
                producer.shift = producer.shift * affine.scale + affine.shift
                producer.changed = True
                producer.node.output[0] = node.output[0]
                self._producers[node.output[0]] = producer
                continue
            entry = self._producer(node, affine)
            order.append(entry or node)
            if entry:
                self._producers[node.output[0]] = entry
        nodes: list[onnx.NodeProto] = []
        for entry in order:
            nodes.extend(self._emit(entry) if isinstance(entry, _Producer) else [entry])
        return nodes

    def _constant(self, name: str) -> Array | None:
        return self._constants[name] if self._is_constant(name) else None

    def _is_constant(self, name: str) -> bool:
        dtype = self._constants.dtype(name)
        return dtype is not None and dtype.type in _FLOATS

    def _channels(self, name: str) -> tuple[int, int] | None:
        """Return rank and number of channels of the value ``name``; None if unknown or rank < 2."""
        shape = self._table.find_shape(name)
        return (len(shape), shape[1]) if shape is not None and len(shape) >= 2 else None

    def _affine(self, node: onnx.NodeProto) -> _Affine | None:
        if node.op_type == "BatchNormalization":
            return self._batch_norm(node)
        if node.op_type not in ("Mul", "Add", "Sub", "Div") or len(node.input) != 2:
            return None
        for position in (0, 1):
            if node.input[position] not in self._producers:
                continue
            constant = self._constant(node.input[1 - position])
            kind = self._channels(node.input[position])
            if constant is None or kind is None:
                continue
            values = _per_channel(constant, *kind)
            if values is not None:
                return _arithmetic(node.op_type, node.input[position], values, position == 0)
        return None

    def _batch_norm(self, node: onnx.NodeProto) -> _Affine | None:
        if any(a.name == "training_mode" and a.i for a in node.attribute) or len(node.output) > 1:
            return None
        found = [self._constant(name) for name in node.input[1:5]]
        if self._channels(node.input[0]) is None:
            return None
        parameters = [value.astype(np.float64) for value in found if value is not None]
        if len(parameters) < 4:
            return None
        scale, bias, mean, variance = parameters
        epsilon = next((a.f for a in node.attribute if a.name == "epsilon"), 1e-5)
        scale = scale / np.sqrt(variance + epsilon)  # keep NaN, as the operator does
        return _Affine(node.input[0], scale, bias - mean * scale)

    def _producer(self, node: onnx.NodeProto, affine: _Affine | None) -> _Producer | None:
        if node.op_type == "BatchNormalization" and affine:
            kinds = self._table.elem_type(node.input[0]), self._table.elem_type(node.input[1])
            if kinds[0] != kinds[1]:  # Mul and Add, which replace it, have operands of one type
                return None
            return _Producer(node, affine.scale, affine.shift, changed=True)
        if node.op_type not in ("Conv", "ConvTranspose", "Gemm"):
            return None
        kind = self._channels(node.output[0])
        if kind is None or not all(self._is_constant(name) for name in node.input[1:] if name):
            return None
        has_bias = len(node.input) > 2 and bool(node.input[2])
        if node.op_type == "Gemm" and has_bias:
            if not _is_per_channel(self._constants.shape(node.input[2]), *kind):
                return None
        return _Producer(node, np.ones(kind[1]), np.zeros(kind[1]))

    def _emit(self, producer: _Producer) -> list[onnx.NodeProto]:
        node = producer.node
        if not producer.changed:
            return [node]
        if node.op_type == "BatchNormalization":
            return self._emit_pointwise(producer)
        weight = self._constants[node.input[1]]
        del node.input[3:]
        bias = self._bias(node, producer)
        scaled = _scale_weight(node, weight.astype(np.float64), producer.scale)
        new = [f"{node.name}/folded_{part}" for part in ("weight", "bias")]
        self._model.add_constant(new[0], scaled.astype(weight.dtype))
        self._model.add_constant(new[1], bias.astype(weight.dtype))
        inputs = [node.input[0], *new]
        del node.input[:]
        node.input.extend(inputs)
        return [node]

    def _bias(self, node: onnx.NodeProto, producer: _Producer) -> Doubles:
        # Gemm multiplies its bias by beta, which the new bias includes, also where there was none.
        beta = 1.0
        for attribute in [a for a in node.attribute if a.name == "beta"]:
            beta, attribute.f = attribute.f, 1.0
        if len(node.input) < 3 or not node.input[2]:
            return producer.shift
        channels = producer.scale.size
        bias = np.broadcast_to(self._constants[node.input[2]].astype(np.float64).ravel(), channels)
        return bias * beta * producer.scale + producer.shift

    def _emit_pointwise(self, producer: _Producer) -> list[onnx.NodeProto]:
        """Return a Mul and an Add that replace a batch norm and the operators folded into it.

        ``producer`` has the batch norm's node, and the scale and shift of all these operators
        together.
        """
        node = producer.node
        kind = self._channels(node.input[0])
        assert kind is not None, "checked when the producer was made"
        dtype = self._constants[node.input[1]].dtype
        names = [f"{node.name}/{part}" for part in ("scale", "shift", "scaled")]
        shape = [-1] + [1] * (kind[0] - 2)
        self._model.add_constant(names[0], producer.scale.astype(dtype).reshape(shape))
        self._model.add_constant(names[1], producer.shift.astype(dtype).reshape(shape))
        return [
            helper.make_node("Mul", [node.input[0], names[0]], [names[2]], name=node.name),
            helper.make_node(
                "Add", [names[2], names[1]], [node.output[0]], name=f"{node.name}/shift"
            ),
        ]


def _captured(graph: onnx.GraphProto) -> Counter[str]:
    """Return how often subgraphs of ``graph``'s nodes use each value of ``graph``, by name."""
    return Counter(
        name
        for node in graph.node
        for attribute in node.attribute
        for subgraph in (attribute.g, *attribute.graphs)
        for name in used_names(subgraph)
    )


def _per_channel(constant: Array, rank: int, channels: int) -> Doubles | None:
    """Return the elements of a constant operand, one per channel, or None.

    The result is None if the elements vary along a dimension other than dimension 1, the channels.
    ``rank`` and ``channels`` describe the operator's other operand: its rank, and its size along
    dimension 1.
    """
    if not _is_per_channel(constant.shape, rank, channels):
        return None
    return np.broadcast_to(constant.astype(np.float64).ravel(), channels)


def _is_per_channel(shape: tuple[int, ...], rank: int, channels: int) -> bool:
    """Whether a constant operand varies only along dimension 1, or has a single element.

    ``shape`` is the shape of this operand. ``rank`` and ``channels`` describe the operator's other
    operand: its rank, and its size along dimension 1.
    """
    if len(shape) > rank:
        return False
    aligned = (1,) * (rank - len(shape)) + shape
    return prod(aligned) in (1, channels) and aligned[1] == prod(aligned)


def _arithmetic(operator: str, source: str, values: Doubles, source_first: bool) -> _Affine | None:
    ones, zeros = np.ones(values.shape), np.zeros(values.shape)
    match operator:
        case "Mul":
            return _Affine(source, values, zeros)
        case "Add":
            return _Affine(source, ones, values)
        case "Sub":
            return (
                _Affine(source, ones, -values) if source_first else _Affine(source, -ones, values)
            )
        case _:
            # A constant divided by the value is not affine, and zero divisors give infinities.
            return _Affine(source, ones / values, zeros) if source_first and values.all() else None


def _are_factors(scale: Doubles) -> bool:
    """Whether the convolution's weights may be multiplied by ``scale`` instead of its result.

    This is refused for an infinite, very large or very small factor: its products with weights may
    leave the range of f32 although the product with the convolution's result does not.
    """
    size = np.abs(scale[scale != 0])
    return not ((size < _LEAST_FACTOR) | (size > 1 / _LEAST_FACTOR)).any()


def _scale_weight(node: onnx.NodeProto, weight: Doubles, scale: Doubles) -> Doubles:
    """Return the weights, each multiplied by the factor of its output channel.

    ``weight`` has the weights of ``node``, a Conv, ConvTranspose or Gemm; ``scale`` has a factor
    for each output channel.
    """
    attributes = {a.name: a for a in node.attribute}
    if node.op_type == "Conv":
        return weight * scale.reshape(-1, *[1] * (weight.ndim - 1))
    if node.op_type == "Gemm":
        transposed = "transB" in attributes and attributes["transB"].i
        return weight * (scale[:, None] if transposed else scale[None, :])
    groups = attributes["group"].i if "group" in attributes else 1
    # A transposed convolution's weight is [inputs, outputs / groups, ...], grouped by input.
    by_group = weight.reshape(groups, -1, *weight.shape[1:])
    factors = scale.reshape(groups, 1, -1, *[1] * (weight.ndim - 2))
    return (by_group * factors).reshape(weight.shape)
