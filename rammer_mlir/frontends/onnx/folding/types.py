"""Determines element types and shapes of values during constant folding."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

import onnx
from onnx import helper, numpy_helper

from rammer_mlir.frontends.onnx.model import LARGE
from rammer_mlir.frontends.onnx.shape_placeholders import has_stand_in
from rammer_mlir.frontends.onnx.tensors import (
    ONNX_DOMAINS,
    Array,
    dtype_of,
    static_dims,
    value_infos,
)


@dataclass(frozen=True)
class TensorKind:
    """An element type, 0 if unknown, and a shape, None if not static."""

    elem_type: int
    shape: tuple[int, ...] | None

    @staticmethod
    def of(value: Array) -> TensorKind:
        """Return the element type and shape of a constant."""
        return TensorKind(helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)

    @staticmethod
    def of_type(kind: onnx.TypeProto) -> TensorKind:
        """Return the element type and shape of an ONNX type."""
        shape = static_dims(kind.tensor_type)
        return TensorKind(kind.tensor_type.elem_type, None if shape is None else tuple(shape))

    @property
    def is_static(self) -> bool:
        """Whether element type and shape are known."""
        return self.elem_type != 0 and self.shape is not None

    @property
    def size(self) -> int | None:
        """Number of elements; None if unknown."""
        return None if self.shape is None else prod(self.shape)

    @property
    def itemsize(self) -> int:
        """The number of bytes per element; 8 if unknown."""
        # Assume the widest type, so that size limits are not exceeded.
        return dtype_of(self.elem_type).itemsize if self.elem_type else 8

    def to_type(self) -> onnx.TypeProto:
        """Return the ONNX type with this element type and shape."""
        return helper.make_tensor_type_proto(self.elem_type, self.shape)


Types = Mapping[str, TensorKind]


def graph_types(graph: onnx.GraphProto) -> dict[str, TensorKind]:
    """Return the inferred types of a graph's values, by name."""
    types = {name: TensorKind.of_type(value.type) for name, value in value_infos(graph).items()}
    for tensor in graph.initializer:
        types[tensor.name] = TensorKind(tensor.data_type, tuple(tensor.dims))
    return types


def infer_node(
    node: onnx.NodeProto, version: int, types: Types, values: Mapping[str, Array]
) -> dict[str, TensorKind]:
    """Return the types of a node's results, by name, inferred from its operands.

    ``types`` and ``values`` have the types and the constant values of operands, and ``version`` is
    the opset. The result is empty in these cases:

    - The types of all results are known already.
    - The type of an operand is unknown.
    - Only the later inference of the whole graph can handle the node. If ONNX refuses the node,
      that inference reports the error.
    """
    names = [name for name in node.output if name]
    if all(name in types and types[name].is_static for name in names):
        return {}
    if node.domain not in ONNX_DOMAINS or has_stand_in(node) or _has_subgraph(node):
        return {}
    given = [name for name in dict.fromkeys(node.input) if name]
    if any(name not in types or not types[name].is_static for name in given):
        return {}
    try:
        found = onnx.shape_inference.infer_node_outputs(
            onnx.defs.get_schema(node.op_type, version, ""),
            node,
            {name: types[name].to_type() for name in given},
            {n: numpy_helper.from_array(values[n], n) for n in given if _is_small(n, values)},
            opset_imports=[helper.make_opsetid("", version)],
        )
    except _REFUSALS:
        return {}  # inference of the whole graph reports the error
    return {name: TensorKind.of_type(kind) for name, kind in found.items()}


_REFUSALS = (
    onnx.shape_inference.InferenceError, onnx.defs.SchemaError, onnx.checker.ValidationError,
    RuntimeError, ValueError,
)  # fmt: skip
"""Exceptions of ONNX for nodes that it refuses."""


def _is_small(name: str, values: Mapping[str, Array]) -> bool:
    return name in values and values[name].size <= LARGE


def _has_subgraph(node: onnx.NodeProto) -> bool:
    return any(attribute.HasField("g") or attribute.graphs for attribute in node.attribute)
