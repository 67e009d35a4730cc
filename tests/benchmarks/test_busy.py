"""Tests that the benchmark beside busy processes starts and ends them, and times all contenders.

In these tests, ONNX Runtime runs in place of this compiler's programs.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from rammer_mlir.benchmarks import busy, report
from rammer_mlir.benchmarks.__main__ import main
from rammer_mlir.benchmarks.busy import (
    ALONE,
    BUSY_MODELS,
    OURS,
    BusyRequest,
    Tail,
    busy_text,
    measure_busy,
    spinning,
)
from rammer_mlir.benchmarks.contenders.protocol import Contender
from rammer_mlir.benchmarks.contenders.table import REFERENCE, open_contender
from rammer_mlir.benchmarks.models import MODELS

reference = partial(open_contender, name=REFERENCE)


def unable(model: Path, threads: int) -> Contender:
    raise ValueError("cannot do this")


def children() -> int:
    """Return the number of child processes of this process that have not ended."""
    tasks = Path("/proc/self/task").iterdir()
    return sum(len((task / "children").read_text().split()) for task in tasks)


def test_models_exist() -> None:
    assert set(BUSY_MODELS) <= set(MODELS)


def test_processes_spin_and_end() -> None:
    before = children()
    with pytest.raises(KeyError), spinning(2):
        assert children() == before + 2
        raise KeyError
    assert children() == before


def test_quantiles() -> None:
    samples = np.random.default_rng(1).exponential(size=500)
    tail = Tail.of("ours", 1, samples.tolist(), 0.5)
    found = (tail.median, tail.p90, tail.p99)
    np.testing.assert_allclose(found, np.quantile(samples, (0.5, 0.9, 0.99)))
    assert str(replace(tail, median=0.001, p90=0.0025, p99=1.0)) == "1.00 / 2.50 / 1000.00"


def test_all_contenders_are_timed_beside_all_numbers_of_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    opens = {REFERENCE: reference, "openvino": unable, OURS: reference, ALONE: reference}
    monkeypatch.setattr(busy, "openers", lambda: opens)
    options = ["--parts", "busy", "--scale", "small", "--seconds", "0", "--output", str(tmp_path)]
    assert main(["mlp", *options]) == 0
    (found,) = report.read(tmp_path / report.JSON).busy
    assert found.error is None
    assert found.missing == ["openvino: ValueError: cannot do this"]
    names = [(tail.name, tail.busy) for tail in found.tails]
    assert sorted(names) == sorted((n, b) for n in (REFERENCE, OURS, ALONE) for b in (0, 1, 2))
    assert all(0 < t.median <= t.p90 <= t.p99 and t.worst == 0 for t in found.tails)
    lines = busy_text([found])[1].splitlines()
    assert [line.split("|")[2].strip() for line in lines[2:]] == ["0", "1", "2"]
    assert set(lines) <= set(capsys.readouterr().out.splitlines())


@pytest.mark.slow
def test_an_error_of_ours_is_the_results() -> None:
    request = BusyRequest("mlp", "small", busy=(0,), budget=0)
    found = measure_busy(request, {REFERENCE: reference, OURS: unable})
    assert found.error == "ours: ValueError: cannot do this"
    assert found.tails == []
    assert found.error in "\n".join(busy_text([found]))
