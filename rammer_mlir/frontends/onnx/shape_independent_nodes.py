"""Finds nodes that constant folding cannot remove, whatever sizes the open dimensions have.

Errors at these nodes can be reported before the sizes are known.
"""

from __future__ import annotations

import onnx

from rammer_mlir.frontends.onnx.model import Model, used_names
from rammer_mlir.frontends.onnx.tensors import ONNX_DOMAINS

_OF_SHAPES = ("Shape", "Size")
"""Operators whose result is constant if the shape of the operand is constant."""


def lasting_nodes(model: Model) -> list[onnx.NodeProto]:
    """Return, in the model's order, the nodes that remain for all sizes of the open dimensions.

    For all sizes, an output depends on such a node, and constant folding cannot evaluate it, since
    its results depend on elements of inputs, on random numbers, or on operators of other domains.
    Nodes in subgraphs are not returned.
    """
    varying = _varying_names(model)
    needed = {value.name for value in model.graph.output}
    found: list[onnx.NodeProto] = []
    for node in reversed(model.graph.node):
        if needed.isdisjoint(node.output):
            continue
        needed |= _needed_by(node, varying)
        if not varying.isdisjoint(node.output):
            found.append(node)
    return found[::-1]


def _varying_names(model: Model) -> set[str]:
    """Return the names of values that do not depend on the sizes of inputs alone.

    They depend on elements of inputs, on random numbers, or on operators of foreign domains.
    """
    varying = {value.name for value in model.inputs}
    for node in model.graph.node:
        if node.domain in ONNX_DOMAINS and node.op_type in _OF_SHAPES:
            continue
        is_random = node.op_type.startswith("Random") or node.domain not in ONNX_DOMAINS
        if is_random or not varying.isdisjoint(_operands(node)):
            varying.update(filter(None, node.output))
    return varying


def _operands(node: onnx.NodeProto) -> set[str]:
    """Return the names of all values that a node or its subgraphs reference."""
    names = set(node.input) - {""}
    for attribute in node.attribute:
        for subgraph in (attribute.g, *attribute.graphs):
            names |= used_names(subgraph)
    return names


def _needed_by(node: onnx.NodeProto, varying: set[str]) -> set[str]:
    """Return the names of values that a node reads for all sizes of the open dimensions.

    If the node's operands depend on sizes alone, the sizes decide which subgraph is executed, and
    the values that only subgraphs read are omitted. ``varying`` has the names of values that do not
    depend on sizes alone.
    """
    is_decided = any(attribute.HasField("g") for attribute in node.attribute) and (
        varying.isdisjoint(node.input)
    )
    return set(node.input) - {""} if is_decided else _operands(node)
