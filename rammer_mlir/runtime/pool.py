"""Calls native code through a pool of threads, which compute together with the calling threads."""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.errors import TargetError
from rammer_mlir.programs.cpu_image import CpuImage
from rammer_mlir.programs.native_interface import (
    CACHE_LINE,
    ENTRY,
    FLOAT_MODE,
    JOB,
    LAUNCH,
    MODULES,
    POOL,
    REPEAT,
    SET_FLOAT_MODE,
    START,
    STATUS,
    STOP,
    THREAD,
    TRACED_ENTRY,
    VEU,
)
from rammer_mlir.runtime.lanes import Lanes
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
"""Number of times that a thread finds another thread's vEU ready before taking over this vEU.

These polls take some 20 microseconds. Within that time the other thread returns from yielding or
wakes up, and that thread has the vEU's data in its caches. Measured: with 32 polls, runs of models
on an otherwise idle machine take 1 % longer.
"""

_IDLE_POLLS = 200
"""Number of polls of an idle thread before it sleeps: some tens of microseconds."""

AddressOf = Callable[[str], int]
"""Returns the address of an exported function of the native code."""


@dataclass(frozen=True)
class NativeCode:
    """Exported functions and variables of a compiled program.

    The first argument of ``start`` and ``stop`` is the address of a thread pool. The first argument
    of ``launch`` and ``repeat`` is the address of a job.

    Attributes:
        start: creates threads of the pool.
        launch: executes an entry function on every vEU.
        stop: ends threads of the pool.
        repeat: executes an entry function on every vEU repeatedly.
        float_mode: returns the floating-point mode of the calling thread: rounding, and flushing of
            denormal numbers to zero.
        set_float_mode: sets the floating-point mode of the calling thread.
        entry: address of the entry function, which executes the records of one vEU.
        traced_entry: address of the entry function that also records times.
        owner: an object that keeps the code in memory.
        status: the status word of external rKernels; None without external rKernels.
        modules: the address of the table of stateful functions; 0 without such functions.
    """

    start: Callable[[int, int, int], int]
    launch: Callable[[int, int], None]
    stop: Callable[[int, int], None]
    repeat: Callable[[int, int, int], int]
    float_mode: Callable[[], int]
    set_float_mode: Callable[[int], None]
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
        start=ctypes.CFUNCTYPE(word, pointer, word, word)(address_of(START)),
        launch=ctypes.CFUNCTYPE(None, pointer, pointer)(address_of(LAUNCH)),
        stop=ctypes.CFUNCTYPE(None, pointer, word)(address_of(STOP)),
        repeat=ctypes.CFUNCTYPE(word, pointer, pointer, pointer)(address_of(REPEAT)),
        # Short calls, which need not release the interpreter's lock.
        float_mode=ctypes.PYFUNCTYPE(word)(address_of(FLOAT_MODE)),
        set_float_mode=ctypes.PYFUNCTYPE(None, word)(address_of(SET_FLOAT_MODE)),
        entry=address_of(ENTRY),
        traced_entry=address_of(TRACED_ENTRY),
        owner=owner,
        status=word.from_address(address_of(STATUS)) if image and image.modules else None,
        modules=address_of(MODULES) if image and image.entries else 0,
    )


class Job:
    """Memory that one launch at a time uses: the states and the step counters of the vEUs.

    Attributes:
        address: address of the ``JOB`` structure.
        num_veus: number of vEUs of each launch.
        steps: address of the vEUs' step counters, a cache line each.
    """

    def __init__(self, pool: int, num_veus: int) -> None:
        """Allocate the memory of launches on ``num_veus`` vEUs; ``pool`` is the pool's address."""
        first_step = JOB.itemsize + VEU.itemsize * num_veus
        self._memory = aligned_bytes(first_step + CACHE_LINE * num_veus)
        self._states = self._memory[JOB.itemsize : first_step].view(VEU)
        self._steps = self._memory[first_step:]
        self.num_veus = num_veus
        self.address = address_of(self._memory)
        self.steps = self.address + first_step
        self._head = self._memory[: JOB.itemsize].view(JOB)
        self._head["pool"], self._head["num_veus"] = pool, num_veus
        self._head["veus"] = self.address + JOB.itemsize

    def begin_program(self, context: int) -> None:
        """Reset the step counters, and let later launches of this job execute another program.

        ``context`` is the address of the context of that program.
        """
        # The hints name values of step counters that another program has reached.
        self._states["awaited"] = 0
        self._steps[:] = 0
        self._head["context"] = context


