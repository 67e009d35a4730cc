"""IOS's five schedules: each is at least what it is a restriction of."""

from __future__ import annotations

import pytest

from rammer_mlir.benchmarks.experiments.ios_strategies import compare, main


@pytest.mark.slow
def test_schedules_of_a_small_network() -> None:
    found = compare("squeezenet", "nvvm:sm_70", 1, "small")
    assert list(found)[:5] == ["sequential", "greedy", "merge", "parallel", "both"]
    assert found["parallel"] <= min(found["sequential"], found["greedy"])
    assert found["merge"] <= found["sequential"]
    assert found["both"] <= found["parallel"]
    assert min(found.values()) > 0


def test_an_unknown_model(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["no_such_model"]) == 1
    assert "found 'no_such_model'" in capsys.readouterr().err
