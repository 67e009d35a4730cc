"""Checks the number of threads that run a program, and pins threads to cores."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from numbers import Integral
from typing import Any

from rammer_mlir.errors import OptionError, TargetError

_MASK_BYTES = 128
"""Size in bytes of the C library's ``cpu_set_t``, which larger masks may exceed."""


def check_threads(count: object) -> int:
    """Return a thread count given by a user as an ``int``.

    Raises:
        OptionError: if ``count`` is not an integer of at least 1.
    """
    if isinstance(count, bool) or not isinstance(count, Integral) or count < 1:
        raise OptionError(f"threads: expected an integer of at least 1, found {count!r}")
    return int(count)


def check_cores(cores: Any, num_threads: int) -> tuple[int, ...]:
    """Return ``cores``, the core of each thread, as a tuple of integers; threads may share a core.

    Raises:
        OptionError: if the number of cores is not ``num_threads``, or this process may not use one
            of the cores.
    """
    allowed = os.sched_getaffinity(0)
    named = tuple(cores) if isinstance(cores, Iterable) else None
    if named is None or not all(isinstance(core, Integral) for core in named):
        raise OptionError(
            f"pinning: expected a list of numbers of cores, one for each thread, found {cores!r}"
        )
    if len(named) != num_threads or not set(named) <= allowed:
        raise OptionError(
            f"pinning: expected {num_threads} cores of {', '.join(map(str, sorted(allowed)))}, one "
            f"for each thread, found {', '.join(map(str, named)) or 'none'}; name others"
        )
    return tuple(map(int, named))


def pin_threads(handles: Iterable[int], cores: Iterable[Iterable[int]]) -> None:
    """Restrict the thread ``handles[i]``, a ``pthread_t``, to the set of cores ``cores[i]``.

    Raises:
        TargetError: if the system refuses.
    """
    library: Any = ctypes.CDLL(None)
    for handle, chosen in zip(handles, map(tuple, cores), strict=True):
        size = max(_MASK_BYTES, max(chosen, default=0) // 8 + 1)
        mask = sum(1 << core for core in chosen).to_bytes(size, "little")
        error = library.pthread_setaffinity_np(ctypes.c_ulong(handle), ctypes.c_size_t(size), mask)
        if error:
            raise TargetError(
                f"pinning a thread to cores {sorted(chosen)}: expected the system to do it, found "
                f"'{os.strerror(error)}'; leave pinning out"
            )


@contextmanager
def caller_on(core: int) -> Generator[None]:
    """Pin the calling thread to core ``core`` during a ``with`` block.

    At the end of the block, the thread may again use the cores that it could use before.
    """
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
