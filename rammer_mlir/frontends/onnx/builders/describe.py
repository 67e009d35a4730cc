"""Converts ONNX nodes to ``Node``, the argument of builders."""

from __future__ import annotations

import onnx
from onnx import helper, numpy_helper

from rammer_mlir.frontends.onnx.builders.node import Node, TensorFact
from rammer_mlir.frontends.onnx.tensors import ONNX_DOMAINS, dtype_of, static_shape

Facts = dict[str, TensorFact]
"""Facts about a graph's tensors, by name."""


def graph_facts(graph: onnx.GraphProto) -> Facts:
    """Return shape, element type and any constant value of each tensor, by name.

    Tensors of strings or without a static shape are left out.
    """
    facts: Facts = {}
    for value in (*graph.value_info, *graph.output, *graph.input):
        shape = static_shape(value)
        kind = value.type.tensor_type.elem_type
        if shape is not None and kind not in (0, onnx.TensorProto.STRING):
            facts[value.name] = TensorFact(tuple(shape), dtype_of(kind))
    for tensor in graph.initializer:
        if tensor.data_type != onnx.TensorProto.STRING:
            array = numpy_helper.to_array(tensor)
            facts[tensor.name] = TensorFact(array.shape, array.dtype, array)
    return facts


def describe(node: onnx.NodeProto, version: int, facts: Facts) -> Node | None:
    """Return a node as the argument of a builder, with the facts about its inputs and results.

    ``version`` is the model's opset, and ``facts`` are the facts about the graph's tensors, by
    name. Returns None if the operator is not of the ONNX domain, or if ``facts`` lacks an input or
    the first result.
    """
    names = [*filter(None, node.input), *node.output[:1]]
    if node.domain not in ONNX_DOMAINS or any(name not in facts for name in names):
        return None
    attributes = {
        attribute.name: _text(helper.get_attribute_value(attribute)) for attribute in node.attribute
    }
    return Node(
        node.name,
        node.op_type,
        version,
        attributes,
        [facts.get(name) for name in node.input],
        [facts.get(name) for name in node.output],
    )


def _text(value: object) -> object:
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, list):
        return [_text(item) for item in value]
    return value
