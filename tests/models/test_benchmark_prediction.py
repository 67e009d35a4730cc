"""Tests of the benchmark that compares predicted times with measured times.

It computes the errors of the predictions, and writes a table.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from rammer_mlir.benchmarks.__main__ import main
from rammer_mlir.benchmarks.child import Failure, in_child
from rammer_mlir.benchmarks.prediction import (
    Prediction,
    PredictionRequest,
    errors,
    low,
    operator_seconds,
    predict_and_measure,
    prediction_table,
    total_error,
)
from rammer_mlir.benchmarks.this_cpu import description
from rammer_mlir.lowering.profiling.profiles import ENVIRONMENT
from rammer_mlir.timeline.spans import Span, Timeline
from tests.scheduling.test_costs_of_devices import MEASURED


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path / "profiles.sqlite"))


def test_a_model_is_predicted_and_measured(tmp_path: Path) -> None:
    device = tmp_path / "this_cpu.toml"
    device.write_text(description(MEASURED), encoding="utf-8")
    request = PredictionRequest("attention", str(device), (1, 2), scale="small", budget=0.1)
    one, two = predict_and_measure(request)
    assert (one.threads, two.threads) == (1, 2)
    assert one.operators == two.operators > 3
    # Within a factor of 30 of each other, whatever else this machine does; two threads that wait
    # for each other take any time where others work on the same cores.
    assert one.measured / 30 < one.profiled
    for found in (one, two):
        assert 0 < found.profiled < found.measured * 30
        assert found.modelled != found.profiled


def span(name: str, seconds: float, veu: int = 0) -> Span:
    return Span(veu, 1.0, 1.0 + seconds, "rtask", name, "k", 0, 1)


def test_operators_are_summed_over_veus() -> None:
    wait = Span(1, 0.0, 5.0, "barrier", "barrier")
    timeline = Timeline("t", ((span("a", 2.0), span("b", 1.0)), (wait, span("a", 3.0, 1))))
    found = operator_seconds(timeline)
    assert found == {("a", "k"): pytest.approx(5.0), ("b", "k"): pytest.approx(1.0)}
    predicted = {("a", "k"): 4.0, ("b", "k"): 3.0}
    assert errors(predicted, found) == [pytest.approx(0.2), pytest.approx(2.0)]
    assert total_error(predicted, found) == pytest.approx(0.5)


def test_the_slower_half_does_not_count() -> None:
    assert low([3.0, 9.0, 1.0, 100.0, 2.0]) == 2.0


def test_the_table_ends_with_the_mean_error() -> None:
    rows = [
        Prediction("m", n, 3, 1.0, factor, 2.0, 0.1, 0.2, 0.1) for n, factor in ((1, 1.1), (2, 0.7))
    ]
    text = prediction_table(rows)
    assert "+10%" in text
    assert "-30%" in text
    assert "profiled: mean error 20.0%, median 20.0%, at most 30%" in text
    assert "modelled: mean error 100.0%" in text


def _give(number: int) -> int:
    return 7 // number


def test_a_child_answers_or_fails() -> None:
    assert in_child(_give, 1, 60.0) == 7
    failed = in_child(_give, 0, 60.0)
    assert isinstance(failed, Failure)
    assert failed.message == "process ended with status 1"


@pytest.mark.slow
def test_the_benchmark_has_a_part_for_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["mlp", "--parts", "prediction", "--scale", "small", "--seconds", "0.1"]
    assert main([*arguments, "--output", str(tmp_path)]) == 0
    assert "profiled: mean error" in capsys.readouterr().out
    assert (tmp_path / "this_cpu.toml").exists()
