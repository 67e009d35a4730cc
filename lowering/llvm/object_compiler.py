"""Compiles LLVM IR to objects in worker processes, while the caller continues its work.

Threads would not help. A thread that calls LLVM through llvmlite waits for Python's global
interpreter lock at each call, and the caller's thread, which runs MLIR, holds that lock most of the
time.
"""

from __future__ import annotations

import time
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from queue import SimpleQueue

from rammer_mlir.errors import TargetError
from rammer_mlir.lowering.llvm.codegen import emit_object
from rammer_mlir.lowering.llvm.machine import Machine
from rammer_mlir.lowering.llvm.object_messages import CompiledObject, request
from rammer_mlir.support.log import LOGGER
from rammer_mlir.support.usable_cores import usable_cores
from rammer_mlir.support.worker_process import (
    WorkerDied,
    WorkerProcess,
    can_start_python,
    module_command,
)

_WORKER = module_command(f"{__package__}.object_worker")

_MOST_WORKERS = 3
"""Largest number of worker processes: the caller does not produce IR faster than these compile."""

_ENOUGH_JOBS = 8
"""Number of jobs from which worker processes, which start in a tenth of a second, save time."""

_SECONDS = 3600.0
"""Number of seconds after which a worker counts as hung."""

_Compile = Callable[[str], CompiledObject]


@dataclass(frozen=True)
class _Job:
    text: str
    future: Future[CompiledObject] = field(default_factory=Future[CompiledObject])


class ObjectCompiler:
    """Compiles LLVM IR to objects in the background, for a target machine.

    A job is the compilation of one LLVM IR text.
    """

    def __init__(self, machine: Machine, num_jobs: int, workers: int | None = None) -> None:
        """Create a compiler without jobs.

        Args:
            machine: the target machine.
            num_jobs: number of jobs that the caller expects to submit.
            workers: number of worker processes; None to choose a number from the usable cores and
                ``num_jobs``; 0 to compile in a thread of this process.
        """
        self._machine = machine
        if workers is None:
            workers = min(usable_cores() - 1, _MOST_WORKERS) if num_jobs >= _ENOUGH_JOBS else 0
            workers = workers if can_start_python() else 0
        self._workers = [WorkerProcess(_WORKER) for _ in range(workers)]
        self._idle = SimpleQueue[WorkerProcess]()
        for worker in self._workers:
            self._idle.put(worker)
        self._jobs = deque[_Job]()
        self._threads = ThreadPoolExecutor(max(1, workers), thread_name_prefix="rammer-objects")
        self._stop = weakref.finalize(self, _stop, self._workers, self._threads)

    def submit(self, text: str) -> Future[CompiledObject]:
        """Start a background job that compiles LLVM IR text; return a future of the object.

        The future's ``result`` raises TargetError if LLVM refuses the text.
        """
        job = _Job(text)
        self._jobs.append(job)
        self._threads.submit(self._work)
        return job.future

    def help(self) -> None:
        """Compile waiting jobs in the caller's thread, besides the workers, until no job waits.

        The last jobs may still run in worker processes when this method returns. Without worker
        processes, do nothing: the background thread compiles all jobs.
        """
        # Without worker processes, a second thread would only wait for llvmlite's lock.
        while self._workers and self._run_next(self._compile_here):
            pass

    def stop(self) -> None:
        """Cancel jobs that have not begun; end the worker processes, even during a job."""
        while self._jobs:
            self._jobs.pop().future.cancel()
        self._stop()

    def _work(self) -> None:
        """Compile the next job, if a job waits; a background thread runs this method once per job.

        The job is compiled in a worker process or, without worker processes, in the calling thread.
        """
        if not self._workers:
            self._run_next(self._compile_here)
            return
        worker = self._idle.get()
        try:
            self._run_next(partial(self._compile_in, worker))
        finally:
            self._idle.put(worker)

    def _run_next(self, compile_text: _Compile) -> bool:
        """Compile the next job by ``compile_text``; return whether there was a job."""
        try:
            job = self._jobs.popleft()
        except IndexError:
            return False
        try:
            job.future.set_result(compile_text(job.text))
        except BaseException as error:
            job.future.set_exception(error)
            if not isinstance(error, Exception):
                raise
        return True

    def _compile_here(self, text: str) -> CompiledObject:
        # Processor time of this thread, because other threads compile or lower meanwhile.
        begin = time.thread_time()
        made = emit_object(text, self._machine)
        return CompiledObject(made, time.thread_time() - begin)

    def _compile_in(self, worker: WorkerProcess, text: str) -> CompiledObject:
        try:
            reply = worker.request(request(text, self._machine), _SECONDS)
        except WorkerDied as error:
            if not self._stop.alive:
                raise
            if not worker.is_closed:
                LOGGER.info("compiling in this process, since the worker process ended: %s", error)
                worker.close()
            return self._compile_here(text)
        if not reply.ok:
            raise TargetError(reply.content.decode())
        return CompiledObject.decode(reply.content)


def _stop(workers: Sequence[WorkerProcess], threads: ThreadPoolExecutor) -> None:
    threads.shutdown(wait=False, cancel_futures=True)
    for worker in workers:
        worker.close()
