"""Nodes that shape inference knows nothing of, as nodes that it does."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx

from rammer_mlir.frontends.onnx.model import Model
from rammer_mlir.frontends.onnx.node_writer import NodeWriter
from rammer_mlir.frontends.onnx.tensors import ONNX_DOMAINS, Array


def rewrite_nodes(model: Model) -> None:
    """Rewrite nodes in place; constants must have been folded."""
    kinds = {node.op_type for node in model.graph.node if node.domain in ONNX_DOMAINS}
    if "Compress" not in kinds:
        return
    values = model.constants()
    nodes: list[onnx.NodeProto] = []
    for node in model.graph.node:
        nodes.extend(_rewrite(node, model, values))
    model.set_nodes(nodes)


def _rewrite(
    node: onnx.NodeProto, model: Model, values: dict[str, Array]
) -> Iterator[onnx.NodeProto]:
    if node.op_type != "Compress" or node.input[1] not in values:
        yield node
        return
    # Which elements are kept is known, so they can be named by their indices.
    write = NodeWriter(model, node.name)
    chosen = write.constant(np.flatnonzero(values[node.input[1]]))
    axis = next((a.i for a in node.attribute if a.name == "axis"), None)
    source = node.input[0]
    if axis is None:
        source = write.node("Reshape", [source, write.integers(-1)])
    write.named("Gather", [source, chosen], list(node.output), axis=axis or 0)
    yield from write.nodes
