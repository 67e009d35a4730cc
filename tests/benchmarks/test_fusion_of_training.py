"""Tests that the benchmark of fused training steps times every setting of fusion of a model.

Its tables give the ratios to the paper's numbers, predictions beside measurements, and errors.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from rammer_mlir.benchmarks import __main__ as command
from rammer_mlir.benchmarks import report
from rammer_mlir.benchmarks.fusion.figure_21 import (
    Figure21,
    Figure21Request,
    measure_figure_21,
)
from rammer_mlir.benchmarks.fusion.measure import (
    Fused,
    FusionRequest,
    FusionResult,
    measure_fusion,
)
from rammer_mlir.benchmarks.fusion.optimization import Optimization
from rammer_mlir.benchmarks.fusion.paper import PUBLISHED
from rammer_mlir.benchmarks.fusion.settings import (
    COST,
    DEFAULT,
    NO_FUSION,
    NO_LIMIT,
    PAPERS,
    RECOMPUTED,
    SETTINGS,
    f_max,
)
from rammer_mlir.benchmarks.fusion.tables import (
    figure_table,
    optimization_table,
    summary_table,
    text,
)
from rammer_mlir.benchmarks.models.training_models import TRAINING_MODELS


def cells(rows: str, *beginning: str) -> list[str]:
    """Return the cells of the row of a Markdown table whose first cells are ``beginning``.

    ``rows`` is the text of the table, a line for each row. The test fails if there is no such row.
    """
    for line in rows.splitlines():
        found = [cell.strip() for cell in line.strip("|").split("|")]
        if found[: len(beginning)] == list(beginning):
            return found
    raise AssertionError(f"no row {beginning} in\n{rows}")


def way(setting: str, seconds: float, arena: int = 1_000_000) -> Fused:
    return Fused(setting, seconds, 10, arena, 2 * arena, 1.5, 0.25)


RESULT = FusionResult(
    FusionRequest("mlstm"),
    nodes=7,
    reference_seconds=0.004,
    ways=[
        way(NO_FUSION, 0.003, 5_000_000),
        way(f_max(2), 0.001),
        way(PAPERS, 0.002, 2_000_000),
        way(RECOMPUTED, 0.005),
        way(DEFAULT, 0.0015),
        way(COST, 0.0008),
    ],
    optimization=Optimization(first=2.0, graph=0.5, hashed=0.015, cached=0.025, same=0.002),
)


@pytest.fixture(scope="module")
def measured() -> FusionResult:
    settings = (NO_FUSION, PAPERS, RECOMPUTED)
    return measure_fusion(FusionRequest("softmax_cross_entropy", "small", settings, budget=0.0))


def test_every_way_is_compiled_compared_and_timed(measured: FusionResult) -> None:
    assert measured.error is None
    assert [found.setting for found in measured.ways] == [NO_FUSION, PAPERS, RECOMPUTED]
    assert all(found.seconds > 0 and found.worst <= 1 for found in measured.ways)
    assert all(0 < found.arena_bytes <= found.intermediate_bytes for found in measured.ways)
    separate, fused, recomputed = measured.ways
    assert separate.operators > fused.operators == recomputed.operators
    assert separate.intermediate_bytes > fused.intermediate_bytes
    assert measured.reference_seconds > 0 and measured.nodes == 39


def test_a_known_program_takes_less_than_a_new_one(measured: FusionResult) -> None:
    found = measured.optimization
    assert found is not None
    assert 0 < found.graph < found.first
    assert found.hashed > 0 and found.cached > 0 and 0 < found.same < found.first
    assert found.saving == found.first / (found.hashed + found.cached)


def test_what_fails_is_an_error_of_its_model() -> None:
    result = measure_fusion(FusionRequest("no_such_model", "small"))
    assert result.error is not None and "found 'no_such_model'" in result.error
    assert "- no_such_model: model: expected one of" in text([result])


def test_figure_21_is_predicted_by_verified_schedules() -> None:
    found = measure_figure_21(Figure21Request("small", budget=0.0))
    assert found.error is None
    assert found.operators > 100
    assert found.base > found.sequential > found.wavefront > 0
    assert found.measured == {}


def test_ratios_are_over_the_papers_limit() -> None:
    row = cells(summary_table([RESULT]), "mlstm")
    paper = PUBLISHED["mlstm"]
    assert row[1:3] == ["1.50", f"{paper.separate / paper.fused:.2f}"]
    assert row[3:5] == ["2.50", f"{paper.separate_mb / paper.fused_mb:.2f}"]
    assert row[5:7] == ["2.50", "2.88"]
    assert row[7:] == [f_max(2), "1.50", "0.80"]


def test_a_model_that_the_paper_lacks_has_no_ratios_of_it() -> None:
    other = replace(RESULT, request=FusionRequest("lstm_tc_training"))
    row = cells(summary_table([other]), "lstm_tc_training")
    assert row[2] == row[4] == row[6] == "-"


def test_optimization_is_beside_the_papers() -> None:
    rows = optimization_table([RESULT])
    assert cells(rows, "mlstm", "ours")[2:] == ["2e+03", "500", "25", "15", "1.5", "50", "2"]
    assert cells(rows, "mLSTM", "Dali")[2:] == ["795", "795", "40.6", "25.8", "1.44e+03", "12", "-"]


def test_savings_of_the_paper() -> None:
    """The paper's cache of optimized programs makes optimization 257, 33 and 12 times as fast.

    The numbers belong to the paper's three networks, and are ratios of the same two times. The
    range of 20 to 257 that the paper states mixes two kinds of ratios.
    """
    assert [round(paper.saving) for paper in PUBLISHED.values()] == [257, 33, 12]


def test_figures_show_predictions_and_measurements() -> None:
    found = Figure21(
        Figure21Request(), 5, 0.03, 0.02, 0.01, {"sequential": 0.006, "wavefront": 0.004}
    )
    only_predicted = replace(found, request=Figure21Request("full"), measured={})
    rows = figure_table([found, only_predicted])
    assert cells(rows, "reduced")[5:] == ["3.00", "2.28", "6.000", "4.000", "1.50"]
    assert cells(rows, "full")[5:] == ["3.00", "2.28", "-", "-", "-"]


def test_settings_are_dalis_and_our_own() -> None:
    assert [name for name in SETTINGS if name.startswith("F = ") and "," not in name] == [
        f_max(inputs) for inputs in range(1, 9)
    ]
    assert {NO_FUSION, NO_LIMIT, RECOMPUTED, DEFAULT, COST} < SETTINGS.keys()
    assert PAPERS == "F = 3"


def test_the_command_writes_a_page_of_all_models(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    page = tmp_path / "fusion.md"
    asked: list[FusionRequest] = []

    def stub(request: FusionRequest) -> FusionResult:
        asked.append(request)
        return replace(RESULT, request=request)

    def drawn(request: Figure21Request) -> Figure21:
        return Figure21(request, 1, 3.0, 2.0, 1.0)

    monkeypatch.setattr(command, "measure_fusion", stub)
    monkeypatch.setattr(command, "measure_figure_21", drawn)
    monkeypatch.setattr(command, "FUSION_PAGE", page)
    some = ["mlstm", "--parts", "fusion", "--output", str(tmp_path)]
    assert command.main(some) == 0
    assert [request.model for request in asked] == ["mlstm"]
    assert not page.exists()  # it has all models, or is left alone
    assert command.main(["--parts", "fusion", "--output", str(tmp_path)]) == 0
    assert [request.model for request in asked[1:]] == list(TRAINING_MODELS)
    assert {request.size for request in asked} == {"reduced"}
    assert all(f"| {name}" in page.read_text() for name in TRAINING_MODELS)
    assert {"| reduced", "| full"} == {
        line[: line.index(" ", 2)] for line in page.read_text().splitlines() if " | 1 " in line
    }
    kept = report.read(tmp_path / "bench.json")
    assert len(kept.fusions) == len(TRAINING_MODELS) and len(kept.figures_21) == 2
    assert kept.fusions[0].ways == RESULT.ways
    assert json.loads((tmp_path / "bench.json").read_text())["models"] == []


def test_small_models_are_measured_on_demand(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sizes: list[str] = []

    def stub(request: FusionRequest) -> FusionResult:
        sizes.append(request.size)
        return RESULT

    monkeypatch.setattr(command, "measure_fusion", stub)
    small = ["mlstm", "--parts", "fusion", "--scale", "small", "--output", str(tmp_path)]
    assert command.main(small) == 0
    assert sizes == ["small"]
