"""Runs a compiled CPU model."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.engines.table import OpenModules
from rammer_mlir.errors import RammerError, TargetError
from rammer_mlir.programs.constants import Constants
from rammer_mlir.programs.cpu_image import CpuImage
from rammer_mlir.runtime.artifact import Artifact
from rammer_mlir.runtime.compiled import REPLACED, Array, CompiledModel
from rammer_mlir.runtime.external import open_modules, warn_of_fallback
from rammer_mlir.runtime.feeds import check_inputs, check_outputs
from rammer_mlir.runtime.instance import Instance
from rammer_mlir.runtime.pinning import check_cores, check_threads, pin_threads
from rammer_mlir.runtime.pool import NativeCode, ThreadPool
from rammer_mlir.runtime.recorder import Recorder
from rammer_mlir.runtime.repetition import Moving
from rammer_mlir.runtime.shared_pool import SHARED
from rammer_mlir.support.forks import renew_in_children
from rammer_mlir.timeline.files import write_timelines
from rammer_mlir.timeline.spans import Timeline

Linker = Callable[[], bytes]
"""A function that links the shared library of an artifact, and returns its bytes."""


class Executable(CompiledModel):
    """A model compiled for a CPU.

    ``run`` may be called from several Python threads. The greatest number of runs in progress at
    the same time is the number of threads that may compute (``rammer_mlir.use_threads``). Each of
    these runs has its own intermediate results; other requests wait, and are executed in order.
    All models of the process share a pool of threads, unless they are given threads of their own.
    Programs with foreign code always have threads of their own, and their runs are serialized, as
    are runs with pinned threads. After a fork, the child process creates a new pool.
    """

    def __init__(
        self,
        image: CpuImage,
        code: NativeCode | None,
        link: Linker,
        stats: Mapping[str, Any] | None = None,
        *,
        lacking: str = "",
    ) -> None:
        """Wrap compiled code.

        Args:
            image: the program's data.
            code: the loaded functions of the program; None if this machine cannot execute them.
            link: returns the program's code as a shared library, for ``save``.
            stats: compiler statistics by name, such as the seconds of each stage; may be None.
            lacking: if ``code`` is None, the requirement that this machine lacks, as text.
        """
        super().__init__(image, stats)
        self._image = image
        self._code: NativeCode | None = code
        self._lacking = lacking
        self._link = link
        self._lock = threading.Lock()
        self._instance: Instance | None = None
        self._cores: tuple[int, ...] | None = None
        self._threads: int | None = None
        self._fallback: Executable | None = None
        self._offloaded: Callable[[], Artifact] | None = None
        renew_in_children(self)

    @property
    def fallback(self) -> Executable | None:
        """The same model compiled without foreign code; None if there is none.

        It replaces this model on machines that lack the foreign code.
        """
        return self._fallback

    def keep_fallback(self, fallback: Executable) -> None:
        """Set the executable that replaces this executable if foreign code cannot run.

        ``fallback`` has the same signature as this executable.
        """
        self._fallback = fallback

    def fall_back(self, problem: Exception) -> None:
        """Run the fallback from now on, and warn.

        Args:
            problem: the reason why foreign code cannot run.

        Raises:
            Exception: the problem, if there is no fallback.
        """
        other = self._fallback
        if other is None:
            raise problem
        warn_of_fallback(problem, len(self._image.modules))
        self._end_instance()
        replaced = {module.name: str(problem) for module in self._image.modules}
        # ``save`` must still write the original program, not the fallback.
        self._offloaded = partial(_saved, self._image, self._link, self._stats, other)
        self._image = self._description = other._image
        self._code = other._code
        self._stats = {**other._stats, REPLACED: replaced}

    def _end_instance(self) -> None:
        """Close the executable's instance, if there is one, when its runs in progress have ended.

        An instance is the program with a thread pool and the memory of its runs. The next run
        creates another instance.
        """
        instance, self._instance = self._instance, None
        if instance is not None:
            instance.close()

    @property
    def target(self) -> str:
        """Target that the model is compiled for."""
        return self._image.target

    @property
    def image(self) -> CpuImage:
        """The program's data: schedule, weights, signature and memory sizes."""
        return self._image

    def run(self, feeds: Mapping[str, Any], out: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Run the model.

        Tensors of other libraries in host memory are read and written in place (DLPack).

        Args:
            feeds: arrays by input name, of exactly the signature's shapes and dtypes; arrays that
                are not dense and row-major are copied.
            out: arrays that receive outputs, by output name; each output without an array in
                ``out`` gets a new array.

        Returns:
            Arrays by output name, in the signature's order: those of ``out``, or new NumPy arrays.

        Raises:
            InputError: if names, shapes or dtypes do not match, or an array of ``out`` shares
                memory with another array.
            TargetError: if the executable is closed, the system refuses to create threads, or an
                external rKernel fails.
        """
        inputs = check_inputs(self.signature, feeds)
        outputs = check_outputs(self.signature, out or {}, inputs)
        self._execute(inputs, outputs, None)
        specs = self.signature.outputs
        found = {spec.name: array for spec, array in zip(specs, outputs, strict=True)}
        return found if out is None else found | {n: a for n, a in out.items() if a is not None}

    def prepare(self) -> None:
        """Create the threads and open foreign code, instead of in the first run.

        Raises:
            TargetError: if the executable is closed, the system refuses to create threads, or
                foreign code cannot be opened.
            MissingPackageError: if a required package is not installed.
        """
        self._ready()

    @property
    def num_threads(self) -> int:
        """Greatest number of threads that run vEUs, including the thread that calls ``run``."""
        limit = SHARED.count if self._threads is None and self._cores is None else self._threads
        return self.num_veus if limit is None else min(limit, self.num_veus)

    def use_threads(self, count: int | None) -> None:
        """Give the model threads of its own: run its vEUs on at most ``count`` threads.

        The threads exist from the next run on. ``count`` includes the thread that calls ``run``;
        None stands for the threads that all models share, one for each usable core. Any thread can
        run any vEU, so fewer threads than vEUs compute bitwise equal results. No more threads than
        vEUs are created. A previous ``pin`` is undone.

        Raises:
            OptionError: if ``count`` is not an integer of at least 1.
        """
        if count is not None:
            count = check_threads(count)
        with self._lock:
            self._threads, self._cores = count, None
            self._end_instance()

    def pin(self, cores: Sequence[int] | None) -> None:
        """Pin thread ``i`` to core ``cores[i]`` from the next run on; None removes the pinning.

        The model gets threads of its own. Thread 0 is the thread that calls ``run``, or, for a run
        that had to wait, the thread that executes waiting runs; it is pinned only during the run.
        Thread ``i`` begins each run with vEU ``i``. Threads may share a core. If the system refuses
        to pin a thread, the next run raises a ``TargetError``.

        Raises:
            OptionError: if the number of cores is not the number of threads, or the process may not
                use one of the cores.
        """
        with self._lock:
            if cores is None:
                self._cores = None
            else:
                count = self.num_veus if self._threads is None else self._threads
                self._cores = check_cores(cores, min(count, self.num_veus))
            self._end_instance()

    def timeline(self, path: str | os.PathLike[str], feeds: Mapping[str, Any]) -> None:
        """Run once, and write the begin and end times of each vEU's records to a file.

        A record is a run of consecutive rTasks of an rOperator, or a barrier.

        Args:
            path: the file; an HTML page if its name ends in ``.html``, else a Chrome trace (JSON).
            feeds: arrays by input name.
        """
        write_timelines(path, [self.record(feeds)])

    def record(self, feeds: Mapping[str, Any], title: str = "measured") -> Timeline:
        """Run once on ``feeds``; return the measured begin and end times of each vEU's records.

        A record is a run of consecutive rTasks of an rOperator, or a barrier. ``title`` is the
        heading of the timeline.
        """
        inputs = check_inputs(self.signature, feeds)
        outputs = check_outputs(self.signature, {}, inputs)
        self.prepare()  # may switch to the fallback
        recorder = Recorder(self._image)
        self._execute(inputs, outputs, recorder)
        return recorder.timeline(title)

    def _execute(
        self, inputs: list[Array], outputs: list[Array], recorder: Recorder | None
    ) -> None:
        traces = None if recorder is None else recorder.addresses
        instance = self._instance or self._ready()
        while not instance.run(inputs, outputs, traces):
            instance = self._ready_after(instance)

    def repeat(
        self,
        steps: int,
        inputs: Sequence[Moving],
        outputs: Sequence[Moving],
        condition: NDArray[np.bool_] | None = None,
    ) -> int:
        """Run the model repeatedly, with different arrays in each run; return the number of runs.

        Args:
            steps: the greatest number of runs.
            inputs: for each input, in the signature's order, the addresses of its tensors in all
                runs. Each tensor is dense and has the signature's shape and dtype.
            outputs: for each output, in the signature's order, the addresses of its tensors in all
                runs. In each run, the memory of outputs must not overlap the memory of inputs.
            condition: the memory of a boolean output; the first run that writes False to it is the
                last run. None to do ``steps`` runs.

        Raises:
            TargetError: as for ``run``.
        """
        instance = self._instance or self._ready()
        while (taken := instance.repeat(steps, inputs, outputs, condition)) is None:
            instance = self._ready_after(instance)
        return taken

    def _ready_after(self, refusing: Instance) -> Instance:
        """Return an instance to use instead of ``refusing``, which cannot run any more.

        An instance is the program with a thread pool and the memory of its runs. ``refusing`` is
        closed, or another pool has replaced its thread pool.
        """
        with self._lock:
            if self._instance is refusing:
                self._end_instance()
        return self._ready()

    def _ready(self) -> Instance:
        with self._lock:
            if self._instance is None:
                self._instance = self._prepared()
            return self._instance

    def _prepared(self) -> Instance:
        """Return a new instance: the program with a thread pool and the memory of its runs.

        If foreign code cannot be opened, return an instance of the fallback instead.
        """
        if self._lacking:
            raise TargetError(
                f"the program is compiled for {self.target}: expected {self._lacking}; save it, "
                "and load it on such a machine"
            )
        if self._code is None:
            raise TargetError("the executable is closed: compile or load it again")
        # Stateless foreign code has requirements too.
        if not self._image.modules:
            return self._instance_with(self._code, None)
        try:
            modules = open_modules(self._image, self._code.modules)
        except (RammerError, ImportError, OSError) as problem:
            self.fall_back(problem)
            return self._prepared()
        if self._image.entries:
            self.stats["module_seconds"] = modules.seconds
        return self._instance_with(self._code, modules)

    def _instance_with(self, code: NativeCode, modules: OpenModules | None) -> Instance:
        """Return an instance that runs the program on the shared thread pool, or on another pool.

        The pool is separate if the user chose a number of threads or the cores, or if the program
        has foreign code. ``modules`` has the opened stateful functions of the foreign code; None
        without foreign code.
        """
        cores = self._cores
        # Foreign code has one state and one status, so one run at a time may call it. Such a run
        # does not wait for others: the code may itself run models, on the shared pool.
        has_modules = bool(self._image.modules)
        if self._threads is None and cores is None and not has_modules:
            return Instance(self._image, code, SHARED.get(code))
        # vEUs without records need no thread.
        busy = self._image.launch.busy_veus
        count = self.num_threads
        callers = 1 if has_modules or cores is not None else None
        # Libraries that parallelize over the whole device keep a thread pool per calling thread, so
        # a fixed thread has to call them.
        is_bound = bool(self._image.proof.exclusive)
        pool = ThreadPool(code, min(busy, count), callers=callers, is_bound=is_bound)
        core = None if cores is None else cores[0]
        instance = Instance(self._image, code, pool, modules=modules, caller_core=core)
        if cores is not None:
            try:
                pin_threads(pool.handles, [{core} for core in cores[1 : 1 + len(pool.handles)]])
            except BaseException:
                instance.close()
                raise
        return instance

    def artifact(self) -> Artifact:
        """Return the program, its code as a shared library, and its statistics.

        Raises:
            TargetError: if no linker is found.
        """
        if self._offloaded is not None:
            return self._offloaded()
        return _saved(self._image, self._link, self.stats, self._fallback)

    def use_constants(self, constants: Constants) -> None:
        """Take the weights from ``constants``, which have the same values in other memory.

        Call this only before the first run, because runs keep addresses of the weights.
        """
        assert self._instance is None, "a run has taken the addresses of the weights"
        self._image = self._description = replace(self._image, constants=constants)

    def close(self) -> None:
        """Unmap the code, and end the executable's own threads; no run can begin afterwards.

        Runs in progress finish first. The threads that models share end with the last model that
        uses them; until then, the code of the model that ran first stays in memory.
        """
        with self._lock:
            self._end_instance()
            self._code = None
        if self._fallback is not None:
            self._fallback.close()

    def forget_threads(self) -> None:
        """Drop the thread pool and create a new lock, in a child process after a fork.

        The child has neither the parent's threads nor a thread that could release the parent's
        lock.
        """
        self._lock = threading.Lock()
        self._instance = None


def _saved(
    image: CpuImage, link: Linker, stats: Mapping[str, Any], fallback: Executable | None
) -> Artifact:
    """Return the content of an artifact of a program and of its fallback.

    ``fallback`` is None if the program has no fallback.
    """
    other = None if fallback is None else fallback.artifact()
    return Artifact(image, link(), stats, other)
