"""Accesses other libraries' tensors in host memory through DLPack, without a copy."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.errors import InputError
from rammer_mlir.runtime.dlpack import CPU, Borrowed, borrow

Array = NDArray[np.generic]

_IMMUTABLE = ("jax", "jaxlib")
"""Packages whose arrays are immutable, though the memory that DLPack gives is writable."""


def readable(value: Any, what: str) -> Any:
    """Return a tensor of another library as a NumPy array that shares the tensor's memory.

    NumPy arrays, and values that do not support DLPack, are returned unchanged.

    Args:
        value: any value.
        what: name of the value in messages.

    Raises:
        InputError: if the tensor is not in host memory, or cannot be exported.
    """
    if not _is_foreign(value, what):
        return value
    try:
        found = borrow(value.__dlpack__())
        if found.is_dense and found.dtype is not None:
            return _array(found, found.dtype)
    except BufferError:
        pass  # read-only memory needs the newer DLPack version
    try:
        return np.from_dlpack(value)
    except (BufferError, RuntimeError) as error:
        raise _kept(value, what, error) from error


def writable(value: Any, what: str) -> Any:
    """Return a tensor of another library as a writable NumPy array that shares the memory.

    NumPy arrays, and values that do not support DLPack, are returned unchanged. ``what`` names the
    value in messages. The array is not made by ``np.from_dlpack``, because NumPy treats capsules of
    the older DLPack version as read-only and refuses bfloat16.

    Raises:
        InputError: if the tensor is not in host memory, not dense, or not writable.
    """
    if not _is_foreign(value, what):
        return value
    if type(value).__module__.partition(".")[0] in _IMMUTABLE:
        raise InputError(
            f"{what}: expected a writable array, found {type(value).__name__} of a library whose "
            "arrays never change; take numpy.empty"
        )
    try:
        found = borrow(value.__dlpack__())
    except BufferError as error:
        raise _kept(value, what, error) from error
    if not found.is_dense or found.dtype is None:
        problem = "an unknown element type" if found.dtype is None else "strides"
        raise InputError(
            f"{what}: expected a dense tensor in row-major order, found {problem}; copy it"
        )
    return _array(found, found.dtype)


def _is_foreign(value: Any, what: str) -> bool:
    if isinstance(value, np.ndarray) or not hasattr(value, "__dlpack_device__"):
        return False
    kind = int(value.__dlpack_device__()[0])
    if kind != CPU:
        raise InputError(
            f"{what}: expected a tensor in the host's memory (DLPack device {CPU}), found one on "
            f"DLPack device {kind}; move it"
        )
    return True


def _kept(value: object, what: str, error: Exception) -> InputError:
    return InputError(
        f"{what}: expected a tensor that DLPack can hand over, found one that "
        f"{type(value).__name__} keeps ({error}); copy it"
    )


def _array(found: Borrowed, dtype: np.dtype[np.generic]) -> Array:
    size = int(np.prod(found.shape)) * dtype.itemsize
    memory: Any = (ctypes.c_byte * size).from_address(found.address or ctypes.addressof(_NOTHING))
    memory.owner = found.owner  # array -> memory -> tensor keeps the owner alive
    return np.frombuffer(memory, np.uint8).view(dtype).reshape(found.shape)


_NOTHING = ctypes.c_byte()
"""Object with the address that tensors without elements get."""
