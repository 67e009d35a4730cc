"""Converts torch tensors to NumPy arrays and back, with shared memory where that is possible."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.errors import InputError
from rammer_mlir.frontends.pytorch.package import pytorch
from rammer_mlir.support.packages import narrow_floats

_PROCESSOR = "cpu"
"""torch's name of the device whose memory NumPy can access."""

_NARROW = {
    "bfloat16": "uint16",
    "float8_e4m3fn": "uint8",
    "float8_e4m3fnuz": "uint8",
    "float8_e5m2": "uint8",
    "float8_e5m2fnuz": "uint8",
}
"""The integer type in which elements are exchanged with torch, by type of ml_dtypes."""


def array_of(name: str, value: object) -> Any:
    """Return a tensor as an array, which shares memory with a row-major tensor on the CPU.

    Other tensors are copied. ``value`` may also be a number or an array, which is converted.
    ``name`` is the input's name in messages.

    Raises:
        InputError: if the tensor is on another device, or is not dense.
    """
    torch = pytorch()
    if not isinstance(value, torch.Tensor):
        return np.asarray(value)
    tensor: Any = value
    array = _numpy_of(tensor)
    if array is not None and array.flags.c_contiguous:
        return array
    is_here = tensor.device.type == _PROCESSOR
    if not is_here or tensor.layout is not torch.strided:
        found = tensor.layout if is_here else f"device '{tensor.device}'"
        raise InputError(
            f"input '{name}': expected a dense tensor on the CPU, found {found}; convert it first"
        )
    tensor = tensor.detach().resolve_conj().resolve_neg().contiguous()
    kind = str(tensor.dtype).removeprefix("torch.")
    if kind in _NARROW:
        words = tensor.view(getattr(torch, _NARROW[kind])).numpy()
        return words.view(getattr(narrow_floats(), kind))
    return tensor.numpy()


def real_pairs(value: object) -> object:
    """Return a complex tensor as pairs of real numbers, in a last dimension of 2.

    Any other object is returned as it is.
    """
    torch = pytorch()
    if not isinstance(value, torch.Tensor):
        return value
    tensor: Any = value
    return torch.view_as_real(tensor.detach().resolve_conj()) if tensor.is_complex() else value


def _numpy_of(tensor: Any) -> Any:
    """Return a NumPy array that shares the tensor's memory; None if torch refuses the conversion.

    Torch refuses tensors that need a gradient, are not on the CPU, are sparse, have a lazy
    conjugation or negation, or have an element type that NumPy lacks.
    """
    try:
        return tensor.numpy()
    except (RuntimeError, TypeError):
        return None


def tensor_of(array: NDArray[np.generic]) -> Any:
    """Return a tensor that shares the memory of ``array``."""
    torch = pytorch()
    found = np.asarray(array)
    # Asking for a type's name takes longer than the conversion; only types of packages need it.
    kind = "" if found.dtype.isbuiltin == 1 else found.dtype.name
    if kind in _NARROW:
        return torch.from_numpy(found.view(_NARROW[kind])).view(getattr(torch, kind))
    return torch.from_numpy(found)
