"""Compare the default fusion boundary with `boundary=cost` on inference models.

A fusion boundary is a rule that decides which operations are fused into an rOperator.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import prod

from rammer_mlir.benchmarks.child import Failure, in_child
from rammer_mlir.benchmarks.fusion.measure import Fused, measure_ways
from rammer_mlir.benchmarks.fusion.settings import COST, DEFAULT
from rammer_mlir.benchmarks.machine import table
from rammer_mlir.benchmarks.models import Scale, build, random_feeds

SAME = 0.02
"""Largest relative difference of two times that count as equal."""


@dataclass(frozen=True)
class BoundaryRequest:
    """A model to measure with the two fusion boundaries, and time limits of the measurement.

    Attributes:
        model: name of the model.
        scale: size of the model, "full" or "small".
        budget: seconds for which runs are timed.
        timeout: time limit in seconds for the whole measurement, compilation included.
    """

    model: str
    scale: Scale = "full"
    budget: float = 6.0
    timeout: float = 1200.0


@dataclass(frozen=True)
class BoundaryResult:
    """Measurements of a model on one core.

    Attributes:
        request: the model that was measured.
        reference_seconds: seconds of a run by ONNX Runtime.
        ways: measurements with the default boundary, then with the boundary `cost`.
        error: message of an error that ended the measurement, or None.
    """

    request: BoundaryRequest
    reference_seconds: float = 0.0
    ways: list[Fused] = field(default_factory=list[Fused])
    error: str | None = None

    @property
    def is_equal(self) -> bool:
        """Whether the default boundary and the boundary `cost` give the same program.

        Programs that differ only in the names of their rKernels count as different.
        """
        default, cost = self.ways
        return default.digest == cost.digest

    @property
    def ratio(self) -> float:
        """A run's time with the boundary `cost`, divided by its time with the default boundary.

        The ratio is 1 if both boundaries give the same program.
        """
        default, cost = self.ways
        return 1.0 if self.is_equal else cost.seconds / default.seconds


def measure_boundaries(request: BoundaryRequest) -> BoundaryResult:
    """Measure a model with both boundaries in a separate process.

    If the process fails, the result has only the error message.
    """
    found = in_child(_measure, request, request.timeout)
    return BoundaryResult(request, error=found.message) if isinstance(found, Failure) else found


def _measure(request: BoundaryRequest) -> BoundaryResult:
    model = build(request.model, scale=request.scale)
    reference, ways = measure_ways(model, random_feeds(model), (DEFAULT, COST), request.budget)
    return BoundaryResult(request, reference, ways)


def text(results: Sequence[BoundaryResult]) -> str:
    """Return a Markdown report: a summary, a table with a row per model, and the failures."""
    measured = [result for result in results if result.ways]
    parts = [_summary(measured), boundary_table(measured)] if measured else []
    failed = [f"- {result.request.model}: {result.error}" for result in results if result.error]
    return "\n\n".join([*parts, *(["Failed", "\n".join(failed)] if failed else [])])


def _summary(results: Sequence[BoundaryResult]) -> str:
    ratios = [result.ratio for result in results]
    mean = prod(ratios) ** (1 / len(ratios))
    slower = sum(ratio > 1 + SAME for ratio in ratios)
    faster = sum(ratio < 1 - SAME for ratio in ratios)
    equal = sum(result.is_equal for result in results)
    return (
        f"The boundary `cost` over the default, {len(results)} models on one core: geometric mean "
        f"of the times {mean:.3f}; slower by more than {SAME:.0%}: {slower}, faster by more than "
        f"{SAME:.0%}: {faster}, equal programs: {equal}. Times are medians of the faster half, in "
        "turns, by the thread's processor time"
    )


def boundary_table(results: Iterable[BoundaryResult]) -> str:
    """Return a Markdown table with a row per model.

    Its columns are run times, counts of rOperators, and compile times with both boundaries, and the
    run time of ONNX Runtime.
    """
    rows = [["model", "default ms", "cost ms", "cost over default", "rOperators", "with cost",
             "compile s", "with cost", "ONNX Runtime ms"]]  # fmt: skip
    for result in results:
        default, cost = result.ways
        equal = " (equal)" if result.is_equal else ""
        rows.append([
            result.request.model, f"{1e3 * default.seconds:.3f}", f"{1e3 * cost.seconds:.3f}",
            f"{result.ratio:.2f}{equal}", str(default.operators), str(cost.operators),
            f"{default.compile_seconds:.1f}", f"{cost.compile_seconds:.1f}",
            f"{1e3 * result.reference_seconds:.3f}",
        ])  # fmt: skip
    return table(rows)
