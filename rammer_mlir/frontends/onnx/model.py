"""Defines ``Model``: an ONNX graph, with the values of large weights stored separately."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableMapping
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
import onnx
from onnx import helper, numpy_helper

from rammer_mlir.errors import ModelError
from rammer_mlir.frontends.onnx.tensors import Array, array_of, num_bytes, small_constants
from rammer_mlir.frontends.onnx.traversal import tensors_of_model

LARGE = 1024
"""An initializer with more elements is a weight, whose value is stored separately."""


@dataclass(frozen=True)
class Model:
    """An ONNX model with separate values of its large weights.

    The cost of copying or serializing the graph is thus independent of the size of the weights, and
    protobuf's limit of 2 GB does not apply.

    Attributes:
        proto: the model; large weights follow its inputs, as additional inputs.
        weights: values of large weights by name.
        warned: names of values about whose declared shape a warning was issued. Copies share the
            set, so that specializations do not repeat warnings.
        read: the constants whose values were read from ``constants``. A large weight is in the set
            as the ``id`` of its array, which is only valid while the array exists; any other
            constant is in the set by its name. Copies, and models that preparation derives from
            this model, share the set.
    """

    proto: onnx.ModelProto
    weights: dict[str, Array]
    warned: set[str] = field(default_factory=set[str], compare=False)
    read: set[int | str] = field(default_factory=set[int | str], compare=False)

    @property
    def graph(self) -> onnx.GraphProto:
        """The model's graph."""
        return self.proto.graph

    @property
    def inputs(self) -> list[onnx.ValueInfoProto]:
        """The model's inputs, without the weights."""
        return [value for value in self.graph.input if value.name not in self.weights]

    def constants(self) -> ConstantValues:
        """Return the values of all initializers, including large weights, by name.

        Changes of the returned mapping do not change the model. ``Model.read`` records each
        constant whose value is read from the mapping.
        """
        return ConstantValues(small_constants(self.graph), self.weights, self.read)

    def small_constants(self) -> ConstantValues:
        """Return the values of all initializers except large weights, by name.

        ``Model.read`` records each constant whose value is read from the returned mapping.
        """
        return ConstantValues(small_constants(self.graph), {}, self.read)

    def copy(self) -> Model:
        """Return a copy that can be modified; both models share the arrays of large weights."""
        proto = onnx.ModelProto.FromString(self.proto.SerializeToString())
        return replace(self, proto=proto, weights={**self.weights})

    def with_proto(self, proto: onnx.ModelProto) -> Model:
        """Return a model with the graph and opsets of ``proto``, and with this model's weights."""
        return replace(self, proto=proto)

    def set_nodes(self, nodes: Iterable[onnx.NodeProto]) -> None:
        """Replace the graph's nodes by ``nodes``, which may include nodes of the graph."""
        set_graph_nodes(self.graph, nodes)

    def add_constant(self, name: str, value: Array) -> None:
        """Add ``value`` as initializer ``name``, or as a weight if it has over LARGE elements."""
        if value.size <= LARGE:
            self.graph.initializer.append(numpy_helper.from_array(value, name))
            return
        kind = helper.np_dtype_to_tensor_dtype(value.dtype)
        self.graph.input.append(helper.make_tensor_value_info(name, kind, value.shape))
        self.weights[name] = value

    def drop_unused_constants(self) -> None:
        """Remove unused initializers and weights."""
        used = used_names(self.graph)
        unused = {tensor.name for tensor in self.graph.initializer} - used
        unused |= self.weights.keys() - used
        for items in (self.graph.initializer, self.graph.input):
            kept = [item for item in items if item.name not in unused]
            if len(kept) < len(items):
                copies = [type(item).FromString(item.SerializeToString()) for item in kept]
                del items[:]
                items.extend(copies)  # type: ignore[arg-type]
        for name in unused & self.weights.keys():
            del self.weights[name]


class ConstantValues(MutableMapping[str, Array]):
    """A mapping from the names of constants to their values.

    ``Model.read`` records each constant whose value is read; iterating over ``items`` or ``values``
    reads all constants.
    """

    def __init__(
        self, small: dict[str, Array], weights: dict[str, Array], read: set[int | str]
    ) -> None:
        self._values, self._read = {**small, **weights}, read
        self._weights = set(map(id, weights.values()))

    def __getitem__(self, name: str) -> Array:
        value = self._values[name]
        self._read.add(id(value) if id(value) in self._weights else name)
        return value

    def dtype(self, name: str) -> np.dtype[np.generic] | None:
        """Return the dtype of constant ``name``, or None if there is no such constant.

        This does not count as reading the value.
        """
        return self._values[name].dtype if name in self._values else None

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of constant ``name``; this does not count as reading its value."""
        return self._values[name].shape

    def are_all(self, name: str, number: float) -> bool:
        """Return whether all elements of constant ``name`` are equal to ``number``.

        The result is False if there is no such constant, or if the constant has no elements. For a
        result of False, the value does not count as read: the compiled program is then correct for
        any value of the constant.
        """
        value = self._values.get(name)
        if value is None or not value.size or value.flat[0] != number:
            return False
        return bool((value == number).all()) and self[name] is value

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def __setitem__(self, name: str, value: Array) -> None:
        self._values[name] = value

    def __delitem__(self, name: str) -> None:
        del self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


def set_graph_nodes(graph: onnx.GraphProto, nodes: Iterable[onnx.NodeProto]) -> None:
    """Replace a graph's nodes by ``nodes``, which may include nodes of the graph."""
    copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(copies)


