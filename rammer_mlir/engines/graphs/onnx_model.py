"""Graphs in JSON as models of ONNX, for engines that read these."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import onnx
from onnx import helper, numpy_helper

from rammer_mlir.engines.graphs.entry import Numbers, constant_array, dtype_of
from rammer_mlir.programs.json_graph import OPSET, Graph, GraphNode, GraphTensor

_IR_VERSION = 10


def onnx_model(graph: Graph, weights: Mapping[str, Numbers]) -> onnx.ModelProto:
    """Return a graph as a model.

    Args:
        graph: of operators.
        weights: inputs that become initializers, by name.
    """
    nodes = [_node(node) for node in graph.nodes]
    given = [_info(tensor) for tensor in graph.inputs if tensor.name not in weights]
    numbers = {constant.name: constant_array(constant) for constant in graph.constants}
    arrays = {**numbers, **weights}
    initializers = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    made = helper.make_graph(
        nodes, graph.name, given, list(map(_info, graph.outputs)), initializers
    )
    opsets = [helper.make_opsetid("", OPSET)]
    return helper.make_model(made, opset_imports=opsets, ir_version=_IR_VERSION)


def _node(node: GraphNode) -> onnx.NodeProto:
    attributes: Mapping[str, Any] = node.attributes
    return helper.make_node(node.op, node.inputs, node.outputs, **attributes)


def _info(tensor: GraphTensor) -> onnx.ValueInfoProto:
    kind = helper.np_dtype_to_tensor_dtype(dtype_of(tensor))
    return helper.make_tensor_value_info(tensor.name, kind, tensor.shape)
