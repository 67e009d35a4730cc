"""Converts operators that newer opsets redefine: Clip, Pad, Softmax, Hardmax, Resize, ...

ONNX's version converter is wrong or incomplete for these operators:

- Softmax, LogSoftmax and Hardmax up to opset 12 flatten their operand to a matrix: the dimensions
  before ``axis`` become the rows. The converter does not change Hardmax. The nodes to which it
  converts Softmax and LogSoftmax fail for empty tensors.
- Resize and Upsample up to opset 10 divide an output coordinate by the scale to get the input
  coordinate. The converter selects the default of newer opsets, which maps the centers of pixels.
- BatchNormalization up to opset 8 may have statistics per element instead of per channel. The
  converter refuses it.
- Clip and Pad up to opset 10 have bounds and values as attributes. The converter makes them f32
  constants, whatever the operand's type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from rammer_mlir.frontends.onnx.model import Model
from rammer_mlir.frontends.onnx.node_names import Prefixes
from rammer_mlir.frontends.onnx.tensors import ONNX_DOMAINS, value_infos
from rammer_mlir.frontends.onnx.traversal import nodes_within, subgraphs

_ONE = numpy_helper.from_array(np.ones(1, np.float32))
_OF_ROWS = frozenset({"Hardmax", "LogSoftmax", "Softmax"})


def write_out_older(model: Model) -> None:
    """Expand the nodes of old opsets that ONNX's version converter does not convert, in place.

    These are Hardmax of opset 12 or older, and BatchNormalization of opset 7 or 8 with statistics
    per element (``spatial=0``).
    """
    if not any(map(_expansion, model.graph.node)):
        return
    prefixes = Prefixes(model.graph)
    nodes = (
        expand(node, prefixes.unused(node.output[0])) if (expand := _expansion(node)) else [node]
        for node in model.graph.node
    )
    model.set_nodes([node for written in nodes for node in written])


def _expansion(
    node: onnx.NodeProto,
) -> Callable[[onnx.NodeProto, str], Iterable[onnx.NodeProto]] | None:
    """Return the function that expands a node; None if no function does.

    Its second argument is the beginning of new names, before a slash.
    """
    if _is_hardmax(node):
        return _of_matrix
    return _per_element if _is_batch_norm_per_element(node) else None


def _is_batch_norm_per_element(node: onnx.NodeProto) -> bool:
    if node.op_type != "BatchNormalization" or node.domain not in ONNX_DOMAINS:
        return False
    return any(a.name == "spatial" and a.i == 0 for a in node.attribute) and len(node.output) == 1


def _per_element(node: onnx.NodeProto, prefix: str) -> Iterable[onnx.NodeProto]:
    (x, scale, shift, mean, variance), (y,) = node.input, node.output
    epsilon = next((a.f for a in node.attribute if a.name == "epsilon"), 1e-5)
    parts = ("epsilon", "sum", "root", "factor", "difference", "product")
    least, total, root, factor, difference, product = (f"{prefix}/{part}" for part in parts)
    yield helper.make_node("Constant", [], [least], value=_scalar(epsilon))
    yield helper.make_node("Add", [variance, least], [total])
    yield helper.make_node("Sqrt", [total], [root])
    yield helper.make_node("Div", [scale, root], [factor])
    yield helper.make_node("Sub", [x, mean], [difference])
    yield helper.make_node("Mul", [difference, factor], [product], node.name)
    yield helper.make_node("Add", [product, shift], [y])


def _scalar(value: float) -> onnx.TensorProto:
    return numpy_helper.from_array(np.array(value, np.float32))


def _is_hardmax(node: onnx.NodeProto) -> bool:
    return node.op_type == "Hardmax" and node.domain in ONNX_DOMAINS


def _of_matrix(node: onnx.NodeProto, prefix: str) -> Iterable[onnx.NodeProto]:
    (x,), (y,) = node.input, node.output
    axis = next((a.i for a in node.attribute if a.name == "axis"), 1)
    shape, matrix, chosen = (f"{prefix}/{part}" for part in ("shape", "matrix", "chosen"))
    yield helper.make_node("Shape", [x], [shape])
    yield helper.make_node("Flatten", [x], [matrix], axis=axis)
    yield helper.make_node("Hardmax", [matrix], [chosen], node.name, axis=1)
    yield helper.make_node("Reshape", [chosen, shape], [y])


def allow_no_elements(proto: onnx.ModelProto) -> None:
    """Set ``allowzero`` in the Reshapes that the version converter adds after Softmax, in place.

    With this attribute, a size of 0 in the shape operand gives a dimension of size 0. Without it, 0
    stands for the size of the same dimension of the data operand.
    """
    makers = {name: node for node in proto.graph.node for name in node.output}
    for node in proto.graph.node:
        if node.op_type == "Reshape" and _gives_back_shape(node, makers):
            node.attribute.append(helper.make_attribute("allowzero", 1))


def _gives_back_shape(node: onnx.NodeProto, makers: dict[str, onnx.NodeProto]) -> bool:
    """Return whether a Reshape restores the shape of the operand of a flattened softmax.

    Such a node is Reshape(f(Flatten(x)), Shape(x)), where f is Softmax, LogSoftmax or Hardmax.
    ``makers`` has the node that computes each value, by the value's name.
    """
    computed, shape = (makers.get(name) for name in node.input)
    if computed is None or shape is None or computed.op_type not in _OF_ROWS:
        return False
    matrix = makers.get(computed.input[0])
    kinds = (shape.op_type, matrix.op_type if matrix is not None else "")
    return kinds == ("Shape", "Flatten") and matrix is not None and matrix.input == shape.input


def keep_coordinates(proto: onnx.ModelProto) -> None:
    """Add attributes to each Resize, in place, so that its results remain those of opset 10.

    In opset 10, an input coordinate is the output coordinate divided by the scale. Which element is
    the nearest is not specified; as in ONNX Runtime, the input coordinate is rounded down along
    dimensions that Resize enlarges, and up along dimensions that it shrinks. If a Resize of mode
    ``nearest`` enlarges some dimensions and shrinks others, or if its scales are unknown, two nodes
    replace it: the first enlarges, the second shrinks.
    """
    if any(map(_is_resize, nodes_within(proto.graph.node))):
        _keep_coordinates(proto.graph, dict(_constants(proto.graph)), Prefixes(proto.graph))


def _is_resize(node: onnx.NodeProto) -> bool:
    return node.op_type == "Resize" and node.domain in ONNX_DOMAINS


def _keep_coordinates(
    graph: onnx.GraphProto, constants: Mapping[str, NDArray[Any]], prefixes: Prefixes
) -> None:
    nodes: list[onnx.NodeProto] = []
    for node in graph.node:
        for inner in subgraphs(node):
            _keep_coordinates(inner, constants, prefixes)
        if _is_resize(node):
            prefix = prefixes.unused(node.output[0])
            nodes.extend(_by_quotients(node, constants.get(node.input[2]), prefix))
        else:
            nodes.append(node)
    del graph.node[:]
    graph.node.extend(nodes)


def _by_quotients(
    node: onnx.NodeProto, scales: NDArray[Any] | None, prefix: str
) -> Iterable[onnx.NodeProto]:
    """Yield the nodes that replace a Resize of opset 10, among them one or two Resizes.

    ``scales`` is the value of the node's operand ``scales``; None if the operand is not constant.
    New names begin with ``prefix`` and a slash.
    """
    mode = next((a.s for a in node.attribute if a.name == "mode"), b"nearest")
    shrinks = scales is None or bool((scales.astype(np.float64) < 1).any())
    enlarges = scales is None or bool((scales.astype(np.float64) > 1).any())
    if mode != b"nearest" or not (shrinks and enlarges):
        yield _resize(node, node.input[0], node.input[2], node.output[0], shrinks=shrinks)
        return
    one, up, enlarged, down = (f"{prefix}/{n}" for n in ("one", "up", "enlarged", "down"))
    yield helper.make_node("Constant", [], [one], value=_ONE)
    yield helper.make_node("Max", [node.input[2], one], [up])
    yield _resize(node, node.input[0], up, enlarged, shrinks=False)
    yield helper.make_node("Min", [node.input[2], one], [down])
    yield _resize(node, enlarged, down, node.output[0], shrinks=True)


def _resize(node: onnx.NodeProto, x: str, scales: str, y: str, *, shrinks: bool) -> onnx.NodeProto:
    """Return a copy of Resize ``node`` that computes input coordinates as opset 10 does.

    The copy has the operands ``x`` and ``scales``, and the result ``y``. In mode ``nearest``, it
    rounds the coordinates up if ``shrinks``, else down.
    """
    found = onnx.NodeProto()
    found.CopyFrom(node)
    found.input[0], found.input[2], found.output[0] = x, scales, y
    found.attribute.extend(
        [
            helper.make_attribute("coordinate_transformation_mode", "asymmetric"),
            helper.make_attribute("nearest_mode", "ceil" if shrinks else "floor"),
        ]
    )
    return found


def keep_types(old: onnx.ModelProto, proto: onnx.ModelProto) -> None:
    """Convert Clip's bounds and Pad's values to the element type of the data, in place.

    Args:
        old: the model before opset conversion. Shape inference of this model gives the element
            types of the data.
        proto: the converted model, which is modified. Shape inference of this model gives element
            types that are unknown in ``old``.
    """
    nodes = [node for node in nodes_within(proto.graph.node) if _has_converted_numbers(node)]
    if not nodes:
        return
    types = {
        name: kind
        for model in (proto, old)
        for name, kind in _element_types(onnx.shape_inference.infer_shapes(model).graph)
    }
    makers = {name: node for node in nodes_within(proto.graph.node) for name in node.output}
    for node in nodes:
        wanted = types.get(node.input[0], onnx.TensorProto.FLOAT)
        for name in node.input[1:]:
            for attribute in makers[name].attribute if name in makers else ():
                if attribute.t.data_type == onnx.TensorProto.FLOAT != wanted:
                    _convert(attribute.t, helper.tensor_dtype_to_np_dtype(wanted))


def _convert(tensor: onnx.TensorProto, dtype: np.dtype[np.generic]) -> None:
    with np.errstate(over="ignore"):  # a missing bound is the last number of f32
        value = numpy_helper.to_array(tensor).astype(dtype)
    tensor.CopyFrom(numpy_helper.from_array(value))


def _has_converted_numbers(node: onnx.NodeProto) -> bool:
    return node.op_type in ("Clip", "Pad") and node.domain in ONNX_DOMAINS


def _element_types(graph: onnx.GraphProto) -> Iterable[tuple[str, int]]:
    """Yield the name and ONNX element type of each value of a graph and of its nested subgraphs.

    Values of unknown type are omitted.
    """
    for tensor in graph.initializer:
        yield tensor.name, tensor.data_type
    for name, value in value_infos(graph).items():
        if value.type.tensor_type.elem_type:
            yield name, value.type.tensor_type.elem_type
    for inner in (inner for node in graph.node for inner in subgraphs(node)):
        yield from _element_types(inner)


def _constants(graph: onnx.GraphProto) -> Iterable[tuple[str, NDArray[np.generic]]]:
    """Yield the name and value of each initializer and Constant node, also in nested subgraphs."""
    for tensor in graph.initializer:
        yield tensor.name, numpy_helper.to_array(tensor)
    for node in graph.node:
        for attribute in node.attribute:
            if node.op_type == "Constant" and attribute.name == "value":
                yield node.output[0], numpy_helper.to_array(attribute.t)
        for inner in subgraphs(node):
            yield from _constants(inner)
