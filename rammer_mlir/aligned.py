"""Memory that begins on a cache line."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

ALIGNMENT = 64
"""Bytes: a cache line, and the widest vector register."""


def aligned_bytes(size: int) -> NDArray[np.uint8]:
    """Return zeroed memory of ``size`` bytes that begins on a cache line."""
    raw = np.zeros(size + ALIGNMENT, dtype=np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + size]
