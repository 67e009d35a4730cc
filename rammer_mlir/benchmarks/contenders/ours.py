"""Run a model with this compiler, and count the operations and bytes of its program."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rammer_mlir.benchmarks.comparison import Array
from rammer_mlir.benchmarks.memory import peak_bytes
from rammer_mlir.compiler.compilation import Compilation
from rammer_mlir.compiler.options import check_options
from rammer_mlir.runtime.executable import Executable
from rammer_mlir.scheduling.graph import RKernel, ROperator, TaskGraph
from rammer_mlir.timeline.spans import Timeline

RECORDS = 5
"""Number of recorded runs; the fastest is evaluated."""


@dataclass(frozen=True)
class CompileCost:
    """The time and memory of a compilation, and the memory of the compiled program.

    Attributes:
        policy: the scheduling policy.
        num_veus: the number of vEUs of the program.
        seconds: seconds of the whole compilation.
        stages: seconds of each stage of the compilation, by name.
        arena_bytes: size of the program's arena.
        intermediate_bytes: sum of the sizes of all intermediates, which share the arena's memory.
        live_bytes: the largest sum of intermediates that are live at the same time.
        peak_bytes: largest resident size of the compiling process.
        base_bytes: largest resident size of this process before it compiles.
    """

    policy: str
    num_veus: int
    seconds: float
    stages: dict[str, float]
    arena_bytes: int
    intermediate_bytes: int
    """Sum of the sizes of all intermediate tensors, which share memory in the arena."""
    live_bytes: int
    """Largest sum of intermediates that are live at the same time, in the schedule's order."""
    peak_bytes: int
    """Largest resident size of the compiling process."""
    base_bytes: int
    """Largest resident size of that process before compiling."""


@dataclass(frozen=True)
class KernelWork:
    """Operations, bytes and time, in one run, of all rOperators with the same rKernel.

    Attributes:
        kernel: name of the rKernel.
        operator: name of the first of these rOperators in the model.
        count: number of these rOperators.
        flops: total scalar operations of these rOperators.
        num_bytes: total bytes of these rOperators. The bytes of an rOperator are the smaller of
            two numbers: the size of its buffers, and the total size of the boxes (regions of
            buffers) that its rTasks access.
        seconds: total time of these rOperators' rTasks on all vEUs, the shortest of all recorded
            runs.
    """

    kernel: str
    operator: str
    count: int
    flops: int
    num_bytes: int
    seconds: float


@dataclass(frozen=True)
class Work:
    """Operations, bytes and times of a program in a run.

    Attributes:
        policy, num_veus: policy and number of vEUs of the program.
        touched_bytes: bytes of weights, inputs and outputs, plus twice the bytes of intermediates,
            which are written and read.
        footprint_bytes: bytes of weights, inputs, outputs and the arena.
        seconds: duration of the fastest recorded run.
        waiting: fraction of the vEUs' time in this run that is spent waiting at barriers.
        kernels: operations, bytes and times of each rKernel.
    """

    policy: str
    num_veus: int
    touched_bytes: int
    footprint_bytes: int
    seconds: float
    waiting: float
    kernels: list[KernelWork]


class Ours:
    """A model compiled by this project for the CPU."""

    def __init__(self, model: Path, threads: int, policy: str) -> None:
        """Compile an ONNX file with the scheduling policy ``policy``, for ``threads`` vEUs."""
        base = peak_bytes()
        begin = time.perf_counter()
        options = check_options("cpu", policy=policy, num_veus=threads)
        compilation = Compilation.of_model(model, options)
        scheduled = compilation.schedule()
        # Not part of the compile time: read the schedule back before lowering erases it.
        paused = time.perf_counter()
        self._graph, plan = scheduled.builder.graph(), scheduled.plan
        self._chosen = plan.kernels
        resumed = time.perf_counter()
        executable = compilation.executable()
        assert isinstance(executable, Executable)
        self._executable = executable
        seconds = time.perf_counter() - resumed + paused - begin
        stats = self._executable.stats
        self._policy, self._threads = policy, threads
        self.cost = CompileCost(
            policy, threads, seconds, dict(stats["seconds"]), stats["arena_bytes"],
            stats["intermediate_bytes"], stats["live_bytes"], peak_bytes(), base,
        )  # fmt: skip

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Run the executable on ``feeds``, inputs by name; return the outputs by name."""
        return self._executable.run(feeds)

    def work(self, feeds: Mapping[str, Array]) -> Work:
        """Record ``RECORDS`` runs; return the program's operations, bytes and shortest times.

        The times of the program are those of the fastest run. The time of each rKernel is the
        shortest of all recorded runs.
        """
        lines = [self._executable.record(feeds) for _ in range(RECORDS)]
        best = min(lines, key=lambda line: line.seconds)
        touched = sum(b.num_bytes * (2 if b.kind == "intermediate" else 1)
                      for b in self._graph.buffers)  # fmt: skip
        held = sum(b.num_bytes for b in self._graph.buffers if b.kind != "intermediate")
        length = max(best.seconds, 1e-9) * self._threads
        return Work(
            self._policy, self._threads, touched, held + self.cost.arena_bytes, best.seconds,
            best.shares.waiting / length, self._kernels(lines),
        )  # fmt: skip

    def _kernels(self, lines: Sequence[Timeline]) -> list[KernelWork]:
        recorded = [_kernel_seconds(line) for line in lines]
        found: dict[str, KernelWork] = {}
        for operator, number in zip(self._graph.operators, self._chosen, strict=True):
            kernel = operator.kernels[number]
            seconds = min(times.get(kernel.name, 0.0) for times in recorded)
            before = found.get(kernel.name, KernelWork(kernel.name, operator.name, 0, 0, 0, 0.0))
            found[kernel.name] = replace(
                before,
                count=before.count + 1,
                flops=before.flops + kernel.flops_per_rtask * kernel.num_rtasks,
                num_bytes=before.num_bytes + _touched(self._graph, operator, kernel),
                seconds=seconds,
            )
        return list(found.values())


def _kernel_seconds(line: Timeline) -> dict[str, float]:
    seconds: defaultdict[str, float] = defaultdict(float)
    for span in line.spans:
        if span.kind == "rtask":
            seconds[span.kernel] += span.seconds
    return seconds


def _touched(graph: TaskGraph, operator: ROperator, kernel: RKernel) -> int:
    """Return an estimate of the number of bytes that an rOperator accesses.

    The estimate is the smaller of two numbers: the total size of the operands' buffers, and the
    total size of the boxes (regions of buffers) that the rOperator's rTasks access.
    """
    buffers = {view.buffer for view in operator.operands}
    whole = sum(graph.buffers[number].num_bytes for number in buffers)
    return min(whole, kernel.bytes_per_rtask * kernel.num_rtasks)
