"""Compute lower bounds of programs' times on this processor, and compare them with measurements."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rammer_mlir.benchmarks.bench import Result
from rammer_mlir.benchmarks.contenders.ours import KernelWork, Work
from rammer_mlir.benchmarks.machine import table
from rammer_mlir.benchmarks.roofline import Roofline

WORST = 3
"""Number of rKernels listed for a model: those that exceed their bounds by the most time."""


@dataclass(frozen=True)
class Limit:
    """Lower bounds of a model's time on a number of threads, and the measured time, in seconds.

    Attributes:
        model: name of the model.
        threads: number of threads.
        flops: floating-point operations of the model.
        num_bytes: bytes of the model's weights, inputs and outputs, plus twice the bytes of its
            intermediates, which are written and read.
        arithmetic: bound: time of ``flops`` at the processor's peak rate. Algorithms that save
            multiplications (Winograd's) can be faster than this bound.
        memory: bound: time of ``num_bytes`` at the bandwidth measured for a working set as large as
            the program's weights, inputs, outputs and arena.
        launch: bound: time to launch a program without rTasks.
        measured: median latency.
        waiting: fraction of the vEUs' time spent waiting at barriers.
        worst: rKernels whose times exceed their own lower bounds by the most seconds, worst first.
    """

    model: str
    threads: int
    flops: int
    num_bytes: int
    arithmetic: float
    memory: float
    launch: float
    measured: float
    waiting: float
    worst: tuple[KernelLimit, ...]

    @property
    def binding(self) -> str:
        """The name of the highest lower bound: "arithmetic", "memory" or "launch"."""
        floors = {"arithmetic": self.arithmetic, "memory": self.memory, "launch": self.launch}
        return max(floors, key=lambda name: floors[name])

    @property
    def reached(self) -> float:
        """The highest lower bound as a fraction of the measured time."""
        return max(self.arithmetic, self.memory, self.launch) / self.measured


@dataclass(frozen=True)
class KernelLimit:
    """A lower bound of the time of all rOperators with the same rKernel, and their measured time.

    ``operator`` is the first of these rOperators, ``count`` their number. ``floor`` is the bound,
    ``seconds`` the measured time. Both are seconds of a single vEU: times on different vEUs are
    added. ``is_arithmetic`` tells whether arithmetic, not memory traffic, determines the bound.
    ``share`` is the measured time as a fraction of the time of all rTasks.
    """

    operator: str
    """Name of the rKernel's first rOperator."""
    count: int
    floor: float
    seconds: float
    is_arithmetic: bool
    """Whether the bound is the time of the arithmetic, and not the time of the memory traffic."""
    share: float
    """Time of these rOperators as a fraction of the time of all rTasks."""


def limit(result: Result, work: Work, roofline: Roofline) -> Limit | None:
    """Return the lower bounds and the measured time of a model's program.

    The result is None if ``result`` has no latency of the program, or no counts of operations.

    Args:
        result: the measurements of the model.
        work: the operations and bytes of the program.
        roofline: the processor's peak rates with as many threads as the program has vEUs.
    """
    latency = result.latency(work.policy, work.num_veus)
    if latency is None or result.counts is None:
        return None
    return Limit(
        result.request.model,
        work.num_veus,
        result.counts.flops,
        work.touched_bytes,
        result.counts.flops / roofline.flops_per_second,
        work.touched_bytes / roofline.bandwidth(work.footprint_bytes),
        roofline.launch_seconds,
        latency.median,
        work.waiting,
        worst_kernels(work, roofline),
    )


def worst_kernels(work: Work, roofline: Roofline) -> tuple[KernelLimit, ...]:
    """Return the rKernels that exceed their lower bounds by the most seconds, worst first.

    The result has at most ``WORST`` elements. ``work`` describes the program's rKernels;
    ``roofline`` has the processor's peak rates.
    """
    flops = roofline.flops_per_second / roofline.threads
    bandwidth = roofline.bandwidth(work.footprint_bytes) / roofline.threads
    total = sum(kernel.seconds for kernel in work.kernels) or 1.0

    def limited(kernel: KernelWork) -> KernelLimit:
        arithmetic, memory = kernel.flops / flops, kernel.num_bytes / bandwidth
        return KernelLimit(
            kernel.operator, kernel.count, max(arithmetic, memory), kernel.seconds,
            arithmetic >= memory, kernel.seconds / total,
        )  # fmt: skip

    found = sorted(map(limited, work.kernels), key=lambda one: one.floor - one.seconds)
    return tuple(found[:WORST])


def limits(results: Iterable[Result], rooflines: Iterable[Roofline]) -> list[Limit]:
    """Return lower bounds and measured time of each measured program, as ``limit`` computes them.

    Programs without a roofline for their number of vEUs are left out.
    """
    by_threads = {roofline.threads: roofline for roofline in rooflines}
    return [
        found
        for result in results
        for work in sorted(result.works, key=lambda work: work.num_veus)
        if work.num_veus in by_threads
        and (found := limit(result, work, by_threads[work.num_veus])) is not None
    ]


def limit_table(found: Sequence[Limit]) -> str:
    """Return a Markdown table with a row per model and number of threads.

    A row has the lower bounds, the measured time, and the rKernels whose times exceed their
    bounds most.
    """
    rows = [["model", "threads", "GFLOP", "arithmetic ms", "MB", "memory ms", "launch ms", "binds",
             "measured ms", "reached", "waiting",
             "worst rKernels: first rOperator (share of time, of floor reached)"]]  # fmt: skip
    for one in found:
        worst = "; ".join(map(_kernel, one.worst))
        rows.append([
            one.model, str(one.threads), f"{one.flops / 1e9:.3f}", f"{1e3 * one.arithmetic:.3f}",
            f"{one.num_bytes / 1e6:.2f}", f"{1e3 * one.memory:.3f}", f"{1e3 * one.launch:.4f}",
            one.binding, f"{1e3 * one.measured:.3f}", f"{one.reached:.0%}", f"{one.waiting:.0%}",
            worst,
        ])  # fmt: skip
    return table(rows)


def _kernel(one: KernelLimit) -> str:
    kind = "arithmetic" if one.is_arithmetic else "memory"
    more = f" and {one.count - 1} more" if one.count > 1 else ""
    reached = one.floor / one.seconds if one.seconds else 1.0
    return f"{one.operator}{more} ({one.share:.0%}, {reached:.0%} of {kind})"
