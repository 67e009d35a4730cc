"""The launch benchmark works; what it measures is printed by ``make bench``, not tested."""

from __future__ import annotations

import pytest

from rammer_mlir.benchmarks import launch


def test_launches_of_an_empty_program_are_timed(capsys: pytest.CaptureFixture[str]) -> None:
    """Both ways take time; which takes longer says little on a busy machine."""
    measured = launch.measure_launch(2, samples=5)
    assert 0 < measured.native < 1e9
    assert 0 < measured.run < 1e9
    assert launch.main(["--veus", "1"]) == 0
    assert capsys.readouterr().out.startswith("1 vEUs: native launch ")
