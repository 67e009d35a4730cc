"""Measure one model: what compiling it costs, and its latency against ONNX Runtime's.

``measure`` does the work; ``measure_in_child`` does it in a process of its own, so that the peak
memory is this model's and a crash ends one measurement only.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import onnx

from rammer_mlir.benchmarks.child import Failure, in_child
from rammer_mlir.benchmarks.comparison import Array, compare
from rammer_mlir.benchmarks.memory import peak_bytes
from rammer_mlir.benchmarks.models import Scale, build, random_feeds
from rammer_mlir.benchmarks.reference import Reference
from rammer_mlir.benchmarks.timing import Latency, interleave

REFERENCE = "onnxruntime"
POLICIES = ("wavefront", "sequential")


class Executable(Protocol):
    """What a measurement needs of a compiled model."""

    @property
    def stats(self) -> Mapping[str, object]:
        """``seconds`` by stage, ``arena_bytes``, ``intermediate_bytes``, and other counts."""
        ...

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Run once."""
        ...


CompileFunction = Callable[[onnx.ModelProto, str, int], Executable]
"""Compiles a model for the CPU by a policy, for a number of vEUs."""


@dataclass(frozen=True)
class Request:
    """What to measure."""

    model: str
    scale: Scale = "full"
    batch: int = 1
    threads: tuple[int, ...] = (1, 2)
    policies: tuple[str, ...] = POLICIES
    budget: float = 3.0
    """Seconds of timing for each number of threads."""


@dataclass(frozen=True)
class CompileCost:
    """What one compilation took."""

    policy: str
    num_veus: int
    seconds: float
    stages: dict[str, float]
    arena_bytes: int
    intermediate_bytes: int
    """Sum of all intermediate tensors, which the arena holds one over the other."""
    peak_bytes: int
    """Largest resident size of the process so far, the model's own weights included."""


@dataclass(frozen=True)
class Timing:
    """Latency of one implementation with a number of threads (for us: vEUs)."""

    name: str
    threads: int
    latency: Latency
    worst: float
    """Worst error against the reference as a share of the tolerance; above 1 is wrong."""


@dataclass(frozen=True)
class Result:
    """Everything measured of one model."""

    request: Request
    base_bytes: int = 0
    """Largest resident size before the first compilation."""
    compiles: list[CompileCost] = field(default_factory=list[CompileCost])
    timings: list[Timing] = field(default_factory=list[Timing])
    error: str | None = None

    def latency(self, name: str, threads: int) -> Latency | None:
        """Find a measured latency."""
        found = [t.latency for t in self.timings if (t.name, t.threads) == (name, threads)]
        return found[0] if found else None


def compile_for_cpu(model: onnx.ModelProto, policy: str, num_veus: int) -> Executable:
    """Compile by the package's own interface."""
    import rammer_mlir  # here, so that its import counts as the compiler's memory

    return rammer_mlir.compile(model, target="cpu", policy=policy, num_veus=num_veus, cache=False)


def measure(request: Request, compile_model: CompileFunction = compile_for_cpu) -> Result:
    """Compile a model by every policy and number of vEUs, and time it beside ONNX Runtime."""
    model = build(request.model, request.batch, request.scale)
    result = Result(request, base_bytes=peak_bytes())
    executables: dict[tuple[str, int], Executable] = {}
    for threads in sorted(request.threads, reverse=True):
        for policy in request.policies:
            executable, cost = _compile(model, policy, threads, compile_model)
            executables[policy, threads] = executable
            result.compiles.append(cost)
    feeds = random_feeds(model, seed=1)
    content = model.SerializeToString()
    for threads in request.threads:
        reference = Reference(content, threads)
        ours = {policy: executables[policy, threads] for policy in request.policies}
        result.timings.extend(_compare_latency(reference, ours, feeds, threads, request.budget))
    return result


def _compile(
    model: onnx.ModelProto, policy: str, num_veus: int, compile_model: CompileFunction
) -> tuple[Executable, CompileCost]:
    start = time.perf_counter()
    executable = compile_model(model, policy, num_veus)
    seconds = time.perf_counter() - start
    stats = executable.stats
    cost = CompileCost(
        policy,
        num_veus,
        seconds,
        _by_stage(stats.get("seconds")),
        _count(stats.get("arena_bytes")),
        _count(stats.get("intermediate_bytes")),
        peak_bytes(),
    )
    return executable, cost


def _by_stage(value: object) -> dict[str, float]:
    if not isinstance(value, Mapping):
        return {}
    return {str(stage): float(seconds) for stage, seconds in value.items()}


def _count(value: object) -> int:
    return value if isinstance(value, int) else 0


def _compare_latency(
    reference: Reference,
    ours: Mapping[str, Executable],
    feeds: Mapping[str, Array],
    threads: int,
    budget: float,
) -> list[Timing]:
    expected = reference.run(feeds)
    worst = {REFERENCE: 0.0}
    for policy, executable in ours.items():
        comparison = compare(expected, executable.run(feeds))
        exact = comparison.worst.excess if comparison.worst else 0.0
        worst[policy] = float("inf") if comparison.mismatches else exact
    contenders: dict[str, Callable[[], object]] = {REFERENCE: partial(reference.run, feeds)}
    contenders.update((name, partial(executable.run, feeds)) for name, executable in ours.items())
    latencies = interleave(contenders, budget)
    return [Timing(name, threads, latency, worst[name]) for name, latency in latencies.items()]


def measure_in_child(
    request: Request, timeout: float = 1200.0, work: Callable[[Request], Result] = measure
) -> Result:
    """Measure in a new process; a crash, an error or a time-out becomes the result's error."""
    outcome = in_child(work, request, timeout)
    if isinstance(outcome, Failure):
        return Result(request, error=outcome.message)
    return outcome
