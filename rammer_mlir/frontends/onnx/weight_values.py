"""Converts constants to arguments of the program, so that code does not depend on their values."""

from __future__ import annotations

import numpy as np
from onnx import helper

from rammer_mlir.frontends.onnx.model import Model
from rammer_mlir.frontends.onnx.tensors import Array, small_constants

_MOST_LITERALS = 16
"""Largest number of elements of a floating-point constant that stays in the graph.

The compiler may use the value of a constant in the graph.
"""

_FLOATS = (np.float16, np.float32, np.float64)


def set_weights_aside(model: Model) -> None:
    """Convert a model's larger floating-point constants to weight arguments; modify ``model``.

    A weight argument is an argument of the compiled program. The compiler cannot see its value, so
    models that differ only in such values have equal programs. Integers, constants of at most 16
    elements, and splats stay constants: builders and canonicalization use their values.
    """
    values = _small_weights(model)
    if not values:
        return
    kept = [tensor for tensor in model.graph.initializer if tensor.name not in values]
    copies = [type(tensor).FromString(tensor.SerializeToString()) for tensor in kept]
    del model.graph.initializer[:]
    model.graph.initializer.extend(copies)
    for name, value in values.items():
        kind = helper.np_dtype_to_tensor_dtype(value.dtype)
        model.graph.input.append(helper.make_tensor_value_info(name, kind, value.shape))
        model.weights[name] = value


def weight_values(model: Model) -> dict[str, Array]:
    """Return the arrays that the program of ``model`` takes as weight arguments, by name.

    The result is the same before and after ``set_weights_aside``.
    """
    return {**_small_weights(model), **model.weights}


def _small_weights(model: Model) -> dict[str, Array]:
    return {n: v for n, v in small_constants(model.graph).items() if _is_weight(v)}


def _is_weight(value: Array) -> bool:
    if value.size <= _MOST_LITERALS or value.dtype.type not in _FLOATS:
        return False
    words = np.ascontiguousarray(value).view(f"u{value.dtype.itemsize}")  # NaN equals itself
    return bool((words != words.flat[0]).any())
