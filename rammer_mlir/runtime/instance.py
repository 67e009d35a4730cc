"""Runs a program on a pool of threads, several runs at the same time."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Sequence
from contextlib import nullcontext
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

    Each run in progress has a context, which holds the run's intermediate results. Contexts are
    reused by later runs: a context is created only if all existing contexts are in use.
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
            pool: the threads that run the program; with foreign code or a ``caller_core``, a pool
                that admits one run at a time.
            modules: opened stateful functions, which the instance closes; None for none.
            caller_core: the core that calling threads are pinned to during runs; None for any.

        Raises:
            TargetError: if the system refuses to create threads.
        """
        self._code = code
        self._image = image
        self._pool, self._lanes = pool, pool.lanes
        self._modules = modules
        self._caller_core = caller_core
        self._is_closed = False
        self._is_plain = caller_core is None and not image.modules
        self._contexts: list[Context] = []
        self._idle: list[Context] = []
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
            True after the run. False if the program was not run, because the instance is closed or
            another pool has replaced its thread pool; the caller should use another instance.

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
        """Wait until a run may begin, and run the program repeatedly.

        The arguments are those of ``Executable.repeat``.

        Returns:
            The number of runs. None if the program was not run, because the instance is closed or
            another pool has replaced its thread pool; the caller should use another instance.

        Raises:
            TargetError: if an external rKernel fails.
        """

        def launches(context: Context) -> int:
            found, _moves = described(steps, context.moving(inputs, outputs), condition)
            return self._code.repeat(context.job.address, self._code.entry, address_of(found))

        return self._perform(launches)

    def _perform(self, task: Callable[[Context], int]) -> int | None:
        """Call ``task`` when a run may begin, and return the result of ``task``.

        Return None without calling ``task`` if the instance is closed or its pool was replaced.
        """
        lanes = self._lanes
        lane = lanes.take()
        if lane is None:
            return self._requested(task)
        try:
            return self._in_lane(lane, task)
        finally:
            lanes.give_back(lane)

    def _requested(self, task: Callable[[Context], int]) -> int | None:
        """Let an executor call ``task`` when the request's turn comes, and return the result.

        An executor is a thread that executes the requests of all clients in order. During the call,
        the executor uses the floating-point mode of the calling thread.
        """
        mode = self._code.float_mode()

        def work(lane: int) -> int | None:
            self._code.set_float_mode(mode)
            return self._in_lane(lane, task)

        return cast("int | None", self._lanes.request(work))

    def _in_lane(self, lane: int, task: Callable[[Context], int]) -> int | None:
        with self._lanes.locks[lane]:
            try:
                context = self._idle.pop()
            except IndexError:
                context = self._make()
            try:
                # Before the check: ``close`` waits for the lane, or the run finds it closed.
                context.lane = lane
                if self._is_closed or self._pool.is_retired:
                    return None
                return task(context) if self._is_plain else self._surrounded(task, context)
            finally:
                self._idle.append(context)

    def _surrounded(self, task: Callable[[Context], int], context: Context) -> int:
        """Call ``task`` on a thread pinned to ``caller_core``, if given, and check for failures.

        Return the result of ``task``. Raise a TargetError if foreign code has reported a failure
        by its status word.
        """
        core = self._caller_core
        with nullcontext() if core is None else caller_on(core):
            result = task(context)
            if self._code.status is not None:
                check_status(self._code.status, self._image, self._modules)
            return result

    def close(self) -> None:
        """Wait for the runs in progress, and close the modules; no run can begin afterwards."""
        self._is_closed = True
        for context in list(self._contexts):
            if context not in self._idle:
                with self._lanes.locks[context.lane]:
                    pass
        if self._modules is not None:
            self._modules.close()

    def _make(self) -> Context:
        job = self._pool.take_job(self._image.launch.busy_veus)
        self._jobs.append(job)
        context = Context(self._image, job)
        self._contexts.append(context)
        return context


def _return_jobs(pool: ThreadPool, jobs: list[Job], process: int) -> None:
    """Return the jobs of a garbage-collected instance to the pool that they were taken from.

    Only ``process``, which took the jobs, returns them. In a forked child, the pool's lock may be
    held for ever by a thread that exists in the parent only.
    """
    if os.getpid() == process:
        for job in jobs:
            pool.return_job(job)
