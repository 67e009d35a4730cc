"""Calling native code: a pool of persistent threads, one per vEU but the caller's."""

from __future__ import annotations

import ctypes
import os
import weakref
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.aligned import aligned_bytes
from rammer_mlir.errors import TargetError

_LINE = 64
_HEADER = 320
_IDLE_LOOKS = 2000
"""Looks of an idle thread before it sleeps: some tens of microseconds."""

_BUSY_SPINS = 4000
"""Looks of a waiting vEU before it gives way, when every vEU has a core of its own."""

_CROWDED_SPINS = 16
"""The same when vEUs share cores: whoever is waited for needs the core."""

AddressOf = Callable[[str], int]
"""Looks up an exported function of the native code."""


@dataclass(frozen=True)
class NativeCode:
    """Exported functions of a compiled program; ``owner`` keeps the code in memory."""

    start: Callable[[int], int]
    launch: Callable[[int, int, int, int], None]
    stop: Callable[[int, int], None]
    entry: int
    traced_entry: int
    owner: object


def native_code(address_of: AddressOf, owner: object) -> NativeCode:
    """Bind the runtime's functions by their addresses."""
    pointer, word = ctypes.c_void_p, ctypes.c_int64
    return NativeCode(
        start=ctypes.CFUNCTYPE(word, pointer)(address_of("rammer_start")),
        launch=ctypes.CFUNCTYPE(None, pointer, pointer, pointer, word)(address_of("rammer_launch")),
        stop=ctypes.CFUNCTYPE(None, pointer, word)(address_of("rammer_stop")),
        entry=address_of("rammer_veu"),
        traced_entry=address_of("rammer_veu_traced"),
        owner=owner,
    )


class ThreadPool:
    """Threads that execute a program's vEUs; idle ones sleep.

    A pool belongs to the process that created it: after a fork, the child creates its own.
    """

    def __init__(self, code: NativeCode, num_veus: int) -> None:
        """Create ``num_veus - 1`` threads.

        Raises:
            TargetError: if the system refuses to create them.
        """
        self._memory = aligned_bytes(_HEADER + _LINE * num_veus)
        self._memory[256:272].view(np.int64)[:] = (num_veus, _IDLE_LOOKS)
        self._code = code
        self.process = os.getpid()
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
        self.spins = _BUSY_SPINS if num_veus <= cores else _CROWDED_SPINS
        result = code.start(self._memory.ctypes.data)
        if result:
            code.stop(self._memory.ctypes.data, result >> 32)
            raise TargetError(
                f"cannot create {num_veus - 1} threads: the system made {(result >> 32) - 1} "
                f"({os.strerror(result & 0xFFFFFFFF)}); use fewer vEUs"
            )
        self._finalizer = weakref.finalize(self, _stop, code, self._memory, num_veus, self.process)

    def launch(self, entry: int, context: int) -> None:
        """Execute an entry function on every vEU; the caller's thread is vEU 0."""
        self._code.launch(self._memory.ctypes.data, entry, context, self.spins)

    def close(self) -> None:
        """End the threads."""
        self._finalizer()


def _stop(code: NativeCode, memory: NDArray[np.uint8], num_veus: int, process: int) -> None:
    if os.getpid() == process:
        code.stop(memory.ctypes.data, num_veus)
