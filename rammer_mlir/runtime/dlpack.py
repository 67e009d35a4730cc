"""Reads and creates DLPack tensors (capsules of version 0.8) with ``ctypes``.

Reference: the structures in the Python specification of DLPack, https://dmlc.github.io/dlpack.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from rammer_mlir.programs.signature import TensorSpec
from rammer_mlir.support.packages import narrow_floats

CPU, CUDA, ROCM = 1, 2, 10
"""DLPack's numbers of device types."""

_NAME = b"dltensor"
_CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
_EXTENSIONS = {
    "bfloat16": (4, 16),
    "float8_e4m3fn": (10, 8),
    "float8_e4m3fnuz": (11, 8),
    "float8_e5m2": (12, 8),
    "float8_e5m2fnuz": (13, 8),
    "float8_e8m0fnu": (14, 8),
}
"""DLPack's type codes and bits of the ml_dtypes element types, by name."""


class _Device(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int32), ("number", ctypes.c_int32)]


class _DataType(ctypes.Structure):
    _fields_ = [
        ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
    ]  # fmt: skip


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("ndim", ctypes.c_int32),
        ("dtype", _DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Managed(ctypes.Structure):
    _fields_ = [
        ("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", _Deleter),
    ]  # fmt: skip


_CapsuleDestructor = ctypes.CFUNCTYPE(None, ctypes.c_void_p)

_new_capsule: Any = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = (ctypes.c_void_p, ctypes.c_char_p, _CapsuleDestructor)

_pointer_of: Any = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype = ctypes.c_void_p
_pointer_of.argtypes = (ctypes.py_object, ctypes.c_char_p)

# Prototypes for raw addresses: wrapping a capsule in an object during its destruction would take a
# reference to it again.
_raw: Any = ctypes.PyDLL(None)
_is_unused: Callable[[int, bytes], int] = _raw.PyCapsule_IsValid
_raw.PyCapsule_IsValid.argtypes = (ctypes.c_void_p, ctypes.c_char_p)
_raw_pointer: Callable[[int, bytes], int] = _raw.PyCapsule_GetPointer
_raw.PyCapsule_GetPointer.argtypes = (ctypes.c_void_p, ctypes.c_char_p)
_raw.PyCapsule_GetPointer.restype = ctypes.c_void_p


@dataclass(frozen=True)
class Borrowed:
    """A tensor of another library, used in place.

    Attributes:
        address: address of the tensor's first element.
        shape: the tensor's shape.
        dtype: the element type; None if NumPy and ml_dtypes have no such type.
        is_dense: whether the elements are contiguous in row-major order.
        owner: the object that keeps the tensor's memory alive.
    """

    address: int
    shape: tuple[int, ...]
    dtype: np.dtype[np.generic] | None
    is_dense: bool
    owner: object


def borrow(capsule: object) -> Borrowed:
    """Return the tensor of a capsule from ``__dlpack__`` without consuming the capsule.

    The capsule remains the owner of the tensor, and frees it.
    """
    managed = ctypes.cast(_pointer_of(capsule, _NAME), ctypes.POINTER(_Managed)).contents
    tensor = managed.tensor
    shape = tuple(tensor.shape[: tensor.ndim])
    strides = tuple(tensor.strides[: tensor.ndim]) if tensor.strides else _dense_strides(shape)
    address = (tensor.data or 0) + tensor.byte_offset
    kind = tensor.dtype
    dtype = _dtype(kind.code, kind.bits) if kind.lanes == 1 else None
    return Borrowed(address, shape, dtype, is_dense(shape, strides), capsule)


def is_dense(shape: tuple[int, ...], strides: tuple[int, ...], unit: int = 1) -> bool:
    """Return whether a tensor's elements are contiguous in row-major order.

    ``unit`` is the stride of adjacent elements: 1 if ``strides`` count elements, the size of an
    element if they count bytes.
    """
    expected = _dense_strides(shape)
    pairs = zip(shape, strides, expected, strict=True)
    return 0 in shape or all(size == 1 or found == unit * want for size, found, want in pairs)


def _dense_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.insert(0, step)
        step *= size
    return tuple(strides)


def _dtype(code: int, bits: int) -> np.dtype[np.generic] | None:
    for name, kind in _EXTENSIONS.items():
        if kind == (code, bits):
            return np.dtype(getattr(narrow_floats(), name))
    letters = {number: letter for letter, number in _CODES.items()}
    if code not in letters or bits % 8:
        return None
    try:
        return np.dtype(f"{letters[code]}{bits // 8}")
    except TypeError:  # NumPy has no such width
        return None


def _code_of(dtype: np.dtype[np.generic]) -> tuple[int, int]:
    if dtype.name in _EXTENSIONS:
        return _EXTENSIONS[dtype.name]
    if dtype.kind not in _CODES:
        raise BufferError(f"DLPack has no tensors of {dtype} with a byte for each element")
    return _CODES[dtype.kind], dtype.itemsize * 8


_lent: dict[int, tuple[_Managed, object, object]] = {}
"""Exported tensors by address of their structure, kept until the consumer frees them.

Each entry has the structure, its shape and stride arrays, and the owner of the memory.
"""


def lend(address: int, spec: TensorSpec, device: tuple[int, int], owner: object) -> object:
    """Return a capsule of a dense tensor in memory of this process or of a GPU.

    Args:
        address: address of the first element.
        spec: shape and dtype.
        device: DLPack's device type and device number.
        owner: owner of the memory, kept alive until the consumer calls the deleter.

    Raises:
        BufferError: for elements of fewer than 8 bits, which DLPack packs.
    """
    ndim = len(spec.shape)
    sizes = (ctypes.c_int64 * max(ndim, 1))(*spec.shape)
    strides = (ctypes.c_int64 * max(ndim, 1))(*_dense_strides(spec.shape))
    code, bits = _code_of(spec.dtype)
    managed = _Managed()
    managed.tensor = _Tensor(
        address, _Device(*device), ndim, _DataType(code, bits, 1),
        sizes, strides, 0,
    )  # fmt: skip
    managed.deleter = _give_back
    place = ctypes.addressof(managed)
    # Keeps structure, arrays and owner alive until the consumer's deleter call.
    _lent[place] = managed, (sizes, strides), owner
    return _new_capsule(place, _NAME, _destroy)


@_Deleter
def _give_back(place: int) -> None:
    _lent.pop(place, None)


@_CapsuleDestructor
def _destroy(capsule: int) -> None:
    """Free the tensor of a capsule that no consumer has taken."""
    if _is_unused(capsule, _NAME):
        _lent.pop(_raw_pointer(capsule, _NAME), None)
