"""Names the nodes that a model leaves unnamed."""

from __future__ import annotations

import onnx


def name_nodes(graph: onnx.GraphProto) -> None:
    """Name the unnamed nodes of a graph and of its subgraphs, for messages and timelines.

    A new name consists of the node's operator and the name of its first result.
    """
    for node in graph.node:
        node.name = name_of(node)
        for attribute in node.attribute:
            for subgraph in (attribute.g, *attribute.graphs):
                name_nodes(subgraph)


def name_of(node: onnx.NodeProto) -> str:
    """Return a node's name; for an unnamed node, the operator and the name of the first result."""
    return node.name or f"{node.op_type}:{next(filter(None, node.output), '')}"
