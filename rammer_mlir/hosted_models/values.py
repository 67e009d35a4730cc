"""Checks the values of a run's inputs, and converts them to the values that the host computes."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.errors import InputError
from rammer_mlir.hosted_models.parts import Value
from rammer_mlir.open_models.arrays import check_dtype
from rammer_mlir.programs.dimensions import HostType, OpenTensor, fits, shape_text
from rammer_mlir.runtime.host_arrays import readable

Array = NDArray[Any]


def host_value(tensor: OpenTensor, given: Any) -> Value:
    """Return a value that the user gives for the input ``tensor`` as arrays of NumPy.

    Arrays are not copied. The shape of a tensor is not checked, nor is a value whose type is
    unknown.

    Raises:
        InputError: if a dtype, or the type of a sequence or optional value, is not the input's.
    """
    what = f"input '{tensor.name}'"
    if tensor.host_type is not None:
        return _typed(tensor.host_type, given, what)
    if isinstance(given, list) and not tensor.is_tensor:
        return [np.asarray(each) for each in cast("list[Any]", given)]
    if given is None:
        return None
    array = np.asarray(readable(given, what))
    check_dtype(tensor, array)
    return array


def _typed(kind: HostType, given: Any, what: str) -> Value:
    """Return a sequence of tensors, a tensor, or None for an absent optional value.

    Raises:
        InputError: if ``given`` is not of type ``kind``; the message names the value ``what``.
    """
    if given is None and kind.is_optional:
        return None
    if not kind.is_sequence:
        if isinstance(given, list | tuple):
            raise InputError(
                f"{what}: expected an array or None, found {type(given).__name__}; convert it with "
                "np.asarray"
            )
        return _array(kind, given, what)
    if not isinstance(given, list | tuple):
        raise InputError(
            f"{what}: expected a list or tuple of arrays, found {type(given).__name__}; give a "
            "list of its elements"
        )
    elements = enumerate(cast("list[Any]", given))
    return [_array(kind, each, f"element {number} of {what}") for number, each in elements]


def _array(kind: HostType, given: Any, what: str) -> Array:
    try:
        array = np.asarray(readable(given, what))
    except ValueError as error:
        raise InputError(
            f"{what}: expected an array, found {type(given).__name__}; give equally many "
            "elements in each dimension"
        ) from error
    is_text = array.dtype.kind == "U" and kind.dtype == object
    if array.dtype != kind.dtype and not is_text:
        raise InputError(
            f"{what}: expected dtype {kind.dtype}, found {array.dtype}; convert it with "
            f".astype('{kind.dtype}')"
        )
    if kind.shape is not None and not fits(kind.shape, array.shape):
        raise InputError(
            f"{what}: expected shape {shape_text(kind.shape)}, found {shape_text(array.shape)}; "
            "give an array of this shape"
        )
    return array
