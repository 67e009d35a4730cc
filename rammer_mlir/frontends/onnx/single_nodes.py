"""Models of one node each: to find out which nodes of a model cannot be imported."""

from __future__ import annotations

from collections.abc import Iterator

import onnx
from onnx import helper

from rammer_mlir.frontends.onnx.tensors import value_infos


def single_node_models(model: onnx.ModelProto) -> Iterator[tuple[list[str], onnx.ModelProto]]:
    """Yield one model for each distinct kind of node, with the names of the nodes of that kind.

    Nodes are of one kind when they differ only in names and in where their inputs come from.
    """
    values = value_infos(model.graph)
    initializers = {tensor.name: tensor for tensor in model.graph.initializer}
    kinds: dict[bytes, tuple[list[str], onnx.ModelProto]] = {}
    for node in model.graph.node:
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        copy.ClearField("name")
        graph = helper.make_graph([copy], "single", [], [])
        rename: dict[str, str] = {}
        for position, name in enumerate(node.input):
            if not name:
                continue
            copy.input[position] = rename.setdefault(name, f"in{len(rename)}")
            if name in initializers and name not in values:
                tensor = graph.initializer.add()
                tensor.CopyFrom(initializers[name])
                tensor.name = rename[name]
            elif name in values:
                value = graph.input.add()
                value.CopyFrom(values[name])
                value.name = rename[name]
        for position, name in enumerate(node.output):
            if name in values:
                value = graph.output.add()
                value.CopyFrom(values[name])
                copy.output[position] = value.name = f"out{position}"
        single = helper.make_model(graph, opset_imports=model.opset_import)
        key = single.SerializeToString(deterministic=True)
        label = f"'{node.name or node.output[0]}' ({node.op_type})"
        kinds.setdefault(key, ([], single))[0].append(label)
    yield from kinds.values()
