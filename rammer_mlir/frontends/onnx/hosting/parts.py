"""Extracts parts of a model as separate models."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx
from onnx import helper

from rammer_mlir.frontends.onnx.loops.element_rules import ELEMENTWISE
from rammer_mlir.frontends.onnx.model import (
    Model,
    free_names,
    names_used_by,
    separate_weights,
)
from rammer_mlir.frontends.onnx.node_names import Prefixes
from rammer_mlir.frontends.onnx.tensor_data import TensorData
from rammer_mlir.frontends.onnx.tensors import ONNX_DOMAINS, dtype_of, static_shape, value_infos


@dataclass(frozen=True)
class Part:
    """A separately compiled part of a model.

    Attributes:
        model: a model with the part's nodes, inputs and outputs.
        shape_values: names of the inputs whose values determine shapes, so that a program of static
            shapes needs them as constants.
        is_repeated: whether the part is the body of a loop, or within the body of a loop.
        is_eager: whether every run of the whole model executes the part.
    """

    model: Model
    shape_values: tuple[str, ...]
    is_repeated: bool
    is_eager: bool


class PartMaker:
    """Extracts parts of a model as separate models."""

    def __init__(self, model: Model) -> None:
        """Store ``model``, whose shapes must be inferred; it is not modified."""
        self._model = model
        self._types = value_infos(model.graph)
        self._constants = {tensor.name: tensor for tensor in model.graph.initializer}

    def of_nodes(
        self, nodes: Sequence[onnx.NodeProto], inputs: Iterable[str], outputs: Iterable[str]
    ) -> Model:
        """Return a model of ``nodes``.

        ``inputs`` and ``outputs`` are the names of the model's inputs and outputs.
        """
        graph = onnx.GraphProto(name="part")
        graph.node.extend(nodes)
        graph.input.extend(self._input(name) for name in inputs)
        graph.output.extend(onnx.ValueInfoProto(name=name) for name in outputs)
        return self._finished(graph, names_used_by(nodes))

    def of_subgraph(
        self, body: onnx.GraphProto, inputs: Sequence[onnx.ValueInfoProto], captured: Sequence[str]
    ) -> Model:
        """Return a model of a branch or the body of a loop.

        Args:
            body: the branch or body, not modified.
            inputs: inputs of the body, in order.
            captured: names of captured values, which become additional inputs.
        """
        graph = onnx.GraphProto(name="part")
        graph.node.extend(body.node)
        graph.initializer.extend(body.initializer)
        graph.input.extend([*inputs, *map(self._input, captured)])
        graph.output.extend(onnx.ValueInfoProto(name=value.name) for value in body.output)
        _give_outputs_nodes(graph)
        return self._finished(graph, free_names(body).difference(captured))

    def captured(self, body: onnx.GraphProto) -> list[str]:
        """Return the names of the values that a subgraph captures, except constants."""
        constants = self._constants.keys() | self._model.weights.keys()
        return sorted(free_names(body) - constants)

    def elementwise_weights(self, body: onnx.GraphProto) -> list[str]:
        """Return the names of captured large constants that only elementwise operators read.

        Bodies of loops get such constants as inputs, so that bodies that differ only in these
        constants become the same part.
        """
        weights = free_names(body) & self._model.weights.keys()
        for node in body.node:
            if node.domain not in ONNX_DOMAINS or node.op_type not in ELEMENTWISE:
                weights -= names_used_by([node])
        return sorted(weights - {value.name for value in body.output})

    def shape(self, name: str) -> tuple[int, ...] | None:
        """Return the static shape of value ``name``; None if not static, or not a tensor."""
        if name in self._constants:
            return tuple(self._constants[name].dims)
        if name in self._model.weights:
            return self._model.weights[name].shape
        if name not in self._types or not self._types[name].type.HasField("tensor_type"):
            return None
        found = static_shape(self._types[name])
        return None if found is None else tuple(found)

    def element_shape(self, name: str, axis: int) -> tuple[int, ...] | None:
        """Return the shape of value ``name`` without dimension ``axis``; None if it is unknown."""
        shape = self.shape(name)
        if shape is None:
            return None
        axis %= len(shape)
        return shape[:axis] + shape[axis + 1 :]

    def element(self, name: str, axis: int) -> tuple[np.dtype[np.generic], tuple[int, ...]]:
        """Return the dtype of the value ``name``, and the shape of its slices along an axis.

        A slice lacks the axis; unknown sizes are 0. For an unknown value, return float32 and the
        shape ().
        """
        tensor = self._types[name].type.tensor_type if name in self._types else None
        if tensor is None:
            return np.dtype(np.float32), ()
        sizes = [dim.dim_value for dim in tensor.shape.dim]
        del sizes[axis : axis + 1 or None]
        return dtype_of(tensor.elem_type or onnx.TensorProto.FLOAT), tuple(sizes)

    def elem_type(self, name: str) -> int:
        """Return the ONNX element type of value ``name``; 0 if unknown."""
        if name in self._constants:
            return self._constants[name].data_type
        if name in self._model.weights:
            return helper.np_dtype_to_tensor_dtype(self._model.weights[name].dtype)
        return self._types[name].type.tensor_type.elem_type if name in self._types else 0

    def _input(self, name: str) -> onnx.ValueInfoProto:
        value = onnx.ValueInfoProto(name=name)
        if name in self._types:
            value.type.CopyFrom(self._types[name].type)
            for dim in value.type.tensor_type.shape.dim:
                dim.ClearField("dim_param")  # names made up by inference
        return value

    def _finished(self, graph: onnx.GraphProto, used: set[str]) -> Model:
        """Return a graph as a model, with the constants named in ``used``."""
        graph.initializer.extend(t for name, t in self._constants.items() if name in used)
        proto = onnx.ModelProto()
        for field, value in self._model.proto.ListFields():
            if field.name == "opset_import":
                proto.opset_import.extend(value)
        proto.ir_version = self._model.proto.ir_version
        proto.graph.CopyFrom(graph)
        name = "a part of the model"
        model = separate_weights(proto, name, TensorData(name, ()))
        weights = {n: array for n, array in self._model.weights.items() if n in used}
        model.graph.input.extend(self._types[name] for name in weights)
        model.weights.update(weights)
        return replace(model, warned=self._model.warned)


def _give_outputs_nodes(graph: onnx.GraphProto) -> None:
    """Add Identity nodes for outputs that are inputs or that are listed repeatedly, in place.

    Afterwards each output is the result of a node, and no two outputs have the same name.
    """
    computed = {name for node in graph.node for name in node.output}
    prefixes, seen = Prefixes(graph), set[str]()
    for value in graph.output:
        if value.name in computed and value.name not in seen:
            seen.add(value.name)
            continue
        name = f"{prefixes.unused(value.name)}/output{len(seen)}"
        graph.node.append(helper.make_node("Identity", [value.name], [name], name=name))
        value.name = name
        seen.add(name)


def give_scalar(body: onnx.GraphProto, number: int, elem_type: int) -> onnx.ValueInfoProto:
    """Change input ``number`` of a loop's body to a scalar, in place; return its declaration.

    The input is the iteration number or the condition, which a body may declare as a vector of one
    element. In that case a Reshape from the scalar to the vector is inserted. ``elem_type`` is the
    ONNX element type.
    """
    value = body.input[number]
    if not value.type.tensor_type.shape.dim:
        return helper.make_tensor_value_info(value.name, elem_type, [])
    name, prefix = value.name, Prefixes(body).unused(value.name)
    scalar, shape = f"{prefix}/scalar", f"{prefix}/shape"
    body.initializer.append(helper.make_tensor(shape, onnx.TensorProto.INT64, [1], [1]))
    nodes = list(body.node)
    del body.node[:]
    body.node.append(helper.make_node("Reshape", [scalar, shape], [name], name=name))
    body.node.extend(nodes)
    value.name = scalar
    return helper.make_tensor_value_info(scalar, elem_type, [])


def without_shape(value: onnx.ValueInfoProto) -> onnx.ValueInfoProto:
    """Return a copy of a value's declaration without the shape.

    The shape is unknown if the value is a loop-carried state, because iterations may change it.
    """
    copy = onnx.ValueInfoProto.FromString(value.SerializeToString())
    if copy.type.HasField("tensor_type"):
        copy.type.tensor_type.ClearField("shape")
    return copy
