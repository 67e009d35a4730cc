"""Imports nodes by torch-mlir if their operator has no builder (function that emits linalg).

Of several equal nodes, only the first is imported; the others get clones of its IR.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import onnx
from onnx import helper

from rammer_mlir.bindings import ir
from rammer_mlir.errors import UnsupportedError
from rammer_mlir.frontends.onnx.importer_child import import_in_child
from rammer_mlir.frontends.onnx.model import Model
from rammer_mlir.frontends.onnx.tensors import label, value_infos
from rammer_mlir.passes.ir.cloning import ValueMap, clone_into


@dataclass(frozen=True)
class Leftover:
    """A node without a builder, as a model that consists of this node.

    Attributes:
        node: the node.
        model: the serialized model, in which values are named ``in0``, ``out0`` and so on. Nodes
            that differ only in names thus have equal models.
        operands: names of the node's operands, in the order of the model's inputs.
        results: names of the node's results, in the order of the model's outputs.
    """

    node: onnx.NodeProto
    model: bytes
    operands: tuple[str, ...]
    results: tuple[str, ...]


class Importer:
    """Imports nodes without a builder by torch-mlir; equal nodes are imported only once."""

    def __init__(self, model: Model) -> None:
        """Store ``model``, which has the nodes to import; the model's shapes must be inferred."""
        self._opsets = list(model.proto.opset_import)
        self._values = value_infos(model.graph)
        self._initializers = {tensor.name: tensor for tensor in model.graph.initializer}
        self._modules: dict[bytes, ir.Module | UnsupportedError] = {}

    def emit(self, node: onnx.NodeProto, values: Mapping[str, ir.Value]) -> dict[str, ir.Value]:
        """Emit the IR of a node at the current insertion point and return its results by name.

        ``values`` are the emitted values of the graph, by name.

        Raises:
            UnsupportedError: if torch-mlir cannot import the node.
        """
        leftover = self._isolate(node)
        if leftover.model not in self._modules:
            self._modules[leftover.model] = self._import(leftover)
        module = self._modules[leftover.model]
        if isinstance(module, UnsupportedError):
            raise UnsupportedError(label(node)) from module
        results = _clone(module, [values[name] for name in leftover.operands])
        return dict(zip(leftover.results, results, strict=True))

    @staticmethod
    def _import(leftover: Leftover) -> ir.Module | UnsupportedError:
        try:
            return ir.Module.parse(import_in_child(leftover.model))
        except UnsupportedError as error:
            return error

    def _isolate(self, node: onnx.NodeProto) -> Leftover:
        names = [name for name in dict.fromkeys(node.input) if name]
        renamed = {name: f"in{number}" for number, name in enumerate(names)}
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        copy.ClearField("name")
        copy.input[:] = [renamed.get(name, "") for name in node.input]
        copy.output[:] = [f"out{number}" if name else "" for number, name in enumerate(node.output)]
        graph = helper.make_graph([copy], "node", [], [])
        operands: list[str] = []
        for name in names:
            if name in self._initializers:
                tensor = graph.initializer.add()
                tensor.CopyFrom(self._initializers[name])
                tensor.name = renamed[name]
            elif name in self._values:
                self._declare(graph.input.add(), name, renamed[name])
                operands.append(name)
        results = [name for name in node.output if name in self._values]
        for name in results:
            self._declare(graph.output.add(), name, f"out{list(node.output).index(name)}")
        model = helper.make_model(graph, opset_imports=self._opsets)
        content = model.SerializeToString(deterministic=True)
        return Leftover(node, content, tuple(operands), tuple(results))

    def _declare(self, target: onnx.ValueInfoProto, name: str, renamed: str) -> None:
        target.CopyFrom(self._values[name])
        target.name = renamed


def _clone(module: ir.Module, operands: Sequence[ir.Value]) -> list[ir.Value]:
    """Clone the body of a module's only function to the current insertion point.

    ``operands`` replace the function's arguments. Returns the values that correspond to the
    function's results.
    """
    (function,) = [op for op in module.body.operations if op.operation.name == "func.func"]
    (block,) = function.operation.regions[0].blocks
    mapping: ValueMap = dict(zip(block.arguments, operands, strict=True))
    ip, location = ir.InsertionPoint.current, ir.Location.current
    assert location is not None, "emitting needs a location"
    *body, end = block.operations
    for op in body:
        clone_into(op, mapping, ip).location = location
    return [mapping[value] for value in end.operation.operands]
