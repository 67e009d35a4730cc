"""Calls native code through a pool of persistent threads, including the caller's thread."""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.errors import TargetError
from rammer_mlir.programs.cpu_image import CpuImage
from rammer_mlir.programs.native_interface import (
    ENTRY,
    LAUNCH,
    MODULES,
    POOL,
    REPEAT,
    START,
    STATUS,
    STOP,
    THREAD,
    TRACED_ENTRY,
    VEU,
)
from rammer_mlir.support.aligned import address_of, aligned_bytes

WAIT_POLLS = 64
"""Number of polls of a thread at a barrier before it releases the vEU: some microseconds.

Most waits on an otherwise idle machine are shorter, and releasing a vEU and taking it again costs
about ten polls.
"""

_SPINS = 16
"""Number of polls of a thread without a vEU before it yields between polls: a microsecond.

More polls gain little on idle cores, where yielding is a short system call, and cost much when
threads or other processes share cores, because the awaited thread needs the core.
"""

_PATIENCE = 256
"""Number of times that a thread finds another thread's vEU ready before it takes it over.

They take some 20 microseconds. Within that time the other thread returns from yielding or wakes up,
and has the vEU's data in its caches. Measured: with 32, runs of models on an otherwise idle machine
take 1 % longer.
"""

_IDLE_POLLS = 200
"""Number of polls of an idle thread before it sleeps: some tens of microseconds."""

AddressOf = Callable[[str], int]
"""Returns the address of an exported function of the native code."""


@dataclass(frozen=True)
class NativeCode:
    """Exported functions and variables of a compiled program.

    The first argument of ``start``, ``launch``, ``stop`` and ``repeat`` is the address of the
    memory of a thread pool.

    Attributes:
        start: creates the threads of the pool.
        launch: executes an entry function on every vEU.
        stop: ends threads of the pool.
        repeat: executes an entry function on every vEU repeatedly.
        entry: address of the entry function, which executes the records of one vEU.
        traced_entry: address of the entry function that also records times.
        owner: an object that keeps the code in memory.
        status: the status word of external rKernels; None without external rKernels.
        modules: the address of the table of stateful functions; 0 without such functions.
    """

    start: Callable[[int], int]
    launch: Callable[[int, int, int], None]
    stop: Callable[[int, int], None]
    repeat: Callable[[int, int, int, int], int]
    entry: int
    traced_entry: int
    owner: object
    status: ctypes.c_int64 | None = None
    modules: int = 0


def native_code(address_of: AddressOf, owner: object, image: CpuImage | None = None) -> NativeCode:
    """Return the functions and variables that a program's native code exports.

    Args:
        address_of: returns the address of an exported function or variable, given its name.
        owner: an object that keeps the code in memory.
        image: the program's data; None if the program has no external rKernels.
    """
    pointer, word = ctypes.c_void_p, ctypes.c_int64
    return NativeCode(
        start=ctypes.CFUNCTYPE(word, pointer)(address_of(START)),
        launch=ctypes.CFUNCTYPE(None, pointer, pointer, pointer)(address_of(LAUNCH)),
        stop=ctypes.CFUNCTYPE(None, pointer, word)(address_of(STOP)),
        repeat=ctypes.CFUNCTYPE(word, pointer, pointer, pointer, pointer)(address_of(REPEAT)),
        entry=address_of(ENTRY),
        traced_entry=address_of(TRACED_ENTRY),
        owner=owner,
        status=word.from_address(address_of(STATUS)) if image and image.modules else None,
        modules=address_of(MODULES) if image and image.entries else 0,
    )


