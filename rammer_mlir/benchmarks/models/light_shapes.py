"""Change the image size, batch size and number of channels of a light network."""

from __future__ import annotations

import math

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Shapes = dict[str, list[int]]
"""Shape of every weight, by name."""

IMAGE_CHANNELS = 3


def divide_channels(shapes: Shapes, divisor: int) -> None:
    """Divide all numbers of channels in the weights' ``shapes`` by ``divisor``, in place.

    The three channels of the image stay.
    """
    for name, (first, *rest) in shapes.items():
        # [O, I, kh, kw], [O, I] or [O]: kernel sizes stay, and so do the image's 3 channels.
        inner = [d if d in (1, IMAGE_CHANNELS) else d // divisor for d in rest[:1]]
        shapes[name] = [max(first // divisor, 1), *inner, *rest[1:]]


def fit(model: onnx.ModelProto, shapes: Shapes, batch: int, image: int) -> None:
    """Set the batch and image size of the model's input, and adapt its operators in place.

    Adapted are the target shapes of reshapes, pooling windows, and the shapes of Gemm weights.
    ``shapes`` has the weights' shapes by name; the shapes of Gemm weights are updated in it.
    """
    graph = model.graph
    dims = graph.input[0].type.tensor_type.shape.dim
    for dim, size in zip(dims, (batch, IMAGE_CHANNELS, image, image), strict=True):
        dim.dim_value = size
    constants = {tensor.name: tensor for tensor in graph.initializer}
    known = {graph.input[0].name: [int(dim.dim_value) for dim in dims], **shapes}
    for node in graph.node:
        source = known[node.input[0]]
        if node.op_type in ("AveragePool", "MaxPool"):
            _fit_pool(node, source)
        elif node.op_type == "Reshape":
            _fit_reshape(constants[node.input[1]], source)
        elif node.op_type == "Gemm":
            shapes[node.input[1]][1] = source[1]
        known.update(_infer(model, node, known, constants))
    for info in graph.output:
        info.type.CopyFrom(helper.make_tensor_type_proto(TensorProto.FLOAT, known[info.name]))


def _fit_pool(node: onnx.NodeProto, source: list[int]) -> None:
    """Change a pooling window that is larger than its padded input into a global window.

    The new window has the size of the unpadded input. All attributes of the node other than
    ``kernel_shape`` are removed. ``source`` is the shape of the unpadded input.
    """
    attributes = {attribute.name: attribute for attribute in node.attribute}
    window = list(attributes["kernel_shape"].ints)
    pads = list(attributes["pads"].ints) if "pads" in attributes else [0] * 4
    padded = [source[2 + i] + pads[i] + pads[2 + i] for i in range(2)]
    if all(k <= size for k, size in zip(window, padded, strict=True)):
        return
    del node.attribute[:]
    node.attribute.append(helper.make_attribute("kernel_shape", source[2:]))


def _fit_reshape(target: TensorProto, source: list[int]) -> None:
    """Adapt the target shape of a Reshape to ``source``, the new shape of its operand, in place.

    A target shape of two dimensions flattens the operand. A target shape of more dimensions only
    regroups the channels; it gets the operand's batch size, height and width.
    """
    dims = [int(dim) for dim in numpy_helper.to_array(target)]
    dims[0] = source[0]
    if len(dims) == 2:
        dims[1] = math.prod(source[1:])
    else:
        dims[-2:] = source[-2:]
    target.CopyFrom(numpy_helper.from_array(np.array(dims, np.int64), target.name))


def _infer(
    model: onnx.ModelProto, node: onnx.NodeProto, known: Shapes, constants: dict[str, TensorProto]
) -> Shapes:
    opset = model.opset_import[0]
    types = {
        name: helper.make_tensor_type_proto(TensorProto.FLOAT, known[name])
        for name in node.input
        if name in known
    }
    operands = {name: constants[name] for name in node.input if name in constants}
    types.update(
        (name, helper.make_tensor_type_proto(tensor.data_type, list(tensor.dims)))
        for name, tensor in operands.items()
    )
    inferred = onnx.shape_inference.infer_node_outputs(
        onnx.defs.get_schema(node.op_type, opset.version, ""),
        node,
        types,
        operands,
        opset_imports=[opset],
        ir_version=model.ir_version,
    )
    return {
        name: [int(dim.dim_value) for dim in result.tensor_type.shape.dim]
        for name, result in inferred.items()
    }
