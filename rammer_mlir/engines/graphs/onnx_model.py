"""Graphs in JSON as models of ONNX, for engines that read these."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from rammer_mlir.engines.graphs.entry import Floats
from rammer_mlir.programs.json_graph import OPSET, Graph, GraphNode, GraphTensor

_IR_VERSION = 10


def onnx_model(graph: Graph, weights: Mapping[str, Floats]) -> onnx.ModelProto:
    """Return a graph as a model.

    Args:
        graph: of operators.
        weights: inputs that become initializers, by name.
    """
    nodes = [_node(node) for node in graph.nodes]
    given = [_info(tensor) for tensor in graph.inputs if tensor.name not in weights]
    numbers = {
        c.name: np.array(c.values, np.int64 if c.is_integer else np.float32).reshape(c.shape)
        for c in graph.constants
    }
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
    return helper.make_tensor_value_info(tensor.name, TensorProto.FLOAT, tensor.shape)
