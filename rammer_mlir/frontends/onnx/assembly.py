"""Converts a prepared model to IR: the builder of each node emits linalg operations.

All nodes are emitted into a single function, in time linear in the number of nodes. The few nodes
without a builder are imported by torch-mlir. A single error reports all nodes that cannot be
compiled.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from functools import partial

import onnx

from rammer_mlir.bindings import func, ir, passmanager
from rammer_mlir.errors import UnsupportedError
from rammer_mlir.frontends.onnx.builders.describe import describe, graph_facts
from rammer_mlir.frontends.onnx.builders.node import Builder, Node
from rammer_mlir.frontends.onnx.builders.table import find_builder
from rammer_mlir.frontends.onnx.builders.values import (
    Tensor,
    constant,
    empty,
    tensor_type,
)
from rammer_mlir.frontends.onnx.model import Model
from rammer_mlir.frontends.onnx.refusal_text import first_few
from rammer_mlir.frontends.onnx.tensors import label, opset
from rammer_mlir.frontends.onnx.torch_mlir_fallback import Importer
from rammer_mlir.passes.ir.element_types import dtype_of
from rammer_mlir.passes.ir.scalar import ElementTypeError
from rammer_mlir.support.log import log_progress

_BUILD_FAULTS = (
    ArithmeticError, AssertionError, LookupError, MemoryError, RuntimeError, TypeError, ValueError,
    ir.MLIRError,
)  # fmt: skip
"""Exceptions that a builder may raise for a node with contradictory inputs and attributes."""

_REPORTED = 256
"""Number of nodes between two messages about progress."""

_CLEAN_UP = "builtin.module(canonicalize,cse)"


def assemble(model: Model) -> bytes:
    """Convert a model that ``prepare`` returned to IR at the `linalg` stage, as MLIR bytecode.

    Raises:
        UnsupportedError: with all nodes that cannot be compiled.
    """
    with ir.Context() as context, ir.Location.unknown():
        context.enable_multithreading(False)
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            _Assembly(model).run()
        _clean_up(module)
        buffer = io.BytesIO()
        module.operation.write_bytecode(buffer)
        return buffer.getvalue()


def _clean_up(module: ir.Module) -> None:
    try:
        passmanager.PassManager.parse(_CLEAN_UP).run(module.operation)
    except ir.MLIRError as error:
        first = error.error_diagnostics[0]
        place = first.location
        where = f"'{place.name_str}'" if isinstance(place, ir.NameLoc) else place
        raise UnsupportedError(
            f"{where}: expected inputs and attributes that fit each other, found others "
            f"({str(first.message).splitlines()[0]})"
        ) from error


class _Assembly:
    def __init__(self, model: Model) -> None:
        self._model = model
        self._opset = opset(model.proto)
        self._facts = graph_facts(model.graph)
        self._importer = Importer(model)
        self._values: dict[str, Tensor] = {}

    def run(self) -> None:
        graph = self._model.graph
        inputs = [self._type(value.name) for value in graph.input]
        outputs = [self._type(value.name) for value in graph.output]
        main = func.FuncOp("main", ir.FunctionType.get(inputs, outputs))
        block = main.add_entry_block([ir.Location.name(value.name) for value in graph.input])
        for value, argument in zip(graph.input, block.arguments, strict=True):
            self._values[value.name] = Tensor(argument, self._facts[value.name].dtype)
        self._name_interface(main)
        with ir.InsertionPoint(block):
            self._emit_nodes(graph.node)
            func.ReturnOp([self._value(value.name).value for value in graph.output])

    def _type(self, name: str) -> ir.Type:
        fact = self._facts[name]
        return tensor_type(fact.shape, fact.dtype)

    def _name_interface(self, main: ir.OpView) -> None:
        """Set the attributes of the arguments and results of ``main``, the emitted function.

        The attributes name the model's inputs, weights and outputs, and mark the weights.
        """
        weights = self._model.weights
        arguments = [
            _named("rtask.constant", value.name)
            if value.name in weights
            else self._interface(value.name)
            for value in self._model.graph.input
        ]
        results = [self._interface(value.name) for value in self._model.graph.output]
        main.operation.attributes["arg_attrs"] = ir.ArrayAttr.get(arguments)
        main.operation.attributes["res_attrs"] = ir.ArrayAttr.get(results)

    def _interface(self, name: str) -> ir.Attribute:
        """Return the MLIR attributes of the model's input or output ``name``, as a dictionary.

        ``rtask.name`` is the name. ``rtask.dtype`` is the dtype, left out if the MLIR element type
        determines it.
        """
        fact = self._facts[name]
        implied = dtype_of(ir.RankedTensorType(self._type(name)).element_type)
        if implied == fact.dtype:
            return _named("rtask.name", name)
        texts = {"rtask.name": name, "rtask.dtype": fact.dtype.name}
        return ir.DictAttr.get({key: ir.StringAttr.get(text) for key, text in texts.items()})

    def _value(self, name: str) -> Tensor:
        if name not in self._values:
            fact = self._facts[name]
            assert fact.value is not None, f"'{name}' is used before it is computed"
            return constant(fact.value)
        return self._values[name]

    def _emit_nodes(self, nodes: Sequence[onnx.NodeProto]) -> None:
        refused: dict[str, list[str]] = {}
        for number, proto in enumerate(nodes):
            if number % _REPORTED == 0:
                log_progress("linalg", partial(_counted, number, len(nodes)))
            with ir.Location.name(proto.name):
                try:
                    self._emit(proto)
                except UnsupportedError as error:
                    refused.setdefault(str(error.__cause__ or ""), []).append(str(error))
                    self._stand_in(proto)
        if refused:
            raise UnsupportedError(f"not supported: {'; '.join(map(_explained, refused.items()))}")

    def _emit(self, proto: onnx.NodeProto) -> None:
        node = describe(proto, self._opset, self._facts)
        builder = None if node is None else find_builder(node)
        if node is not None and builder is not None:
            built = self._build(proto, node, builder)
        else:
            values = {name: self._value(name).value for name in proto.input if name in self._facts}
            built = self._importer.emit(proto, values)
        for name, value in built.items():
            if value.type != self._type(name):
                raise UnsupportedError(
                    f"{label(proto)} gives {value.type} for '{name}', expected {self._type(name)}"
                )
            self._values[name] = Tensor(value, self._facts[name].dtype)

    def _build(self, proto: onnx.NodeProto, node: Node, builder: Builder) -> dict[str, ir.Value]:
        for number, fact in enumerate(node.inputs):
            if fact is not None and fact.value is None:
                node.operands[number] = self._values[proto.input[number]].value
        if all(fact is None or 0 in fact.shape for fact in node.outputs):
            return self._empty_results(proto)  # results without elements need no code
        try:
            built = builder(node)
        except ElementTypeError as error:
            raise UnsupportedError(f"{label(proto)}: {error}") from None
        except _BUILD_FAULTS as error:
            raise UnsupportedError(
                f"{label(proto)}: expected inputs and attributes that fit each other, found others"
            ) from error
        tensors: Sequence[Tensor | None] = [built] if isinstance(built, Tensor) else built
        return {
            name: tensor.value
            for name, tensor in zip(proto.output, tensors, strict=False)
            if tensor is not None and name in self._facts
        }

    def _empty_results(self, proto: onnx.NodeProto) -> dict[str, ir.Value]:
        """Emit an uninitialized tensor for each result of a node; return them by result name.

        The tensors serve as the results of a node whose results have no elements, or of a node that
        cannot be compiled.
        """
        facts = {name: self._facts[name] for name in proto.output if name in self._facts}
        return {name: empty(fact.shape, fact.dtype).value for name, fact in facts.items()}

    def _stand_in(self, proto: onnx.NodeProto) -> None:
        """Define the results of a node that cannot be compiled as uninitialized tensors.

        The nodes that read these results can then be checked too.
        """
        for name, value in self._empty_results(proto).items():
            self._values[name] = Tensor(value, self._facts[name].dtype)


def _counted(number: int, count: int) -> str:
    return f"node {number} of {count}"


def _named(key: str, name: str) -> ir.Attribute:
    return ir.DictAttr.get({key: ir.StringAttr.get(name)})


def _explained(entry: tuple[str, list[str]]) -> str:
    reason, nodes = entry
    count = f"{len(nodes)} nodes, " if len(nodes) > 1 else ""
    return f"{count}{first_few(nodes)}{f' ({reason})' if reason else ''}"
