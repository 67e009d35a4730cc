"""Count the weights and the floating-point operations of a model from its ONNX graph alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod

import onnx
from onnx import helper, shape_inference

Shapes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class Counts:
    """Counts of a model's weights and operations, which do not depend on the implementation.

    Attributes:
        parameters: number of elements of all initializers.
        weight_bytes: size of all initializers in bytes.
        flops: number of multiplications plus number of additions in convolutions, matrix products
            and recurrent cells, by their definitions. Papers that count multiply-adds report half
            as many.
    """

    parameters: int
    weight_bytes: int
    flops: int


def count(model: onnx.ModelProto) -> Counts:
    """Return the numbers of weights and operations of a model whose shapes are static.

    Operations in subgraphs of control flow are not counted.
    """
    sizes = [(prod(t.dims), helper.tensor_dtype_to_np_dtype(t.data_type).itemsize)
             for t in model.graph.initializer]  # fmt: skip
    shapes = _shapes(model)
    flops = sum(_COUNTERS[node.op_type](node, shapes)
                for node in model.graph.node if node.op_type in _COUNTERS)  # fmt: skip
    return Counts(sum(n for n, _ in sizes), sum(n * width for n, width in sizes), flops)


def convolution_flops(model: onnx.ModelProto) -> list[int]:
    """Return, for each convolution of a model, the number of its multiplications and additions.

    The numbers are in the order of the nodes. All shapes of the model must be static.
    """
    shapes = _shapes(model)
    return [_convolution(node, shapes) for node in model.graph.node if node.op_type == "Conv"]


def _shapes(model: onnx.ModelProto) -> dict[str, tuple[int, ...]]:
    bare = _without_large_weights(model)
    graph = shape_inference.infer_shapes(bare, strict_mode=True, data_prop=True).graph
    infos = (*graph.input, *graph.value_info, *graph.output)
    found = {info.name: tuple(d.dim_value for d in info.type.tensor_type.shape.dim)
             for info in infos}  # fmt: skip
    return found | {tensor.name: tuple(tensor.dims) for tensor in model.graph.initializer}


def _without_large_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy of a model in which initializers of more than 64 elements are inputs.

    Such a copy is below the size limit of a protobuf message. Shape inference needs the values of
    small initializers only.
    """
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    known = {info.name for info in copy.graph.input}
    large = [tensor for tensor in copy.graph.initializer if prod(tensor.dims) > 64]
    for tensor in large:
        if tensor.name not in known:
            info = helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))
            copy.graph.input.append(info)
    small = [tensor for tensor in copy.graph.initializer if prod(tensor.dims) <= 64]
    del copy.graph.initializer[:]
    copy.graph.initializer.extend(small)
    return copy


def _convolution(node: onnx.NodeProto, shapes: Shapes) -> int:
    return 2 * prod(shapes[node.output[0]]) * prod(shapes[node.input[1]][1:])


def _transposed_convolution(node: onnx.NodeProto, shapes: Shapes) -> int:
    return 2 * prod(shapes[node.input[0]]) * prod(shapes[node.input[1]][1:])


def _product(node: onnx.NodeProto, shapes: Shapes) -> int:
    return 2 * prod(shapes[node.output[0]]) * shapes[node.input[0]][-1]


def _general_product(node: onnx.NodeProto, shapes: Shapes) -> int:
    transposed = any(a.name == "transA" and a.i for a in node.attribute)
    return 2 * prod(shapes[node.output[0]]) * shapes[node.input[0]][0 if transposed else 1]


def _recurrent(node: onnx.NodeProto, shapes: Shapes) -> int:
    """Return the count of floating-point operations in the matrix products of an LSTM, GRU or RNN.

    Each time step has two products: of its input with weights, and of the previous state with
    weights.
    """
    steps = prod(shapes[node.input[0]][:2])
    return 2 * steps * (prod(shapes[node.input[1]]) + prod(shapes[node.input[2]]))


_COUNTERS: dict[str, Callable[[onnx.NodeProto, Shapes], int]] = {
    "Conv": _convolution,
    "ConvTranspose": _transposed_convolution,
    "MatMul": _product,
    "Gemm": _general_product,
    "LSTM": _recurrent,
    "GRU": _recurrent,
    "RNN": _recurrent,
}
"""Functions that return the number of an operator's multiplications and additions.

Operators whose arithmetic grows no faster than their tensors are ignored.
"""
