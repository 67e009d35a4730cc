"""Tests that the benchmark of random cases draws, times and compares cases, and writes tables."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import pytest

from rammer_mlir.benchmarks import report
from rammer_mlir.benchmarks.__main__ import main
from rammer_mlir.benchmarks.contenders.onnx_runtime import run
from rammer_mlir.benchmarks.contenders.protocol import Contender
from rammer_mlir.benchmarks.contenders.table import REFERENCE, open_contender
from rammer_mlir.benchmarks.models import random_feeds
from rammer_mlir.benchmarks.roofline import Roofline
from rammer_mlir.benchmarks.sweep import measure, tables
from rammer_mlir.benchmarks.sweep.cases import MOST_BYTES, MOST_FLOPS, Case, draw
from rammer_mlir.benchmarks.sweep.families import FAMILIES
from rammer_mlir.benchmarks.sweep.measure import OURS, CaseResult, measure_sweep
from rammer_mlir.benchmarks.sweep.sizes import Sizes, is_prime
from rammer_mlir.benchmarks.timing import Latency
from rammer_mlir.support.interleaved_timing import paired_medians

reference = partial(open_contender, name=REFERENCE)


def picky(model: Path, threads: int) -> Contender:
    """Open a model with ONNX Runtime; raise an error if the model has matrix products.

    The error ends the contender's process, so that another process has to be started.
    """
    if any(node.op_type == "MatMul" for node in onnx.load(model).graph.node):
        raise ValueError("no products")
    return open_contender(model, threads, REFERENCE)


def latency(median: float) -> Latency:
    return Latency(median, median, median, 9)


def test_sizes_are_friendly_odd_and_prime() -> None:
    sizes = Sizes(np.random.default_rng(3))
    drawn = [sizes.size(3, 1000) for _ in range(3000)]
    assert min(drawn) == 3 and max(drawn) <= 1000
    assert sum(map(is_prime, drawn)) > 1000
    assert sum(n % 16 == 0 for n in drawn if n >= 128) > 300
    assert 200 < sum(n < 10 for n in drawn) < 1500  # the logarithm is uniform


def test_cases_are_those_of_their_seeds() -> None:
    """Successive seeds give cases of all families, the same number of each.

    A seed always gives the same model, whose operations and bytes are within the limits.
    """
    cases = [draw(seed) for seed in range(2 * len(FAMILIES))]
    assert Counter(case.family for case, _ in cases) == dict.fromkeys(FAMILIES, 2)
    for case, model in cases:
        onnx.checker.check_model(model, full_check=True)
        assert case.flops <= MOST_FLOPS and case.num_bytes <= MOST_BYTES
        again, same = draw(case.seed)
        assert again == case and same.SerializeToString() == model.SerializeToString()


def test_the_reference_runs_each_family() -> None:
    for seed in range(len(FAMILIES)):
        _, model = draw(seed)
        (result,) = run(model, random_feeds(model, seed)).values()
        assert np.isfinite(result).all()


def test_all_contenders_are_timed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    opens = {REFERENCE: reference, "openvino": picky, OURS: reference}
    monkeypatch.setattr(measure, "openers", lambda: opens)
    monkeypatch.setattr(measure, "RENEWED", 1)

    def fixed(threads: int) -> Roofline:
        return replace(roofline, threads=threads)

    roofline = Roofline(
        1,
        1e11,
        {1 << 18: 1e10, 1 << 20: 1e10, 1 << 22: 1e10, 1 << 24: 1e10, 1 << 26: 1e10, 1 << 28: 1e10},
        1e-6,
    )  # measuring it takes seconds
    monkeypatch.setattr(f"{main.__module__}.measure_roofline", fixed)
    options = ["--seconds", "0", "--threads", "1", "--cases", "2", "--first", "3"]
    assert main(["--parts", "sweep", *options, "--output", str(tmp_path)]) == 0
    found = report.read(tmp_path / report.JSON).sweep
    assert [result.case.seed for result in found] == [3, 4]
    for result in found:
        products = "MatMul" in result.case.title
        assert set(result.latencies) == {REFERENCE, OURS} | (set() if products else {"openvino"})
        assert result.missing == (["openvino: ValueError: no products"] if products else [])
        assert result.worst == 0.0 and result.ratio is not None
    text = capsys.readouterr().out
    assert "| all " in text and "Without a latency" in text and found[0].case.title in text


def test_ratios_are_those_within_rounds() -> None:
    """A ratio is the median, over rounds, of the reference's seconds divided by ours.

    Both times are of the same round. Here the ratio is 2, although the machine is slow in some
    rounds, in one of them for our program only.
    """
    rounds = {
        REFERENCE: [[4.0], [2.0], [4.0], [2.0], [2.0]],
        "openvino": [[9.0], [9.0], [9.0], [9.0], [9.0]],
        OURS: [[2.0], [1.0], [2.0], [2.0], [1.0]],
    }
    result = CaseResult(Case(0, "product", "", 1, 1), 1, compared=paired_medians(rounds))
    assert result.ratio == 2.0


def test_a_contender_that_dies_is_missing() -> None:
    """A contender that dies is missing in a case, and is started again for the next case."""
    found: list[CaseResult] = []
    request = measure.SweepRequest(2, 2, (1,), 0.0)
    measure_sweep(request, found.append, {REFERENCE: reference, OURS: picky})
    assert [len(result.missing) for result in found] == [1, 1]
    assert [set(result.latencies) for result in found] == [{REFERENCE}] * 2
    assert [result.ratio for result in found] == [None, None]


def test_tables_have_quantiles_and_the_worst() -> None:
    roofline = Roofline(1, 1e9, {1 << 20: 1e9}, 1e-6)
    results = [
        CaseResult(
            Case(n, "product" if n % 2 else "softmax", f"case {n}", 500_000, 100), 1,
            {REFERENCE: latency(n * 1e-3), "openvino": latency(1.0), OURS: latency(1e-3)},
            {REFERENCE: n * 1e-3, "openvino": 1.0, OURS: 1e-3},
        )
        for n in range(1, 101)
    ]  # fmt: skip
    assert measure.ratios(results) == pytest.approx(range(1, 101))
    assert tables.floor(results[0], roofline) == 5e-4  # arithmetic, not memory or the launch
    rows = tables.summary_table(results, {1: roofline}).splitlines()
    cells = [cell.strip() for cell in rows[2].split("|")[1:-1]]
    assert cells[:3] == ["all", "1", "100"] and cells[4:8] == ["2.00", "11.00", "51.00", "91.00"]
    assert cells[8:] == ["0.0%", "1.00", "50%"]
    assert [row.split("|")[1].strip() for row in rows[3:]] == ["product", "softmax"]
    worst = tables.worst_table(results).splitlines()
    assert len(worst) == 2 + tables.WORST and "case 1 " in worst[2]
