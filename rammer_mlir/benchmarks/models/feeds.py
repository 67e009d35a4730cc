"""Draw random inputs for an ONNX model from a seed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper

from rammer_mlir.errors import ShapeError

Array = npt.NDArray[np.generic]

INDEX_LIMIT = 10
"""Upper bound of random 32- and 64-bit integers, which may serve as indices and exponents.

All integers are less than this bound.
"""


def random_feeds(model: onnx.ModelProto, seed: int = 0) -> dict[str, Array]:
    """Return a random value, by name, for every input of the model that has no initializer.

    Floats are standard normal, booleans true with probability 1/2, 32- and 64-bit integers in
    [0, 10), narrower integers over their whole range.

    Raises:
        ShapeError: if a dimension is not a positive number.
    """
    rng = np.random.default_rng(seed)
    weights = {tensor.name for tensor in model.graph.initializer}
    return {info.name: _draw(rng, info) for info in model.graph.input if info.name not in weights}


def _draw(rng: np.random.Generator, info: onnx.ValueInfoProto) -> Array:
    tensor = info.type.tensor_type
    shape = [int(dim.dim_value) for dim in tensor.shape.dim]
    if any(size < 1 for size in shape):
        raise ShapeError(
            f"input '{info.name}': expected a static shape, found {_describe(tensor)}; bind it"
        )
    return _values(rng, shape, helper.tensor_dtype_to_np_dtype(tensor.elem_type))


def _values(rng: np.random.Generator, shape: Sequence[int], dtype: np.dtype[np.generic]) -> Array:
    if dtype == np.bool_:
        return rng.random(shape) < 0.5
    if np.issubdtype(dtype, np.integer):
        info = np.iinfo(dtype.name)
        low, high = (0, INDEX_LIMIT - 1) if info.bits >= 32 else (info.min, info.max)
        return rng.integers(low, high, shape, endpoint=True).astype(dtype)
    return np.asarray(rng.standard_normal(shape)).astype(dtype)


def _describe(tensor: onnx.TypeProto.Tensor) -> str:
    return str([dim.dim_param or int(dim.dim_value) for dim in tensor.shape.dim])