class ThreadPool:
    """A pool of threads that execute vEUs together with the threads that call ``launch``.

    Idle threads of the pool sleep. If a vEU has to wait at a barrier, its thread may continue with
    another vEU. Several threads may launch programs at the same time, each with a job of
    its own. A pool belongs to the process that created it: after a fork, the child creates another
    pool.

    Attributes:
        limit: the greatest number of threads that compute, including those that call ``launch``.
        lanes: limits the number of launches at the same time; each launch needs a lane.
        is_retired: whether another pool replaces this pool; programs should leave it.
    """

    def __init__(
        self, code: NativeCode, limit: int, *, callers: int | None = None, is_bound: bool = False
    ) -> None:
        """Create a pool without threads.

        Args:
            code: functions of a program. The pool keeps them in memory as long as it has threads.
            limit: the greatest number of threads that compute.
            callers: the greatest number of launches at the same time; None for ``limit``.
            is_bound: whether vEU ``i`` runs only on thread ``i``.
        """
        self.limit = limit
        self.is_retired = False
        places = POOL.itemsize + THREAD.itemsize * limit
        self._memory = aligned_bytes(places + 8 * limit)
        self._address = address_of(self._memory)
        self._code = code
        head = self._memory[: POOL.itemsize].view(POOL)
        head["limit"], head["places"] = limit, self._address + places
        head["spins"], head["idle_polls"] = _SPINS, _IDLE_POLLS
        head["wait_polls"] = WAIT_POLLS
        # A bound vEU is never taken over.
        head["patience"] = np.iinfo(np.int64).max if is_bound else _PATIENCE
        self.lanes = Lanes(limit if callers is None else callers)
        self._threads = 1
        self._jobs: list[Job] = []
        self._idle_jobs: defaultdict[int, list[Job]] = defaultdict(list)
        # Reentrant: garbage collection in ``take_job`` may return the jobs of another program.
        self._changing = threading.RLock()
        # Register the finalizer before starting threads: an interrupt in between must not free
        # their memory.
        self._finalizer = weakref.finalize(
            self, _stop, code, self._memory, self._jobs, self.lanes, os.getpid()
        )

    def need_threads(self, count: int) -> None:
        """Create the threads that the pool lacks, so that ``count`` threads can compute.

        ``count`` includes the caller's thread, which is thread 0. If ``count`` is above ``limit``,
        create threads up to ``limit``.

        Raises:
            TargetError: if the system refuses to create threads.
        """
        wanted = min(count, self.limit)
        with self._changing:
            if wanted <= self._threads:
                return
            before, self._threads = self._threads, wanted
            result = self._code.start(self._address, before, wanted)
            if result:
                made = self._threads = result >> 32
                _threads(self._memory)["handle"][made:] = 0
                raise TargetError(
                    f"cannot create {wanted - 1} threads: the system made {made - 1} "
                    f"({os.strerror(result & 0xFFFFFFFF)}); use fewer vEUs or threads"
                )

    def take_job(self, num_veus: int) -> Job:
        """Return a job for launches on ``num_veus`` vEUs, whose memory no other caller uses."""
        with self._changing:
            idle = self._idle_jobs[num_veus]
            if idle:
                return idle.pop()
            job = Job(self._address, num_veus)
            # Threads may read it after the last launch, so it exists as long as they.
            self._jobs.append(job)
            return job

    def return_job(self, job: Job) -> None:
        """Let other callers use the memory of a job, which no launch uses any more."""
        with self._changing:
            self._idle_jobs[job.num_veus].append(job)

    @property
    def handles(self) -> list[int]:
        """The ``pthread_t`` of each thread that the pool has created."""
        return _threads(self._memory)["handle"][1 : self._threads].tolist()

    def close(self) -> None:
        """End the pool's threads."""
        self._finalizer()


def _stop(
    code: NativeCode, memory: NDArray[np.uint8], _jobs: list[Job], lanes: Lanes, process: int
) -> None:
    """End a pool's threads, unless this process did not create the pool or a launch is running.

    After a fork, the child has no threads of the pool. A launch is running if the interpreter exits
    while a daemon thread runs a model. Waiting for that launch could block forever, and the system
    ends the threads with the process anyway.

    Args:
        code: the native functions by which the pool starts and stops threads.
        memory: the pool's memory, with the structures ``POOL`` and ``THREAD``.
        _jobs: the pool's jobs, not used: the argument keeps their memory until the threads end.
        lanes: the pool's lanes, which are closed.
        process: the id of the process that created the pool.
    """
    if os.getpid() == process and not _launches(memory):
        lanes.close()
        created = int(np.count_nonzero(_threads(memory)["handle"]))
        if created:
            code.stop(memory.ctypes.data, 1 + created)


def _launches(memory: NDArray[np.uint8]) -> int:
    """Return the number of launches in progress, given a pool's memory."""
    return int(memory[: POOL.itemsize].view(POOL)["callers"][0])


def _threads(memory: NDArray[np.uint8]) -> NDArray[np.void]:
    """Return a view of the ``THREAD`` structures of all threads in a pool's memory."""
    count = int(memory[: POOL.itemsize].view(POOL)["limit"][0])
    return memory[POOL.itemsize :][: count * THREAD.itemsize].view(THREAD)
