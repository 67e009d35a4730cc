"""Measure a cache's largest working set without misses, and the smallest with only misses.

A byte is lost if the cache evicts it before it is read again. As the working set grows, the
fraction of lost bytes rises gradually, not in a step at the cache's nominal size, because the
working set's bytes are distributed unevenly over the cache's sets. Working sets of several sizes
are read repeatedly. The time per byte begins to grow at the largest size without misses, and stops
growing at the smallest size with only misses.
"""

from __future__ import annotations

import statistics
import time

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.support.aligned import aligned_bytes

_ALLOCATIONS = 3
_STEPS = 8
"""Consecutive working-set sizes differ by the nominal cache size divided by this number."""
_HOT, _COLD = 0.5, 6.0
"""Sizes of working sets that surely fit and surely do not fit, in multiples of the cache."""
_BYTES = 16 << 20
"""Number of bytes that are read for each sample of the time."""
_BEGUN, _DONE = 0.1, 0.9
"""Fractions of lost data at two points; the line through them is extrapolated to 0 and 1."""


def cache_ends(cache_bytes: int, repeats: int) -> tuple[int, int]:
    """Return the largest working set that a cache keeps and the smallest that it loses, in bytes.

    A working set is kept if no byte of it misses the cache when the working set is read repeatedly,
    and lost if every byte misses. Both sizes are medians over ``_ALLOCATIONS`` allocations of
    memory, because an allocation's physical pages determine how evenly its bytes are distributed
    over the cache's sets. If larger working sets take no longer to read per byte, both sizes are
    ``cache_bytes``.

    Args:
        cache_bytes: nominal size of the cache in bytes.
        repeats: number of samples for each working set.
    """
    found = [_ends(cache_bytes, repeats) for _ in range(_ALLOCATIONS)]
    kept, lost = (int(statistics.median(ends)) for ends in zip(*found, strict=True))
    return kept, lost


def _ends(cache_bytes: int, repeats: int) -> tuple[int, int]:
    memory = aligned_bytes(int(_COLD * cache_bytes)).view(np.float32)
    memory[:] = 1.0  # otherwise all pages map the kernel's zero page
    hot, cold = (_seconds(memory, int(part * cache_bytes), repeats) for part in (_HOT, _COLD))
    # Main memory is about as fast as this cache: there is no step to locate.
    if cold < 1.2 * hot:
        return cache_bytes, cache_bytes
    sizes = [cache_bytes * step // _STEPS for step in range(_STEPS // 2, 4 * _STEPS)]
    lost = [(_seconds(memory, size, repeats) - hot) / (cold - hot) for size in sizes]
    return ends_of(sizes, lost)


def ends_of(sizes: list[int], lost: list[float]) -> tuple[int, int]:
    """Return the largest size that loses no data and the smallest size that loses all, in bytes.

    The two sizes are extrapolated linearly from the sizes at which 10 % and 90 % of the data are
    lost.

    Args:
        sizes: working-set sizes in bytes, in ascending order.
        lost: for each size, the fraction of the data that the cache evicts before it is read again.
    """
    grown = np.maximum.accumulate(np.array(lost))
    begun, done = (float(np.interp(part, grown, sizes)) for part in (_BEGUN, _DONE))
    beyond = (done - begun) * _BEGUN / (_DONE - _BEGUN)
    return int(begun - beyond), int(done + beyond)


def _seconds(memory: NDArray[np.float32], num_bytes: int, repeats: int) -> float:
    """Read a working set repeatedly; return this thread's processor time in seconds per byte read.

    The working set is the first ``num_bytes`` bytes of ``memory``. A sample reads about ``_BYTES``
    bytes; the result is the median of the faster half of ``repeats`` samples.
    """
    part = memory[: num_bytes // memory.itemsize]
    circles = max(_BYTES // num_bytes, 1)
    part.max()
    samples: list[float] = []
    for _ in range(repeats):
        begin = time.thread_time()
        for _ in range(circles):
            part.max()
        samples.append((time.thread_time() - begin) / (circles * num_bytes))
    # The faster half: other work on the machine only slows reads down.
    return statistics.median(sorted(samples)[: (repeats + 1) // 2])
