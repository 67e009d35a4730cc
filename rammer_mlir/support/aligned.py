"""Allocates memory aligned to cache lines."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

ALIGNMENT = 64
"""Alignment in bytes of a cache line, and of the widest vector register."""


LARGE = 1 << 16
"""Least size in bytes of the arrays that ``aligned_empty`` aligns.

Copying a smaller array takes less time than what alignment avoids.
"""

_addressof = ctypes.addressof
_from_buffer: Any = ctypes.c_byte.from_buffer  # accepts any writable buffer


def aligned_bytes(size: int) -> NDArray[np.uint8]:
    """Return ``size`` zeroed bytes, aligned to a cache line."""
    return _aligned_part(np.zeros(size + ALIGNMENT, dtype=np.uint8))


def aligned_empty(shape: Sequence[int], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return an uninitialized array, aligned to a cache line if it has at least ``LARGE`` bytes."""
    size = math.prod(shape) * dtype.itemsize
    if size < LARGE:
        return np.empty(shape, dtype)
    memory = _aligned_part(np.empty(size + ALIGNMENT, dtype=np.uint8))
    return memory.view(dtype).reshape(shape)


def _aligned_part(memory: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the bytes from the first cache line on; there are ``ALIGNMENT`` fewer than given."""
    start = -address_of(memory) % ALIGNMENT
    return memory[start : start + memory.size - ALIGNMENT]


def address_of(array: NDArray[np.generic]) -> int:
    """Return the memory address of a dense array's data.

    For writable arrays this is faster than ``array.ctypes.data``.
    """
    try:
        return _addressof(_from_buffer(array))
    except (BufferError, TypeError, ValueError):
        # Read-only, empty, or of an element type without a buffer format.
        return array.ctypes.data
