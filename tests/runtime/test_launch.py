"""Tests that the benchmark of launches runs.

``make bench`` prints its times, which are not tested.
"""

from __future__ import annotations

import pytest

from rammer_mlir.benchmarks import launch


def test_launches_of_an_empty_program_are_timed(capsys: pytest.CaptureFixture[str]) -> None:
    """The times of a call of the native code and of a call of ``run`` are positive.

    Which of the two calls is faster is not tested, since that varies on a busy machine.
    """
    measured = launch.measure_launch(2, samples=5)
    assert 0 < measured.native < 1e9
    assert 0 < measured.run < 1e9
    assert launch.main(["--veus", "1"]) == 0
    assert capsys.readouterr().out.startswith("1 vEUs: native launch ")
