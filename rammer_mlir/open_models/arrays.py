"""Checks the arrays given to a run against the model's signature, and returns their shapes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.errors import InputError
from rammer_mlir.programs.dimensions import OpenSignature, OpenTensor, Shape, bind


def shapes_of(signature: OpenSignature, feeds: Mapping[str, Any]) -> dict[str, Shape]:
    """Return the shape of each input's array, by input name.

    Args:
        signature: the model's inputs, with symbols in their shapes.
        feeds: arrays by input name.

    Raises:
        InputError: lists all unknown or missing names, all wrong dtypes and shapes, and all symbols
            that have different sizes in different arrays.
    """
    known = ", ".join(map(str, signature.inputs)) or "none"
    if not hasattr(feeds, "keys"):
        raise InputError(
            f"inputs: expected a mapping from names to arrays, found {type(feeds).__name__}; give "
            f"{known} by name"
        )
    names = [tensor.name for tensor in signature.inputs]
    problems = [f"unknown input '{name}'" for name in feeds if name not in names]
    problems += [f"input '{name}' is missing" for name in names if name not in feeds]
    given = [(t, feeds[t.name]) for t in signature.inputs if t.name in feeds and t.is_tensor]
    shapes: dict[str, Shape] = {}
    for tensor, value in given:
        problems += _type_problems(tensor, value)
        shape = _shape(value)
        if shape is None:
            problems.append(f"input '{tensor.name}': expected an array")
        else:
            shapes[tensor.name] = shape
    problems += bind(signature, shapes).problems
    if problems:
        raise InputError(f"{'; '.join(problems)}: expected {known}")
    return shapes


def check_dtype(tensor: OpenTensor, array: NDArray[Any]) -> None:
    """Check the dtype of an input's array.

    Raises:
        InputError: if the dtype is not that of ``tensor``.
    """
    for problem in _type_problems(tensor, array):
        raise InputError(problem)


def _type_problems(tensor: OpenTensor, value: Any) -> Iterator[str]:
    """Yield a message if the dtype of the array ``value`` is not that of the input ``tensor``.

    A device array of another library is not checked here, but by the run that reads the array.
    """
    if isinstance(value, np.ndarray) or not hasattr(value, "__dlpack_device__"):
        dtype = _dtype(value)
        if dtype is not None and tensor.dtype is not None and dtype != tensor.dtype:
            yield (
                f"input '{tensor.name}': expected dtype {tensor.dtype}, found {dtype}; convert it "
                f"with .astype('{tensor.dtype}')"
            )


def _dtype(value: Any) -> np.dtype[Any] | None:
    if isinstance(value, np.ndarray | np.generic):
        return value.dtype
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return None  # device arrays are checked by the run
    try:
        return np.asarray(value).dtype
    except ValueError:
        return None  # _shape reports that it is not an array


def _shape(value: Any) -> Shape | None:
    """Return an array's shape, or None if the value is not an array."""
    try:
        found = value.shape if hasattr(value, "shape") else np.shape(value)
        return tuple(map(int, found))
    except (TypeError, ValueError):
        return None
