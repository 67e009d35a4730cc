"""Random arrays for a model's inputs; the first letter of an input's name selects the numbers.

``q``: multiples of a quarter, whose sums and products are exact; ``p``: positive numbers; ``i7_3``:
integers from -3 to 2, indices of a dimension of 3; other names: normally distributed numbers, or
small integers.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper

Array = NDArray[Any]


def is_float(dtype: np.dtype[Any]) -> bool:
    """Return whether a type has floating-point elements, including bfloat16."""
    return dtype.kind == "f" or dtype.name == "bfloat16"


def draw(name: str, shape: Sequence[int], dtype: np.dtype[Any], seed: int) -> Array:
    """Return the array of an input; the input's name and the seed determine its elements."""
    random = np.random.default_rng([seed, zlib.crc32(name.encode())])
    if dtype == np.bool_:
        return random.random(shape) < 0.5
    if name.startswith("i") and "_" in name and dtype.kind in "iu":
        size = int(name.rpartition("_")[2])
        return random.integers(-size if dtype.kind == "i" else 0, size, shape).astype(dtype)
    if dtype.kind in "iu":
        return random.integers(-4 if dtype.kind == "i" else 0, 8, shape).astype(dtype)
    if name.startswith("q"):
        return (random.integers(-12, 13, shape) / 4).astype(dtype)
    if name.startswith("p"):
        return random.uniform(0.25, 3, shape).astype(dtype)
    return random.standard_normal(shape).astype(dtype)


def sizes_of(value: onnx.ValueInfoProto) -> tuple[int, ...]:
    """Return the shape of a value; an open dimension ``d5`` has size 5."""
    dims = value.type.tensor_type.shape.dim
    return tuple(int(d.dim_param[1:]) if d.dim_param else d.dim_value for d in dims)


def feeds_of(model: onnx.ModelProto, seed: int) -> Mapping[str, Array]:
    """Return random arrays for all inputs of a model by name, without initializers."""
    given = {tensor.name for tensor in model.graph.initializer}
    return {
        value.name: draw(
            value.name,
            sizes_of(value),
            np.dtype(helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)),
            seed,
        )
        for value in model.graph.input
        if value.name not in given
    }
