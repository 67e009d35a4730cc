"""Tests that the benchmark of fusion boundaries times two programs of each model.

The programs differ in the boundary: the rule that ends an rOperator during fusion. Equal programs
are recognized, and the summary counts the models.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from rammer_mlir.benchmarks import __main__ as command
from rammer_mlir.benchmarks import report
from rammer_mlir.benchmarks.fusion.boundaries import (
    BoundaryRequest,
    BoundaryResult,
    measure_boundaries,
    text,
)
from rammer_mlir.benchmarks.fusion.measure import Fused
from rammer_mlir.benchmarks.fusion.settings import COST, DEFAULT


def result(model: str, default: float, cost: float, *, equal: bool = False) -> BoundaryResult:
    ways = [
        Fused(DEFAULT, default, 10, 100, 200, 1.5, 0.25, "a"),
        Fused(COST, cost, 8, 100, 200, 2.5, 0.25, "a" if equal else "b"),
    ]
    return BoundaryResult(BoundaryRequest(model), 0.004, ways)


def test_both_programs_are_compiled_compared_and_timed() -> None:
    found = measure_boundaries(BoundaryRequest("attention", "small", budget=0.0))
    assert found.error is None
    assert [way.setting for way in found.ways] == [DEFAULT, COST]
    assert all(way.seconds > 0 and way.worst <= 1 and way.digest for way in found.ways)
    assert found.reference_seconds > 0


def test_equal_programs_have_equal_digests() -> None:
    found = measure_boundaries(BoundaryRequest("mlp", "small", budget=0.0))
    default, cost = found.ways
    assert default.digest == cost.digest
    assert found.ratio == 1.0


def test_a_failure_is_the_error_of_its_model() -> None:
    found = measure_boundaries(BoundaryRequest("no_such_model", "small"))
    assert found.error is not None and "found 'no_such_model'" in found.error
    assert "- no_such_model: model: expected one of" in text([found])


def test_the_summary_counts_models() -> None:
    found = [
        result("slow", 0.001, 0.0011),
        result("fast", 0.001, 0.0005),
        result("alike", 0.001, 0.00101),
        result("equal", 0.001, 0.002, equal=True),
    ]
    written = text(found)
    assert "4 models" in written
    assert "slower by more than 2%: 1, faster by more than 2%: 1, equal programs: 1" in written
    rows = {line.split()[1]: line for line in written.splitlines() if line.startswith("| ")}
    assert "| 1.10 " in rows["slow"] and "| 0.50 " in rows["fast"]
    assert "| 1.00 (equal) " in rows["equal"]


def test_the_command_measures_the_named_models(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def stub(request: BoundaryRequest) -> BoundaryResult:
        return result(request.model, 0.001, 0.002)

    monkeypatch.setattr(command, "measure_boundaries", stub)
    assert command.main(["mlp", "--parts", "boundaries", "--output", str(tmp_path)]) == 0
    (kept,) = report.read(tmp_path / "bench.json").boundaries
    assert kept.request.model == "mlp" and kept.ratio == 2.0
