"""Runs a program on a pool of threads, several runs at the same time."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Sequence
from typing import cast

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.engines.table import OpenModules
from rammer_mlir.programs.cpu_image import CpuImage
from rammer_mlir.runtime.compiled import Array
from rammer_mlir.runtime.execution_context import Context
from rammer_mlir.runtime.external import check_status
from rammer_mlir.runtime.pinning import caller_on
from rammer_mlir.runtime.pool import Job, NativeCode, ThreadPool
from rammer_mlir.runtime.repetition import Moving, described
from rammer_mlir.support.aligned import address_of


class Instance:
    """A program that is ready to run: its code, thread pool, contexts and opened modules.

    Each run in progress has a context, which holds its intermediate results. A context belongs to a
    lane of the pool, and all runs of the program in that lane use it.
    """

    def __init__(
        self,
        image: CpuImage,
        code: NativeCode,
        pool: ThreadPool,
        *,
        modules: OpenModules | None = None,
        caller_core: int | None = None,
    ) -> None:
        """Prepare a program.

        Args:
            image: the program's data.
            code: the program's functions.
            pool: the threads that run it; with foreign code or a ``caller_core``, a pool that
                admits one run at a time.
            modules: opened stateful functions, which the instance closes; None for none.
            caller_core: the core that calling threads are pinned to during runs; None for any.

        Raises:
            TargetError: if the system refuses to create threads.
        """
        self._code = code
        self._image = image
        self._pool = pool
        self._modules = modules
        self._caller_core = caller_core
        self._is_closed = False
        self._contexts: dict[int, Context] = {}
        self._jobs: list[Job] = []
        weakref.finalize(self, _return_jobs, pool, self._jobs, os.getpid()).atexit = False
        try:
            pool.need_threads(image.launch.busy_veus)
        except BaseException:
            self.close()
            raise

    def run(
        self,
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        traces: NDArray[np.uint64] | None = None,
    ) -> bool:
        """Wait until a run may begin, and run the program once.

        The arguments are those of ``Context.bind``.

        Returns:
            False, without a run, if the instance is closed or its pool is retired: use another
            instance.

        Raises:
            TargetError: if an external rKernel fails.
        """

        def launch(context: Context) -> int:
            context.bind(inputs, outputs, traces)
            entry = self._code.entry if traces is None else self._code.traced_entry
            self._code.launch(context.job.address, entry)
            return 1

        return self._perform(launch) is not None

    def repeat(
        self,
        steps: int,
        inputs: Sequence[Moving],
        outputs: Sequence[Moving],
        condition: NDArray[np.bool_] | None,
    ) -> int | None:
        """Wait until a run may begin, and run the program repeatedly; return the number of runs.

        The arguments are those of ``Executable.repeat``.

        Returns:
            None, without a run, if the instance is closed or its pool is retired: use another
            instance.

        Raises:
            TargetError: if an external rKernel fails.
        """

        def launches(context: Context) -> int:
            found, _moves = described(steps, context.moving(inputs, outputs), condition)
            return self._code.repeat(context.job.address, self._code.entry, address_of(found))

        return self._perform(launches)

    def _perform(self, task: Callable[[Context], int]) -> int | None:
        """Call ``task`` when a run may begin; None if the instance must not be used any more."""
        lanes = self._pool.lanes
        lane = lanes.take()
        if lane is None:
            return self._requested(task)
        try:
            return self._in_lane(lane, task)
        finally:
            lanes.give_back(lane)

    def _requested(self, task: Callable[[Context], int]) -> int | None:
        """Call ``task`` in another thread, with the floating-point mode of this thread."""
        mode = self._code.float_mode()

        def work(lane: int) -> int | None:
            self._code.set_float_mode(mode)
            return self._in_lane(lane, task)

        return cast("int | None", self._pool.lanes.request(work))

    def _in_lane(self, lane: int, task: Callable[[Context], int]) -> int | None:
        context = self._contexts.get(lane) or self._make(lane)
        with context.lock:
            # ``close`` waits for the locks, so it finds the run or the run finds it.
            if self._is_closed or self._pool.is_retired:
                return None
            if self._caller_core is None:
                result = task(context)
            else:
                with caller_on(self._caller_core):
                    result = task(context)
            if self._code.status is not None:
                check_status(self._code.status, self._image, self._modules)
            return result

    def close(self) -> None:
        """Wait for the runs in progress, and close the modules; no run can begin afterwards."""
        self._is_closed = True
        for context in list(self._contexts.values()):
            with context.lock:
                pass
        if self._modules is not None:
            self._modules.close()

    def _make(self, lane: int) -> Context:
        job = self._pool.take_job(self._image.launch.busy_veus)
        self._jobs.append(job)
        context = self._contexts[lane] = Context(self._image, job)
        return context


def _return_jobs(pool: ThreadPool, jobs: list[Job], process: int) -> None:
    """Return the jobs of an instance that no longer exists, in the process that took them.

    In a forked child, another thread of the parent may hold the pool's lock for ever.
    """
    if os.getpid() == process:
        for job in jobs:
            pool.return_job(job)