class ThreadPool:
    """Threads that execute the vEUs of a program; idle threads sleep.

    A thread executes a vEU until a barrier has to wait; then it may continue another vEU. A pool
    belongs to the process that created it: after a fork, the child creates another pool.
    """

    def __init__(
        self,
        code: NativeCode,
        num_veus: int,
        keeps: object,
        num_threads: int | None = None,
        *,
        is_bound: bool = False,
    ) -> None:
        """Create all threads of the pool except thread 0, which is the one that calls ``launch``.

        Args:
            code: functions of the program.
            num_veus: the number of vEUs that each launch executes.
            keeps: an object that owns the memory that launches use. The pool keeps it alive until
                its threads have ended, because a thread may still poll step counters in this memory
                after a launch has returned.
            num_threads: the number of threads including thread 0; None for the number of vEUs.
            is_bound: whether vEU ``i`` runs only on thread ``i``.

        Raises:
            TargetError: if the system refuses to create threads.
        """
        num_threads = num_veus if num_threads is None else num_threads
        first_state = POOL.itemsize + THREAD.itemsize * num_threads
        self._memory = aligned_bytes(first_state + VEU.itemsize * num_veus)
        self._address = address_of(self._memory)
        self._code = code
        head = self._memory[: POOL.itemsize].view(POOL)
        head["num_veus"], head["num_threads"] = num_veus, num_threads
        head["veus"] = self._address + first_state
        head["spins"], head["idle_polls"] = _SPINS, _IDLE_POLLS
        # A bound vEU is never taken over.
        head["patience"] = np.iinfo(np.int64).max if is_bound else _PATIENCE
        self._launching = threading.Lock()
        # Register the finalizer before starting threads: an interrupt in between must not free
        # their memory.
        self._finalizer = weakref.finalize(
            self, _stop, code, self._memory, keeps, os.getpid(), self._launching
        )
        result = code.start(self._address)
        if result:
            # Detached, so that the threads are not stopped again later.
            self._finalizer.detach()
            code.stop(self._address, result >> 32)
            raise TargetError(
                f"cannot create {num_threads - 1} threads: the system made {(result >> 32) - 1} "
                f"({os.strerror(result & 0xFFFFFFFF)}); use fewer vEUs"
            )

    @property
    def handles(self) -> list[int]:
        """The ``pthread_t`` of each thread except the caller's."""
        return _threads(self._memory)["handle"][1:].tolist()

    def launch(self, entry: int, context: int) -> None:
        """Execute an entry function on every vEU; the calling thread begins with vEU 0.

        ``entry`` is the address of the function, ``context`` the address of its argument, the array
        of 64-bit words that compiled code reads.
        """
        with self._launching:
            self._code.launch(self._address, entry, context)

    def repeat(self, entry: int, context: int, repetition: int) -> int:
        """Execute an entry function on every vEU repeatedly; return the number of repetitions.

        ``entry`` and ``context`` are addresses as in ``launch``; ``repetition`` is the address of a
        ``REPETITION`` structure, which describes how often to repeat, and which addresses change.
        """
        with self._launching:
            return self._code.repeat(self._address, entry, context, repetition)

    def close(self) -> None:
        """End the pool's threads."""
        self._finalizer()


def _stop(
    code: NativeCode,
    memory: NDArray[np.uint8],
    _keeps: object,
    process: int,
    launching: threading.Lock,
) -> None:
    """End a pool's threads, unless this process did not create the pool or a launch is running.

    After a fork, the child has no threads of the pool. A launch is running if the interpreter exits
    while a daemon thread runs the model. Waiting for that launch could block forever, and the
    system ends the threads with the process anyway.
    """
    # Try only: a running launch holds the lock, possibly forever.
    if os.getpid() == process and launching.acquire(blocking=False):
        created = int(np.count_nonzero(_threads(memory)["handle"]))
        code.stop(memory.ctypes.data, 1 + created)


def _threads(memory: NDArray[np.uint8]) -> NDArray[np.void]:
    """Return a view of the ``THREAD`` structures of all threads in a pool's memory."""
    count = int(memory[: POOL.itemsize].view(POOL)["num_threads"][0])
    return memory[POOL.itemsize :][: count * THREAD.itemsize].view(THREAD)
