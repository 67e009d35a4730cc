"""Refuses models with negative sizes that would make ONNX's shape inference abort the process.

Shape inference computes a negative size for an Expand to -2, for a Pad that removes more elements
than the dimension has, for a convolution with a window larger than the padded image, or for the
last part of a Split into too many parts. If a Slice then reads the result, inference clamps the
Slice's bounds to the negative size, which is undefined behavior in C++ and aborts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import onnx
from onnx import helper

from rammer_mlir.errors import ModelError
from rammer_mlir.frontends.onnx.shape_placeholders import stand_ins
from rammer_mlir.frontends.onnx.tensors import label, num_elements, value_infos
from rammer_mlir.frontends.onnx.traversal import nodes_within

_SOURCES = frozenset(
    """AveragePool CenterCropPad Col2Im Conv ConvInteger ConvTranspose DeformConv Expand LpPool
    MaxPool MaxUnpool Pad QLinearConv Resize Split Upsample""".split()
)
"""Operators for whose results ONNX's inference may compute negative sizes."""

_MOST_ELEMENTS = 64
"""Maximum elements of a constant whose value may determine a shape."""


def refuse_negative_sizes(model: onnx.ModelProto) -> None:
    """Raise an error if a value that a Slice depends on has a negative size.

    The nodes are divided into groups, so that a Slice is in a later group than the nodes that it
    depends on. Shapes are inferred and checked group by group: shape inference thus never reaches
    a Slice with a negative size.

    Raises:
        ModelError: with the node of the first negative size.
    """
    operators = {node.op_type for node in model.graph.node}
    if operators.isdisjoint(_SOURCES) or not any(map(_is_slice, model.graph.node)):
        return
    types = {value.name: value for value in model.graph.input}
    for tensor in model.graph.initializer:
        kind, dims = tensor.data_type, list(tensor.dims)
        types[tensor.name] = helper.make_tensor_value_info(tensor.name, kind, dims)
    constants = _Constants(model.graph)
    for nodes in _stages(model.graph.node):
        probe = _probe(model, nodes, types, constants)
        try:
            with stand_ins(probe):  # operators that crash on values of unknown type
                inferred = onnx.shape_inference.infer_shapes(probe)
        except (onnx.shape_inference.InferenceError, RuntimeError, ValueError):
            return  # inference of the whole graph reports the error
        types |= value_infos(inferred.graph)
        for node in nodes:
            _check(node, types)


def _check(node: onnx.NodeProto, types: dict[str, onnx.ValueInfoProto]) -> None:
    for name in filter(types.__contains__, node.output):
        sizes = [dim.dim_value for dim in types[name].type.tensor_type.shape.dim]
        if min(sizes, default=0) < 0:
            raise ModelError(
                f"{label(node)}: expected sizes of at least 0, found {sizes} for '{name}'; "
                "correct the node's window, padding, parts or shape"
            )


def _stages(nodes: Sequence[onnx.NodeProto]) -> Iterator[list[onnx.NodeProto]]:
    """Yield groups of nodes such that a Slice is in a later group than the nodes it depends on.

    The index of a node's group is the maximum number of Slices on a path from the graph's inputs to
    the node, including the node. Groups that precede no Slice are not yielded. Groups after the
    last operator of ``_SOURCES`` are not yielded either: only these operators cause negative sizes.
    """
    depths: dict[str, int] = {}
    stages: dict[int, list[onnx.NodeProto]] = {}
    last_source = last_slice = -1
    for node in nodes:
        depth = max((depths.get(name, 0) for name in node.input), default=0)
        if _is_slice(node):
            last_slice = max(last_slice, depth)
            depth += 1
        elif node.op_type in _SOURCES:
            last_source = max(last_source, depth)
        depths.update(dict.fromkeys(node.output, depth))
        stages.setdefault(depth, []).append(node)
    for depth in range(min(last_source, last_slice) + 1):
        yield stages.get(depth, [])


class _Constants:
    """Constants of a graph, by name: initializers of few elements, and all Constant nodes."""

    def __init__(self, graph: onnx.GraphProto) -> None:
        self.tensors = {
            tensor.name: tensor
            for tensor in graph.initializer
            if num_elements(tensor) <= _MOST_ELEMENTS
        }
        self.nodes = {node.output[0]: node for node in graph.node if node.op_type == "Constant"}


def _probe(
    model: onnx.ModelProto,
    nodes: Sequence[onnx.NodeProto],
    types: dict[str, onnx.ValueInfoProto],
    constants: _Constants,
) -> onnx.ModelProto:
    """Return a model that consists of ``nodes``, for shape inference of these nodes alone.

    Operands that other nodes compute become inputs of the model; ``types`` has their types by name.
    """
    own = {name for node in nodes for name in node.output}
    read = dict.fromkeys(
        name
        for node in nodes_within(nodes)
        for name in node.input
        if name and name not in own
    )  # fmt: skip
    inputs = [types[name] for name in read if name in types and name not in constants.tensors]
    graph = helper.make_graph(
        [*(constants.nodes[name] for name in read if name in constants.nodes), *nodes],
        "probe",
        [value for value in inputs if value.name not in constants.nodes],
        [],
        [constants.tensors[name] for name in read if name in constants.tensors],
    )
    return helper.make_model(
        graph,
        ir_version=model.ir_version,
        opset_imports=model.opset_import,
        functions=model.functions,
    )


def _is_slice(node: onnx.NodeProto) -> bool:
    """Whether a node is a Slice, or has a subgraph, which may contain a Slice."""
    return node.op_type == "Slice" or any(
        attribute.HasField("g") or len(attribute.graphs) for attribute in node.attribute
    )
