"""Types, shapes and constant values of a graph's tensors, by name."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from rammer_mlir.errors import ShapeError

Array = NDArray[np.generic]


def opset(model: onnx.ModelProto) -> int:
    """Return the version of ONNX's own operators that the model uses."""
    return next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 1)


def value_infos(graph: onnx.GraphProto) -> dict[str, onnx.ValueInfoProto]:
    """Return every typed value of a graph by name, initializers excepted."""
    return {value.name: value for value in (*graph.value_info, *graph.output, *graph.input)}


def static_shape(value: onnx.ValueInfoProto) -> list[int] | None:
    """Return a value's shape, or None where a dimension or the shape itself is unknown."""
    tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        return None
    dims = [dim.dim_value if dim.HasField("dim_value") else None for dim in tensor.shape.dim]
    return None if None in dims else [dim for dim in dims if dim is not None]


def dtype_of(elem_type: int) -> np.dtype[np.generic]:
    """Return the NumPy type of an ONNX element type."""
    return np.dtype(helper.tensor_dtype_to_np_dtype(elem_type))


def constants(graph: onnx.GraphProto, names: Iterable[str]) -> dict[str, Array]:
    """Return the values of those names that are initializers or constants."""
    wanted = set(names)
    found = {
        tensor.name: numpy_helper.to_array(tensor)
        for tensor in graph.initializer
        if tensor.name in wanted
    }
    for node in graph.node:
        if node.op_type == "Constant" and node.output[0] in wanted:
            for attribute in node.attribute:
                if attribute.name == "value":
                    found[node.output[0]] = numpy_helper.to_array(attribute.t)
    return found


class ShapeTable:
    """Shapes and element types of a graph's values after shape inference."""

    def __init__(self, graph: onnx.GraphProto) -> None:
        """Index the graph's values and initializers."""
        self._values = value_infos(graph)
        self._initializers = {t.name: (t.data_type, list(t.dims)) for t in graph.initializer}

    def shape(self, name: str) -> list[int]:
        """Return the static shape of a value.

        Raises:
            ShapeError: if it is unknown.
        """
        if name in self._initializers:
            return self._initializers[name][1]
        shape = static_shape(self._values[name]) if name in self._values else None
        if shape is None:
            raise ShapeError(f"value '{name}' has no static shape: give the inputs' shapes")
        return shape

    def elem_type(self, name: str) -> int:
        """Return the ONNX element type of a value, 0 where unknown."""
        if name in self._initializers:
            return self._initializers[name][0]
        return self._values[name].type.tensor_type.elem_type if name in self._values else 0
