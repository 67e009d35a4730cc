"""Computes the canonical form of a model, by which the cache finds equal models.

Two prepared models with equal canonical forms give the same program. Two loaded models with equal
canonical forms give the same program if the weights that their preparation reads are equal too. A
loaded model has declared types only, a prepared model has all types.

A walk from the outputs numbers the nodes, weights and inputs, so that neither names nor the order
of nodes matter. A weight (``weight_values``) is represented by type, shape and uses, any other
constant by its value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import onnx

from rammer_mlir.frontends.onnx.model import Model, free_names
from rammer_mlir.frontends.onnx.node_names import name_of
from rammer_mlir.frontends.onnx.tensors import Array, static_shape, value_infos
from rammer_mlir.frontends.onnx.traversal import subgraphs

Reference = tuple[object, ...]
"""Reference to a value: the kind of its origin (node, weight, ...), and an index or the content."""


@dataclass(frozen=True)
class CanonicalGraph:
    """The canonical form of a model, and the names that the form replaces by numbers.

    The form numbers the nodes that the outputs depend on; for a loaded model, it numbers all nodes.

    Attributes:
        sections: the sections of the form, serialized, by the keys ``opsets``, ``inputs``,
            ``weights`` (types and shapes), ``operations`` and ``outputs``; of a loaded model also
            ``functions`` and ``declared`` (types of outputs).
        weights: names of the weights that the numbered nodes read or that are outputs; the index of
            a name is the weight's number in the form.
        nodes: names of the numbered nodes; the index of a name is the node's number in the form.
        results: names of the results of ``nodes``.
        literals: names of the constants that the form contains by value, one name for each use.
        interface: names of inputs, then of outputs.
    """

    sections: Mapping[str, bytes]
    weights: tuple[str, ...]
    nodes: tuple[str, ...]
    results: tuple[str, ...]
    literals: tuple[str, ...]
    interface: tuple[str, ...]

    @property
    def form(self) -> bytes:
        """All sections (opsets, inputs, weights, operations, ...), joined to a single byte string.

        The string does not depend on the elements of weights, on names of nodes and values (except
        those in subgraphs), or on the order of the nodes that the outputs depend on.
        """
        return b"\n".join(self.sections.values())


def canonical_graph(model: Model) -> CanonicalGraph:
    """Return the canonical form of a prepared model."""
    types = {
        name: (value.type.tensor_type.elem_type, static_shape(value))
        for name, value in value_infos(model.graph).items()
    }
    return _Numbering(model, types, model.weights).graph({})


def canonical_source(model: Model, weights: Mapping[str, Array]) -> CanonicalGraph:
    """Return the canonical form of a loaded model before its preparation.

    ``weights`` has the arrays, by name, whose elements the form does not contain. Unlike the form
    of a prepared model, the form also contains all nodes, even if no output depends on them, all
    functions, and declared types with the names of open dimensions: preparation may raise an error
    for any of them.
    """
    types = {
        name: value.type.SerializeToString(deterministic=True)
        for name, value in value_infos(model.graph).items()
    }
    functions = sorted(f.SerializeToString(deterministic=True) for f in model.proto.functions)
    # An output that is an input too has a type of its own.
    declared = [o.type.SerializeToString(deterministic=True) for o in model.graph.output]
    others = {"functions": functions, "declared": declared}
    return _Numbering(model, types, weights).graph(others, with_all=True)


class _Numbering:
    def __init__(
        self, model: Model, types: Mapping[str, object], weights: Mapping[str, Array]
    ) -> None:
        self._model, self._types, self._values = model, types, weights
        self._inputs = {value.name: number for number, value in enumerate(model.inputs)}
        self._literals = {tensor.name: tensor for tensor in model.graph.initializer}
        self._producers = {
            name: (number, position)
            for number, node in enumerate(model.graph.node)
            for position, name in enumerate(node.output)
            if name
        }
        self._weights: dict[str, int] = {}
        self._used_literals: list[str] = []
        self._numbers: dict[int, int] = {}
        self._lines: list[object] = []

    def graph(self, others: Mapping[str, object], *, with_all: bool = False) -> CanonicalGraph:
        """Return the canonical form of the model.

        ``others`` are additional sections of the form by name, such as the model's functions. The
        ``repr`` of each section becomes its text in the form. ``with_all`` includes nodes that no
        output depends on, in the model's order.
        """
        model, outputs = self._model, [value.name for value in self._model.graph.output]
        for name in outputs:
            self._number(name)
        if with_all:
            for number in range(len(model.graph.node)):
                self._number_node(number)
        references = [(self._reference(name), self._type(name)) for name in outputs]
        arrays = [self._values[name] for name in self._weights]
        sections: dict[str, object] = {
            "opsets": [(entry.domain, entry.version) for entry in model.proto.opset_import],
            "inputs": [self._type(value.name) for value in model.inputs],
            "weights": [(array.dtype.name, array.shape) for array in arrays],
            "operations": self._lines,
            "outputs": references,
            **others,
        }
        written = {name: repr(section).encode() for name, section in sections.items()}
        numbered = [model.graph.node[number] for number in self._numbers]
        nodes = tuple(map(name_of, numbered))
        results = tuple(name for node in numbered for name in node.output)
        interface = (*(value.name for value in model.inputs), *outputs)
        literals = tuple(self._used_literals)
        return CanonicalGraph(written, tuple(self._weights), nodes, results, literals, interface)

    def _number(self, name: str) -> None:
        """Assign a canonical number to the node that computes the value ``name``.

        The nodes on which this node depends get their numbers first. Nothing is numbered if no node
        computes the value, as for inputs and constants.
        """
        if name in self._producers:
            self._number_node(self._producers[name][0])

    def _number_node(self, number: int) -> None:
        """Assign the next canonical number to a node, after all nodes on which the node depends.

        ``number`` is the node's index in the model's graph.
        """
        pending: list[tuple[int, list[str] | None]] = [(number, None)]
        # An explicit stack, since deep graphs would exceed Python's recursion limit.
        while pending:
            number, captured = pending.pop()
            if number in self._numbers:
                continue
            node = self._model.graph.node[number]
            if captured is None:
                captured = _captured(node)
                pending.append((number, captured))
                # Reversed, so that the first operand is on top of the stack and numbered first.
                operands = reversed([*node.input, *captured])
                sources = (self._producers.get(source) for source in operands)
                pending.extend((source[0], None) for source in sources if source is not None)
            else:
                self._lines.append(self._line(node, captured))
                self._numbers[number] = len(self._numbers)

    def _line(self, node: onnx.NodeProto, captured: list[str]) -> object:
        outer = [(name, self._reference(name)) for name in captured]
        return (
            node.domain,
            node.op_type,
            node.overload,
            # Attributes have no order, so equal nodes must be compared sorted.
            sorted(item.SerializeToString(deterministic=True) for item in node.attribute),
            [self._reference(name) for name in node.input],
            outer,
            [self._type(name) if name else "" for name in node.output],
        )

    def _reference(self, name: str) -> Reference:
        if name in self._producers:
            number, position = self._producers[name]
            return ("node", self._numbers[number], position)
        if name in self._values:
            return ("weight", self._weights.setdefault(name, len(self._weights)))
        if name in self._inputs:
            return ("input", self._inputs[name])
        if name in self._literals:
            self._used_literals.append(name)
            return ("literal", _content(self._literals[name]))
        return ("none", name)

    def _type(self, name: str) -> object:
        return self._types.get(name)


def _captured(node: onnx.NodeProto) -> list[str]:
    """Return the sorted names of the outer values that a node's subgraphs read.

    Outer values are defined outside of the subgraphs. The canonical form contains their names,
    because it contains subgraphs without changes.
    """
    return sorted({name for graph in subgraphs(node) for name in free_names(graph)})


def _content(tensor: onnx.TensorProto) -> bytes:
    copy = onnx.TensorProto.FromString(tensor.SerializeToString())
    for field in ("name", "doc_string"):
        copy.ClearField(field)
    return copy.SerializeToString(deterministic=True)
