"""Indexes loop bodies: the producers, uses and types of their values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import onnx

from rammer_mlir.frontends.onnx.folding.types import TensorKind, Types, graph_types, infer_node
from rammer_mlir.frontends.onnx.model import free_names
from rammer_mlir.frontends.onnx.tensors import Array, small_constants
from rammer_mlir.frontends.onnx.traversal import subgraphs


@dataclass(frozen=True)
class Surroundings:
    """The known constants and types of the values that are defined outside of a loop's body.

    Attributes:
        values: values of constants, by name.
        types: known types of all values, by name.
        opset: opset of the model.
    """

    values: Mapping[str, Array]
    types: Types
    opset: int


def copied(node: onnx.NodeProto) -> onnx.NodeProto:
    """Return a copy of a node and its subgraphs."""
    return onnx.NodeProto.FromString(node.SerializeToString())


def body_of(node: onnx.NodeProto) -> onnx.GraphProto:
    """Return the body of a Loop or Scan, which is the node's only subgraph."""
    (body,) = subgraphs(node)
    return body


class Body:
    """The body of a loop, with the producers, uses and types of the body's values.

    The body must not be modified while this object is used.
    """

    def __init__(self, graph: onnx.GraphProto, around: Surroundings) -> None:
        """Store the body ``graph``, and the constants and types outside of the body, ``around``."""
        self.graph = graph
        self._around = around
        self._constants = small_constants(graph)

    @cached_property
    def producers(self) -> dict[str, onnx.NodeProto]:
        """The node that computes each value, by the value's name."""
        return {name: node for node in self.graph.node for name in node.output if name}

    @cached_property
    def uses(self) -> Counter[str]:
        """Use count of each value, by name.

        Each operand of a node, each output of the body and each capture by a nested subgraph is a
        use.
        """
        found = Counter(value.name for value in self.graph.output)
        for node in self.graph.node:
            found.update(node.input)
            for inner in subgraphs(node):
                found.update(free_names(inner))
        return found

    def constant(self, name: str) -> Array | None:
        """Return the value of constant ``name`` in the body or around it; None for other values."""
        return self._constants.get(name, self._around.values.get(name))

    def captured(self, name: str) -> tuple[int, ...] | None:
        """Return the static shape of value ``name``, which the body captures from outside.

        Return None if the body itself defines the value, or if the value has no known static shape.
        """
        own = {value.name for value in self.graph.input}
        if name in own or name in self._constants or name in self.producers:
            return None
        kind = self._around.types.get(name)
        return kind.shape if kind is not None and kind.is_static else None

    def behind(self, name: str) -> str:
        """Return the name of the value that Identity nodes copy to the value ``name``.

        ``name`` itself is returned if it is not the result of an Identity node.
        """
        while name in self.producers and self.producers[name].op_type == "Identity":
            name = self.producers[name].input[0]
        return name

    def types(self, inputs: Sequence[TensorKind], known: Types) -> Mapping[str, TensorKind]:
        """Return the types of all values, by name, for given types of the body's inputs.

        Args:
            inputs: types of the body's inputs, in order.
            known: types, by name, of values that need not be inferred.
        """
        names = [value.name for value in self.graph.input]
        declared = graph_types(onnx.GraphProto(initializer=self.graph.initializer))
        types = {**self._around.types, **declared, **dict(zip(names, inputs, strict=True))}
        values = {**self._around.values, **self._constants}
        for node in self.graph.node:
            for name in node.output:  # it may shadow a value around the body
                types.pop(name, None)
            types.update({name: known[name] for name in node.output if name in known})
            types.update(infer_node(node, self._around.opset, types, values))
        return types


def step_types(
    body: Body, states: Sequence[str], around: Surroundings, known: Types | None = None
) -> Mapping[str, TensorKind] | None:
    """Return the types of the values in the body of a Loop, by name.

    Return None if the type of a loop-carried state is unknown, or changes between iterations.
    States that are sequences are ignored, and have no type in the result.

    Args:
        body: body of the loop.
        states: names of the states' initial values, in the order of the states.
        around: constants and types of the values outside of the loop.
        known: types, by name, of values in the body that need not be inferred.
    """
    unknown = TensorKind(0, None)
    kinds = [around.types.get(name, unknown) for name in states]
    scalars = [TensorKind(onnx.TensorProto.INT64, ()), TensorKind(onnx.TensorProto.BOOL, ())]
    types = body.types([*scalars, *kinds], known or {})
    made = [types.get(value.name, unknown) for value in body.graph.output[1 : 1 + len(states)]]
    is_sequence = [value.type.HasField("sequence_type") for value in body.graph.input[2:]]
    keeps = all(
        given.is_static and given == found
        for given, found, is_list in zip(kinds, made, is_sequence, strict=True)
        if not is_list
    )
    return types if keeps else None
