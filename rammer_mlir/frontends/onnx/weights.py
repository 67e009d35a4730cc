"""Taking large weights out of a model: they become inputs, and their values stay beside it."""

from __future__ import annotations

import onnx
from onnx import helper, numpy_helper

from rammer_mlir.frontends.onnx.tensors import Array

LARGE = 1024
"""Elements above which an initializer is passed beside the IR."""


def split_weights(model: onnx.ModelProto) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """Return the model with large initializers as inputs, and their values by name.

    The names are listed in the model's metadata, for the importer to tell weights from inputs.
    """
    constants: dict[str, Array] = {}
    graph = model.graph
    small: list[onnx.TensorProto] = []
    for tensor in graph.initializer:
        if _num_elements(tensor) <= LARGE:
            small.append(tensor)
            continue
        constants[tensor.name] = numpy_helper.to_array(tensor)
        graph.input.append(
            helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))
        )
    kept = [onnx.TensorProto.FromString(t.SerializeToString()) for t in small]
    del graph.initializer[:]
    graph.initializer.extend(kept)
    del model.metadata_props[:]
    for name in constants:
        model.metadata_props.add(key=name, value="weight")
    return model, constants


def _num_elements(tensor: onnx.TensorProto) -> int:
    count = 1
    for dim in tensor.dims:
        count *= dim
    return count
