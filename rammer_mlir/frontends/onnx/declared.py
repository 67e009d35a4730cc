"""What a model says of its outputs, against what is computed.

Declared shapes take no part in shape inference: it would believe them, and fill what no node
computes with whatever is in memory.
"""

from __future__ import annotations

from collections.abc import Mapping

import onnx

from rammer_mlir.errors import ModelError
from rammer_mlir.frontends.onnx.tensors import static_shape, type_text

Declared = Mapping[str, onnx.TypeProto]
"""Types of outputs by name."""


def take_declared(graph: onnx.GraphProto) -> Declared:
    """Remove declared shapes and types from a graph, inputs excepted; return the outputs'."""
    declared: dict[str, onnx.TypeProto] = {}
    for value in graph.output:
        declared[value.name] = onnx.TypeProto.FromString(value.type.SerializeToString())
        value.ClearField("type")
    del graph.value_info[:]
    return declared


def check_declared(graph: onnx.GraphProto, declared: Declared) -> None:
    """Compare the outputs' computed types, which are static, with those that were declared.

    A declared dimension that is named, or 0, may have any size.

    Raises:
        ModelError: naming the first output where they differ.
    """
    for value in graph.output:
        expected = declared[value.name].tensor_type
        if not _fits(value, expected):
            raise ModelError(
                f"output '{value.name}': the model declares {type_text(expected)}, its nodes "
                f"compute {type_text(value.type.tensor_type)}: correct the declaration or the "
                "inputs' shapes"
            )


def _fits(value: onnx.ValueInfoProto, expected: onnx.TypeProto.Tensor) -> bool:
    if expected.elem_type not in (0, value.type.tensor_type.elem_type):
        return False
    shape = static_shape(value)
    if shape is None or not expected.HasField("shape"):
        return True
    dims = expected.shape.dim
    return len(dims) == len(shape) and all(
        dim.dim_value in (0, size) for dim, size in zip(dims, shape, strict=True)
    )