def used_names(graph: onnx.GraphProto) -> set[str]:
    """Return the names of a graph's outputs, and of all values that its nodes or subgraphs use."""
    return ({value.name for value in graph.output} | names_used_by(graph.node)) - {""}


def names_used_by(nodes: Iterable[onnx.NodeProto]) -> set[str]:
    """Return the names of all values that nodes, or nodes of their nested subgraphs, use."""
    used: set[str] = set()
    for node in nodes:
        used.update(node.input)
        for attribute in node.attribute:
            for subgraph in (attribute.g, *attribute.graphs):
                used |= used_names(subgraph)
    return used


def free_names(graph: onnx.GraphProto) -> set[str]:
    """Return the names of the values from outside a subgraph that the subgraph uses.

    Values that subgraphs nested in ``graph`` use are included.
    """
    own = {value.name for value in (*graph.input, *graph.initializer)}
    used = {value.name for value in graph.output}
    for node in graph.node:
        own.update(node.output)
        used.update(node.input)
        for attribute in node.attribute:
            for subgraph in (attribute.g, *attribute.graphs):
                used |= free_names(subgraph)
    return used - own - {""}


class DataElsewhere(Protocol):
    """Reader of tensor data that is in files or memory outside of the parsed model."""

    def of_initializer(self, number: int, tensor: onnx.TensorProto) -> bytes | memoryview | None:
        """Return the data of the graph's initializer of index ``number``.

        Return None if the initializer itself, ``tensor``, contains the data.
        """
        ...

    def take(self, tensor: onnx.TensorProto) -> None:
        """Copy a tensor's external data into the tensor, in place."""
        ...


def separate_weights(source: onnx.ModelProto, name: str, data: DataElsewhere) -> Model:
    """Return a copy of a model with the values of large initializers stored separately.

    Initializers that are also listed as inputs, as before IR version 4, are removed from the
    inputs.

    Args:
        source: the model, not modified.
        name: name of the model in messages.
        data: reader of data outside of the tensors.

    Raises:
        ModelError: if a tensor's data does not match its shape, or cannot be found.
    """
    proto = onnx.ModelProto()
    for descriptor, value in source.ListFields():
        if descriptor.name != "graph":
            _copy_field(proto, descriptor.name, value)
    for descriptor, value in source.graph.ListFields():
        if descriptor.name not in ("initializer", "input"):
            _copy_field(proto.graph, descriptor.name, value)
    names = {tensor.name for tensor in source.graph.initializer}
    proto.graph.input.extend(v for v in source.graph.input if v.name not in names)
    for tensor in tensors_of_model(proto):
        data.take(tensor)
        _value(tensor, name)
    model = Model(proto, {})
    constant_nodes = _take_constant_nodes(proto.graph)
    for number, tensor in enumerate(source.graph.initializer):
        elsewhere = data.of_initializer(number, tensor)
        value = _value(tensor, name, elsewhere)
        _add_tensor(model, tensor, value, is_whole=elsewhere is None)
    for tensor in constant_nodes:
        _add_tensor(model, tensor, _value(tensor, name), is_whole=True)
    return model


def _add_tensor(model: Model, tensor: onnx.TensorProto, value: Array, *, is_whole: bool) -> None:
    if value.size <= LARGE and is_whole:
        model.graph.initializer.append(tensor)
    else:
        model.add_constant(tensor.name, value)


def _copy_field(target: onnx.ModelProto | onnx.GraphProto, field: str, value: object) -> None:
    current = getattr(target, field)
    if hasattr(current, "extend"):
        current.extend(value)
    else:
        setattr(target, field, value)


def _take_constant_nodes(graph: onnx.GraphProto) -> list[onnx.TensorProto]:
    """Remove the Constant nodes that have a tensor, and return the tensors.

    Each tensor gets the name of its node's result, so that it can become an initializer.
    """
    found: list[onnx.TensorProto] = []
    kept: list[onnx.NodeProto] = []
    for node in graph.node:
        values = [a.t for a in node.attribute if a.name == "value"]
        if node.op_type != "Constant" or not values or not node.output:
            kept.append(node)
            continue
        tensor = onnx.TensorProto()
        tensor.CopyFrom(values[0])
        tensor.name = node.output[0]
        found.append(tensor)
    if found:
        set_graph_nodes(graph, kept)
    return found


def _value(tensor: onnx.TensorProto, name: str, data: bytes | memoryview | None = None) -> Array:
    """Return a tensor's value as an array.

    Raise ModelError if the data does not fit the tensor's shape. ``data`` is the tensor's raw data
    if the tensor does not contain it, and ``name`` the model's name in messages.
    """
    try:
        if data is None and tensor.HasField("raw_data"):
            data = tensor.raw_data
        if data is None:
            return numpy_helper.to_array(tensor)
        if len(data) != num_bytes(tensor):
            raise ValueError(f"it has {len(data)} bytes, not {num_bytes(tensor)}")
        return array_of(tensor, data)
    except (ValueError, TypeError, KeyError, OverflowError) as error:
        raise ModelError(
            f"{name}: the data of tensor '{tensor.name}' does not fit its shape "
            f"{list(tensor.dims)}: {first_line(error)}"
        ) from error


def first_line(error: Exception) -> str:
    """Return the first line of an error's message, or the error's type if the message is empty."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0].rstrip(".:") if lines else type(error).__name__
