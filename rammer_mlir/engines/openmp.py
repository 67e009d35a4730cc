"""Ends the OpenMP threads of loaded libraries before the process forks.

A forked child does not inherit these threads, but OpenMP in the child would wait for them forever.
"""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Sequence

from rammer_mlir.engines.functions import call_for_status
from rammer_mlir.engines.requirements import find_function

_SOFT = 1
"""OpenMP's ``omp_pause_soft``: settings and variables of threads are kept (5.0, section 3.2.43)."""

_pauses: dict[int, None] = {}
"""Addresses of ``omp_pause_resource_all`` in OpenMP libraries, which are never unloaded."""


def pause_before_forks(libraries: Sequence[ctypes.CDLL]) -> None:
    """End, before each later fork, the OpenMP threads that work for the forking thread.

    The OpenMP libraries are those in ``libraries``; other libraries are ignored. The next parallel
    region starts new threads.
    """
    found = find_function(libraries, "omp_pause_resource_all")
    if found:
        _watch_forks()
        _pauses[found] = None


@functools.cache
def _watch_forks() -> None:
    os.register_at_fork(before=_pause)


def _pause() -> None:
    for address in tuple(_pauses):
        call_for_status(address, _SOFT)
