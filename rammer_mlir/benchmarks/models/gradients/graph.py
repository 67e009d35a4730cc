"""Read the nodes of a model's graph, and add nodes to it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

from rammer_mlir.benchmarks.models.builder import GraphBuilder, Value
from rammer_mlir.errors import ModelError

OLDEST_OPSET = 18
"""Oldest supported opset: since this opset, all reductions take their axes as an input."""

Array = npt.NDArray[np.generic]


@dataclass(frozen=True)
class Node:
    """A node of a model.

    ``inputs`` has None for each omitted input. ``attributes`` maps names to Python values:
    integers, floats, bytes, lists of these, or tensors.
    """

    name: str
    op_type: str
    inputs: tuple[Value | None, ...]
    outputs: tuple[Value, ...]
    attributes: dict[str, object]

    def operand(self, number: int) -> Value:
        """Return the input with the index ``number``, which the operator requires.

        Raises:
            ModelError: if the node omits the input.
        """
        value = self.inputs[number] if number < len(self.inputs) else None
        if value is None:
            raise ModelError(f"node '{self.name}' ({self.op_type}): input {number} is missing")
        return value

    def integer(self, name: str, default: int) -> int:
        """Return attribute ``name`` as an integer, or ``default`` if the node omits it."""
        value = self.attributes.get(name, default)
        assert isinstance(value, int)
        return value

    def number(self, name: str, default: float) -> float:
        """Return attribute ``name`` as a float, or ``default`` if the node omits it."""
        value = self.attributes.get(name, default)
        assert isinstance(value, int | float)
        return float(value)

    def integers(self, name: str, default: Sequence[int]) -> list[int]:
        """Return attribute ``name`` as a list of integers, or ``default`` if the node omits it."""
        value = self.attributes.get(name, default)
        assert isinstance(value, Sequence)
        return [int(each) for each in value]

    def text(self, name: str, default: str) -> str:
        """Return attribute ``name`` as a string, or ``default`` if the node omits it."""
        value = self.attributes.get(name, default)
        return value.decode() if isinstance(value, bytes) else str(value)

    def refuse(self, expected: str, found: object) -> ModelError:
        """Return an error that says that a gradient rule does not support this node.

        The message says that the rule needs ``expected`` but has found ``found``.
        """
        return ModelError(
            f"node '{self.name}' ({self.op_type}): gradients need {expected}, found {found}; "
            "write the model with other operators"
        )


class ExtendedGraph(GraphBuilder):
    """A graph builder that copies a model's graph of static shapes, and then appends nodes."""

    def __init__(self, model: onnx.ModelProto, inputs: Collection[str] = ()) -> None:
        """Copy a model's graph.

        ``inputs`` are names of initializers that become inputs of the graph.

        Raises:
            ModelError: if the opset is older than ``OLDEST_OPSET``, or a shape is not static.
        """
        opset = next((o.version for o in model.opset_import if not o.domain), 0)
        if opset < OLDEST_OPSET:
            raise ModelError(
                f"operator set: gradients need version {OLDEST_OPSET} or newer, found {opset}; "
                "convert the model with onnx.version_converter"
            )
        super().__init__(model.graph.name, opset=opset)
        graph = model.graph
        self._initializers = {t.name: t for t in graph.initializer if t.name not in inputs}
        self._inputs = [*graph.input, *(_info(t) for t in graph.initializer if t.name in inputs)]
        self._nodes = list(graph.node)
        self._given = {info.name: info for info in graph.output}
        self._values = self._infer_all(graph.name, model.opset_import)
        self._small: dict[tuple[bytes, str, tuple[int, ...]], Value] = {}
        self.nodes = tuple(self._read(node) for node in self._nodes)

    def _infer_all(self, name: str, opsets: Sequence[onnx.OperatorSetIdProto]) -> dict[str, Value]:
        # Weights are declared by type only: shape inference would copy their contents.
        large = {n for n, t in self._initializers.items() if len(t.raw_data) > 1 << 12}
        inputs = [*self._inputs, *(_info(self._initializers[n]) for n in large)]
        small = [t for n, t in self._initializers.items() if n not in large]
        graph = helper.make_graph(self._nodes, name, inputs, list(self._given.values()), small)
        model = helper.make_model(graph, opset_imports=list(opsets))
        found = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True).graph
        infos = [*found.input, *found.value_info, *found.output, *map(_info, small)]
        values = {info.name: Value(info.name, info.type) for info in infos}
        for node in self._nodes:
            for output in node.output:
                if output not in values or not _is_static(values[output].type):
                    raise ModelError(
                        f"value '{output}': gradients need a static shape, found none; bind open "
                        "dimensions"
                    )
        return values

    def _read(self, proto: onnx.NodeProto) -> Node:
        attributes = {a.name: helper.get_attribute_value(a) for a in proto.attribute}
        return Node(
            proto.name or proto.output[0],
            proto.op_type,
            tuple(self._values[name] if name else None for name in proto.input),
            tuple(self._values[name] for name in proto.output),
            attributes,
        )

    def value(self, name: str) -> Value:
        """Return the value named ``name`` of the original model.

        Raises:
            ModelError: if the model has no such value.
        """
        if name not in self._values:
            raise ModelError(f"value '{name}': expected a value of the model, found none")
        return self._values[name]

    def contents(self, value: Value) -> list[int] | None:
        """Return the elements of ``value``, an integer initializer, as a flat list.

        The result is None if ``value`` is computed by a node or is an input of the graph.
        """
        tensor = self._initializers.get(value.name)
        if tensor is None:
            return None
        return [int(each) for each in numpy_helper.to_array(tensor).reshape(-1)]

    def _unique(self, stem: str) -> str:
        name = super()._unique(stem)
        while name in self._values:
            name = super()._unique(stem)
        return name

    def constant(self, array: Array, stem: str = "constant") -> Value:
        """Add an initializer with the contents of ``array``, and return its value.

        The name of the initializer starts with ``stem``. An array of at most 256 bytes is added
        only once: a later call with an equal array returns the same value.
        """
        key = array.tobytes() if array.nbytes <= 256 else b"", array.dtype.str, array.shape
        if array.nbytes <= 256 and key in self._small:
            return self._small[key]
        found = super().constant(array, stem)
        if array.nbytes <= 256:
            self._small[key] = found
        return found

    def scalar(self, value: float, like: Value) -> Value:
        """Return a constant of rank 0, with the element type of ``like``."""
        return self.constant(np.array(value, self.dtype(like)), "scalar")

    def dtype(self, value: Value) -> np.dtype[np.generic]:
        """Return the element type of ``value`` as NumPy's dtype."""
        return helper.tensor_dtype_to_np_dtype(value.elem_type)

    def zeros(self, shape: Sequence[int], like: Value) -> Value:
        """Add and return a tensor of zeros, with the element type of ``like``.

        The tensor is the result of a ConstantOfShape node, so the model stores no elements of it.
        """
        value = numpy_helper.from_array(np.zeros(1, self.dtype(like)))
        return self.op("ConstantOfShape", self.integers(*shape), value=value)

    def reduced(self, op_type: str, x: Value, axes: Sequence[int], keepdims: int = 1) -> Value:
        """Add a node ``op_type`` that reduces ``x`` over ``axes``; return the node's result.

        If ``axes`` is empty, add nothing and return ``x``. ``keepdims`` is ONNX's attribute: with
        1, the reduced axes stay and have size 1.
        """
        return self.op(op_type, x, self.integers(*axes), keepdims=keepdims) if axes else x

    def second_output(self, node: Node) -> Value:
        """Return the second output of ``node``, an optional int64 output such as MaxPool's indices.

        If the node omits this output, add it to the node.
        """
        first, *rest = node.outputs
        if rest:
            return rest[0]
        proto = next(p for p in self._nodes if p.output[0] == first.name)
        if len(proto.output) == 1:
            proto.output.append(self._unique("indices"))
        shape = list(first.shape)
        kind = helper.make_tensor_type_proto(onnx.TensorProto.INT64, shape)
        return Value(proto.output[1], kind)

    def finish_with(self, kept: Sequence[str]) -> onnx.ModelProto:
        """Return the extended model.

        The outputs are the original model's outputs whose names are in ``kept``, then the outputs
        that were added to this graph. Nodes and initializers on which no output depends are
        removed. Inputs stay.
        """
        self._outputs = [*(self._given[name] for name in kept), *self._outputs]
        model = self.finish()
        needed = {info.name for info in model.graph.output}
        nodes: list[onnx.NodeProto] = []
        for node in reversed(model.graph.node):
            if needed.intersection(node.output):
                nodes.append(node)
                needed.update(node.input)
        initializers = [t for t in model.graph.initializer if t.name in needed]
        del model.graph.node[:], model.graph.initializer[:]
        model.graph.node.extend(reversed(nodes))
        model.graph.initializer.extend(initializers)
        return model


def _info(tensor: onnx.TensorProto) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))


def _is_static(kind: onnx.TypeProto) -> bool:
    shape = kind.tensor_type
    return shape.HasField("shape") and all(dim.HasField("dim_value") for dim in shape.shape.dim)
