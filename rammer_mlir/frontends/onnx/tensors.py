"""Reads types, shapes and values of a graph's tensors, by name."""

from __future__ import annotations

from math import prod

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from rammer_mlir.errors import ShapeError

Array = NDArray[np.generic]

_WITHOUT_BYTES = (onnx.TensorProto.UNDEFINED, onnx.TensorProto.STRING)

ONNX_DOMAINS = ("", "ai.onnx")
"""The two spellings of the standard ONNX domain."""


def opset(proto: onnx.ModelProto) -> int:
    """Return the version of ONNX's standard operator set that the model uses."""
    return next((o.version for o in proto.opset_import if o.domain in ONNX_DOMAINS), 1)


def value_infos(graph: onnx.GraphProto) -> dict[str, onnx.ValueInfoProto]:
    """Return every typed value of a graph by name, except initializers."""
    return {value.name: value for value in (*graph.value_info, *graph.output, *graph.input)}


def tensor_type(kind: onnx.TypeProto) -> onnx.TypeProto.Tensor:
    """Return a tensor type: ``kind``, or the one in optional and sequence types.

    For other types, such as maps, it has neither element type nor shape.
    """
    while kind.HasField("optional_type") or kind.HasField("sequence_type"):
        is_optional = kind.HasField("optional_type")
        kind = kind.optional_type.elem_type if is_optional else kind.sequence_type.elem_type
    return kind.tensor_type


def static_shape(value: onnx.ValueInfoProto) -> list[int] | None:
    """Return a value's shape, or None if a dimension or the rank is unknown."""
    return static_dims(value.type.tensor_type)


def static_dims(tensor: onnx.TypeProto.Tensor) -> list[int] | None:
    """Return the shape of a tensor type, or None if the rank or a dimension is unknown."""
    if not tensor.HasField("shape"):
        return None
    sizes: list[int] = []
    for dim in tensor.shape.dim:  # a hot loop
        size = dim.dim_value
        if not size and not dim.HasField("dim_value"):
            return None
        sizes.append(size)
    return sizes


def type_text(tensor: onnx.TypeProto.Tensor) -> str:
    """Return an element type and shape as text for messages, such as ``float[2,N]``."""
    known = tensor.elem_type in onnx.TensorProto.DataType.values()
    kind = onnx.TensorProto.DataType.Name(tensor.elem_type).lower() if known else "unknown"
    if not tensor.HasField("shape"):
        return kind
    dims = [
        str(d.dim_value) if d.HasField("dim_value") else d.dim_param or "?"
        for d in tensor.shape.dim
    ]
    return f"{kind}[{','.join(dims)}]"


def dtype_of(elem_type: int) -> np.dtype[np.generic]:
    """Return the NumPy dtype of an ONNX element type."""
    return np.dtype(helper.tensor_dtype_to_np_dtype(elem_type))


NAME_IN_MODEL = "rammer_mlir.name_in_model"
"""Key in the metadata of a node that is renamed: its value is the node's name in the model."""


def label(node: onnx.NodeProto) -> str:
    """Return the name and operator of a node as text for messages, such as ``'conv1' (Conv)``.

    The name is the one that the node has in the user's model.
    """
    given = {entry.key: entry.value for entry in node.metadata_props}
    name = given.get(NAME_IN_MODEL) or node.name or "".join(node.output[:1])
    return f"'{name}' ({node.op_type})"


def num_elements(tensor: onnx.TensorProto) -> int:
    """Return the number of elements of a tensor."""
    return prod(tensor.dims)


BITS = {
    **dict.fromkeys(("INT2", "UINT2"), 2),
    **dict.fromkeys(("INT4", "UINT4", "FLOAT4E2M1"), 4),
    **dict.fromkeys(("FLOAT6E2M3", "FLOAT6E3M2"), 6),
}
"""Bits per element, by ONNX element type, for types that are packed into bytes."""


def num_bytes(tensor: onnx.TensorProto) -> int:
    """Return the number of bytes of a tensor's raw data.

    Raises:
        ValueError: if the element type has no raw data, or a dimension is negative.
    """
    kind = tensor.data_type
    if kind not in onnx.TensorProto.DataType.values() or kind in _WITHOUT_BYTES:
        raise ValueError(f"its element type {kind} has no raw data")
    if min(tensor.dims, default=0) < 0:
        raise ValueError(f"its shape is {list(tensor.dims)}")
    bits = BITS.get(onnx.TensorProto.DataType.Name(kind), dtype_of(kind).itemsize * 8)
    return -(-num_elements(tensor) * bits // 8)


def array_of(tensor: onnx.TensorProto, data: bytes | memoryview) -> Array:
    """Return a tensor's raw data as an array.

    The array shares the memory of ``data``, unless its elements are smaller than a byte.

    Raises:
        ValueError: if the data does not match the tensor's shape.
    """
    if onnx.TensorProto.DataType.Name(tensor.data_type) not in BITS:
        return np.frombuffer(data, dtype_of(tensor.data_type)).reshape(tuple(tensor.dims))
    copy = onnx.TensorProto(data_type=tensor.data_type, dims=tensor.dims, raw_data=bytes(data))
    return numpy_helper.to_array(copy)


def small_constants(graph: onnx.GraphProto) -> dict[str, Array]:
    """Return the values of a graph's initializers by name.

    The initializers are small, because large weights are additional inputs of the graph (see
    ``Model``).
    """
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}


def divides_by_zero(operator: str, divisor: Array | None) -> bool:
    """Return whether an operator divides integers by a constant that contains a zero.

    ``divisor`` is the constant, or None if the divisor is not constant. A division by zero must not
    be folded: ONNX leaves its result undefined, and NumPy returns zero.
    """
    if operator not in ("Div", "Mod") or divisor is None:
        return False
    return np.issubdtype(divisor.dtype, np.integer) and bool((divisor == 0).any())


class ShapeTable:
    """Shapes and element types of a graph's values after shape inference."""

    def __init__(self, graph: onnx.GraphProto) -> None:
        """Index the graph's values and initializers."""
        self._values = value_infos(graph)
        self._initializers = {t.name: (t.data_type, list(t.dims)) for t in graph.initializer}

    def shape(self, name: str) -> list[int]:
        """Return the static shape of the value ``name``.

        Raises:
            ShapeError: if the shape is unknown.
        """
        shape = self.find_shape(name)
        if shape is None:
            raise ShapeError(f"value '{name}' has no static shape: give the inputs' shapes")
        return shape

    def find_shape(self, name: str) -> list[int] | None:
        """Return the static shape of the value ``name``, or None if unknown."""
        if name in self._initializers:
            return self._initializers[name][1]
        return static_shape(self._values[name]) if name in self._values else None

    def elem_type(self, name: str) -> int:
        """Return the ONNX element type of the value ``name``, 0 if unknown."""
        if name in self._initializers:
            return self._initializers[name][0]
        return self._values[name].type.tensor_type.elem_type if name in self._values else 0
