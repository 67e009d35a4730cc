"""Provides the pool of threads that all programs of a process share."""

from __future__ import annotations

import os
import threading
import weakref

from rammer_mlir.runtime.pinning import check_threads
from rammer_mlir.runtime.pool import NativeCode, ThreadPool
from rammer_mlir.support.usable_cores import usable_cores


class SharedPool:
    """Creates the shared pool when a program needs the pool, and again when the size changes.

    The pool exists as long as a program uses it. The pool's threads execute native code of the
    program for which the pool was created, so the pool keeps that code in memory.
    """

    def __init__(self) -> None:
        """Begin without a pool; the first pool will have a thread for each usable core."""
        self._lock = threading.Lock()
        self._count: int | None = None
        self._pool: weakref.ref[ThreadPool] | None = None

    @property
    def count(self) -> int:
        """Greatest number of threads of the pool that compute at the same time."""
        return usable_cores() if self._count is None else self._count

    def get(self, code: NativeCode) -> ThreadPool:
        """Return the shared pool; create it if it does not exist.

        ``code`` has the functions of the program that asks for the pool. A new pool uses these
        functions to start and stop its threads.
        """
        with self._lock:
            pool = None if self._pool is None else self._pool()
            if pool is None:
                pool = ThreadPool(code, self.count)
                self._pool = weakref.ref(pool)
            return pool

    def resize(self, count: int | None) -> None:
        """Let at most ``count`` threads compute; None for the number of usable cores."""
        with self._lock:
            self._count = count
            pool = None if self._pool is None else self._pool()
            if pool is not None:
                pool.is_retired = True
            self._pool = None

    def forget(self) -> None:
        """Forget the pool and its lock, in a child process after a fork."""
        self._lock, self._pool = threading.Lock(), None


SHARED = SharedPool()
"""The pool of this process."""

os.register_at_fork(after_in_child=SHARED.forget)


def use_threads(count: int | None) -> None:
    """Let at most ``count`` threads of this process run compiled models at the same time.

    All models share these threads, except those with threads of their own (``Executable.pin`` and
    ``Executable.use_threads``). ``count`` includes the threads that call ``run``: up to ``count``
    runs can be in progress at the same time, and additional runs wait in order. Runs that are in
    progress during this call are not affected. The pool's threads inherit the CPU affinity of the
    thread that runs a model first.

    Args:
        count: the number of threads; None for the number of cores that the process may use, which
            is the default.

    Raises:
        OptionError: if ``count`` is not an integer of at least 1.
    """
    SHARED.resize(None if count is None else check_threads(count))
