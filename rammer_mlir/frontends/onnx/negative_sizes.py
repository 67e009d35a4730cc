"""Refusal of negative sizes before shape inference, which ends the process at a Slice of one.

ONNX's inference computes the size of an Expand to -2, of a Pad that removes more than there is, or
of a convolution with a window beyond its image, and clamps the bounds of a later Slice to it, which
is undefined in C++ and aborts.
"""

from __future__ import annotations

import onnx

from rammer_mlir.errors import ModelError
from rammer_mlir.frontends.onnx.model import set_graph_nodes
from rammer_mlir.frontends.onnx.shape_placeholders import stand_ins
from rammer_mlir.frontends.onnx.tensors import label, value_infos
from rammer_mlir.frontends.onnx.traversal import nodes_within

_SOURCES = frozenset(
    """AveragePool CenterCropPad Col2Im Conv ConvInteger ConvTranspose DeformConv Expand LpPool
    MaxPool MaxUnpool Pad QLinearConv Resize Upsample""".split()
)
"""Operators whose results may have negative sizes by inference."""


def refuse_negative_sizes(model: onnx.ModelProto) -> None:
    """Refuse a model in which inference finds a negative size before any Slice.

    Raises:
        ModelError: with the node of the first such result.
    """
    operators = {node.op_type for node in model.graph.node}
    if operators.isdisjoint(_SOURCES) or not _slices(model.graph):
        return
    probe = onnx.ModelProto()
    probe.CopyFrom(model)
    kept = [node for node in probe.graph.node if not _is_slice(node)]
    set_graph_nodes(probe.graph, kept)
    del probe.graph.value_info[:]
    try:
        with stand_ins(probe):  # without Slices, operators read values of unknown type
            inferred = onnx.shape_inference.infer_shapes(probe)
    except (onnx.shape_inference.InferenceError, RuntimeError, ValueError):
        return  # inference of the whole graph reports the error
    types = value_infos(inferred.graph)
    for node in kept:
        for name in filter(types.__contains__, node.output):
            sizes = [dim.dim_value for dim in types[name].type.tensor_type.shape.dim]
            if min(sizes, default=0) < 0:
                raise ModelError(
                    f"{label(node)}: expected sizes of at least 0, found {sizes} for '{name}'; "
                    "correct the node's window, padding or shape"
                )


def _slices(graph: onnx.GraphProto) -> bool:
    return any(node.op_type == "Slice" for node in nodes_within(graph.node))


def _is_slice(node: onnx.NodeProto) -> bool:
    """Whether a node is a Slice, or has a subgraph, which may contain one."""
    return node.op_type == "Slice" or any(
        attribute.HasField("g") or len(attribute.graphs) for attribute in node.attribute
    )
