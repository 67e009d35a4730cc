"""Allocates memory aligned to cache lines."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from numpy.typing import NDArray

ALIGNMENT = 64
"""Alignment in bytes of a cache line, and of the widest vector register."""


_addressof = ctypes.addressof
_from_buffer: Any = ctypes.c_byte.from_buffer  # accepts any writable buffer


def aligned_bytes(size: int) -> NDArray[np.uint8]:
    """Return ``size`` zeroed bytes, aligned to a cache line."""
    raw = np.zeros(size + ALIGNMENT, dtype=np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + size]


def address_of(array: NDArray[np.generic]) -> int:
    """Return the memory address of a dense array's data.

    For writable arrays this is faster than ``array.ctypes.data``.
    """
    try:
        return _addressof(_from_buffer(array))
    except (BufferError, TypeError, ValueError):
        # Read-only, empty, or of an element type without a buffer format.
        return array.ctypes.data
