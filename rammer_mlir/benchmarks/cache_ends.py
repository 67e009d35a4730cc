"""From where to where a core's own cache loses what is used again and again, measured.

A cache of so many bytes does not keep all that is used again after fewer bytes, and lose all that
is after more: some of its sets get more than their part of the memory. Memory of several sizes is
read in circles; where a circle begins to take longer for each byte, and where it no longer gets
slower, are the two ends.
"""

from __future__ import annotations

import statistics
import time

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.support.aligned import aligned_bytes

_ALLOCATIONS = 3
_STEPS = 8
"""Circles are this often a part of the cache's size longer than the one before."""
_HOT, _COLD = 0.5, 6.0
"""Circles that surely fit, and surely do not, in sizes of the cache."""
_BYTES = 16 << 20
"""Bytes that are read for one sample."""
_BEGUN, _DONE = 0.1, 0.9
"""Parts of the loss that are clearly seen; the ends lie as far beyond them as a line says."""


def cache_ends(cache_bytes: int, repeats: int) -> tuple[int, int]:
    """Return bytes up to which everything is kept, and bytes from which everything is lost.

    Both are the cache's size where reading memory beyond it takes no longer. Which sets get too
    much depends on where the system put the memory: these are medians over some allocations.
    """
    found = [_ends(cache_bytes, repeats) for _ in range(_ALLOCATIONS)]
    kept, lost = (int(statistics.median(ends)) for ends in zip(*found, strict=True))
    return kept, lost


def _ends(cache_bytes: int, repeats: int) -> tuple[int, int]:
    memory = aligned_bytes(int(_COLD * cache_bytes)).view(np.float32)
    memory[:] = 1.0  # or else all pages are the same one
    hot, cold = (_seconds(memory, int(part * cache_bytes), repeats) for part in (_HOT, _COLD))
    if cold < 1.2 * hot:
        return cache_bytes, cache_bytes
    sizes = [cache_bytes * step // _STEPS for step in range(_STEPS // 2, 4 * _STEPS)]
    lost = [(_seconds(memory, size, repeats) - hot) / (cold - hot) for size in sizes]
    return ends_of(sizes, lost)


def ends_of(sizes: list[int], lost: list[float]) -> tuple[int, int]:
    """Lay a line through where a tenth is lost and where a tenth is kept.

    Args:
        sizes: bytes in ascending order.
        lost: the part of what is used again that is lost at each size.
    """
    grown = np.maximum.accumulate(np.array(lost))
    begun, done = (float(np.interp(part, grown, sizes)) for part in (_BEGUN, _DONE))
    beyond = (done - begun) * _BEGUN / (_DONE - _BEGUN)
    return int(begun - beyond), int(done + beyond)


def _seconds(memory: NDArray[np.float32], num_bytes: int, repeats: int) -> float:
    """Return the processor's seconds for each byte that is read in a circle."""
    part = memory[: num_bytes // memory.itemsize]
    circles = max(_BYTES // num_bytes, 1)
    part.max()
    samples: list[float] = []
    for _ in range(repeats):
        begin = time.thread_time()
        for _ in range(circles):
            part.max()
        samples.append((time.thread_time() - begin) / (circles * num_bytes))
    return statistics.median(sorted(samples)[: (repeats + 1) // 2])
