"""What a call of code from elsewhere costs, beside what its library takes: microseconds."""

from __future__ import annotations

import pytest

from rammer_mlir.benchmarks import calls
from rammer_mlir.benchmarks.report import Report, text


def test_calls_cost_little_more_than_their_libraries(capsys: pytest.CaptureFixture[str]) -> None:
    """The aim is 3 us; the lower quartile of a loaded machine has to keep it."""
    measured = {each.form: each for each in calls.measure_calls(budget=0)}
    host = measured.pop(calls.HOST)
    assert host.own is None
    assert set(measured) == {*calls.LINKED, "onednn", *calls.ENGINES_MEASURED}
    with_own = {form: each.own for form, each in measured.items() if each.own is not None}
    assert set(with_own) == {*calls.LINKED, "onnxruntime", "openvino"}
    for form, own in with_own.items():
        for launch in (measured[form].fixed, measured[form].moving):
            assert launch.low - own.low < 3e-6, form
    assert "added, moving" in text(Report(calls=[host, *measured.values()]))
