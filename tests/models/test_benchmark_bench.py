"""Tests of the benchmark that measures the latency of models.

Its contenders run ONNX Runtime instead of this compiler, so that their results are known.
"""

import json
import os
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rammer_mlir.benchmarks import memory, report, timing
from rammer_mlir.benchmarks.__main__ import main, select
from rammer_mlir.benchmarks.bench import Request, Result, measure
from rammer_mlir.benchmarks.comparison import Array
from rammer_mlir.benchmarks.contender_process import MIN_RUNS
from rammer_mlir.benchmarks.contenders.onnx_runtime import OnnxRuntime
from rammer_mlir.benchmarks.contenders.ours import CompileCost
from rammer_mlir.benchmarks.contenders.protocol import Open
from rammer_mlir.benchmarks.contenders.table import REFERENCE
from rammer_mlir.benchmarks.launch import LaunchTime
from rammer_mlir.benchmarks.models import MODELS
from rammer_mlir.benchmarks.node_cases import Result as NodeResult
from rammer_mlir.errors import OptionError
from rammer_mlir.support import interleaved_timing


class Stub:
    """A contender that runs ONNX Runtime and multiplies the outputs by a factor."""

    def __init__(self, model: Path, threads: int, factor: float) -> None:
        self._reference = OnnxRuntime(model, threads)
        self._factor = np.float32(factor)

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        outputs = self._reference.run(feeds)
        return {name: value.astype(np.float32) * self._factor for name, value in outputs.items()}


def exact(model: Path, threads: int) -> Stub:
    return Stub(model, threads, 1.0)


def wrong(model: Path, threads: int) -> Stub:
    return Stub(model, threads, 1.5)


def unable(model: Path, threads: int) -> Stub:
    raise ValueError("\n  cannot do this\nfor reasons that take\nmany lines")


def dying(model: Path, threads: int) -> Stub:
    os._exit(7)


def sleeping(model: Path, threads: int) -> Stub:
    time.sleep(60)
    return exact(model, threads)


OPENS: dict[str, Open] = {
    REFERENCE: exact,
    "openvino": exact,
    "iree": unable,
    "pytorch": dying,
    "wavefront": exact,
    "sequential": wrong,
}

REQUEST = Request("mlp", scale="small", threads=(1, 2), budget=0.0)


@pytest.fixture(scope="module")
def result() -> Result:
    return measure(REQUEST, OPENS)


def test_every_contender_is_timed_with_every_number_of_threads(result: Result) -> None:
    assert result.error is None
    names = [(t.name, t.threads) for t in result.timings]
    expected = [REFERENCE, "openvino", "wavefront", "sequential"]
    assert sorted(names) == sorted((name, threads) for threads in (1, 2) for name in expected)
    for found in result.timings:
        assert found.latency.runs >= interleaved_timing.MIN_ROUNDS * MIN_RUNS
        assert 0 < found.latency.low <= found.latency.median <= found.latency.high


def test_outputs_are_compared_with_the_reference(result: Result) -> None:
    worst = {(t.name, t.threads): t.worst for t in result.timings}
    assert worst["wavefront", 1] <= 1
    assert worst["sequential", 1] > 100


def test_contenders_that_fail_are_reasons_and_no_errors(result: Result) -> None:
    reasons = {(missing.name, missing.threads): missing.reason for missing in result.missing}
    for threads in (1, 2):
        assert reasons["iree", threads] == "iree: ValueError: cannot do this"
        assert reasons["pytorch", threads] == "pytorch: process ended with status 7"
    assert len(reasons) == 4


def test_an_error_of_ours_is_the_results() -> None:
    failed = measure(REQUEST, {REFERENCE: exact, "wavefront": dying, "sequential": exact})
    assert failed.error == "wavefront: process ended with status 7"
    assert failed.timings == []


def test_a_contender_that_takes_too_long_is_given_up() -> None:
    request = Request("mlp", "small", threads=(1,), policies=("wavefront",), patience=2, budget=0)
    found = measure(request, {REFERENCE: exact, "iree": sleeping, "wavefront": exact})
    assert [missing.reason for missing in found.missing] == ["iree: no result after 2 s"]
    assert [found.name for found in found.timings] == [REFERENCE, "wavefront"]


def test_our_own_program_says_what_it_costs_and_does() -> None:
    request = Request(
        "mlp", "small", threads=(2,), policies=("wavefront",), contenders=(), budget=0
    )
    found = measure(request)
    assert found.error is None and found.compile is not None and found.counts is not None
    assert found.compile.seconds >= 0.9 * sum(found.compile.stages.values()) > 0
    assert found.compile.peak_bytes >= found.compile.base_bytes > 10_000_000
    (work,) = found.works
    assert sum(kernel.count for kernel in work.kernels) >= 3
    # What the products of the definition need, and little more for biases and activations.
    assert 1 <= sum(kernel.flops for kernel in work.kernels) / found.counts.flops < 1.2
    assert found.counts.weight_bytes < work.touched_bytes
    assert all(kernel.seconds > 0 for kernel in work.kernels)
    assert 0 <= work.waiting <= 1


COST = CompileCost("wavefront", 2, 1.0, {"linalg": 0.25, "tasks": 0.5}, 10, 30, 9, 5, 3)


def test_report_holds_a_row_for_each_model_and_ratios(result: Result, tmp_path: Path) -> None:
    failed = Result(Request("alexnet"), error="process ended with status -11")
    nodes = [NodeResult("a", ("Add",), None), NodeResult("b", ("Loop",), "wrong")]
    everything = report.Report(
        [replace(result, compile=COST), failed], launches=[LaunchTime(3, 1.25, 4.5)], nodes=nodes
    )
    paths = report.write(everything, tmp_path / "new" / "folder")
    content = json.loads(paths[0].read_text())
    assert content["machine"]["onnxruntime"] is not None
    assert content["models"][0]["compile"]["stages"]["tasks"] == 0.5
    text = paths[1].read_text()
    assert content["launches"] == [{"num_veus": 3, "native": 1.25, "run": 4.5}]
    assert [node["reason"] for node in content["nodes"]] == [None, "wrong"]
    assert "node tests: 1 of 2 pass (50.0%)" in text
    assert "| 3    | 1.25             | 4.50 " in text
    assert "alexnet: process ended with status -11" in text
    assert "- iree: ValueError: cannot do this (mlp, 2 threads, mlp, 1 threads)" in text
    reference, ours = (result.latency(name, 2) for name in ("onnxruntime", "wavefront"))
    assert reference is not None and ours is not None
    row = next(line for line in text.splitlines() if line.startswith("| mlp     | 2"))
    assert f"| {reference.median / ours.median:.2f} " in row
    assert report.read(paths[0]) == everything


def test_table_aligns_columns() -> None:
    assert report.table([["a", "bb"], ["ccc", "d"]]).splitlines() == [
        "| a   | bb |",
        "|-----|----|",
        "| ccc | d  |",
    ]


def test_compile_table_marks_a_stage_that_a_model_does_not_have() -> None:
    one = Result(REQUEST, compile=COST)
    other = Result(REQUEST, compile=replace(COST, stages={"llvm": 1.0}))
    lines = report.compile_table([one, other]).splitlines()
    assert [cell.strip() for cell in lines[0].split("|")[3:6]] == ["linalg", "tasks", "llvm"]
    assert [cell.strip() for cell in lines[3].split("|")[3:6]] == ["-", "-", "1.00"]


def test_interleaving_gives_everyone_the_same_number_of_runs() -> None:
    calls: list[str] = []
    latencies = timing.interleave(
        {"slow": lambda: (calls.append("slow"), time.sleep(2e-3)), "fast": lambda: None}, 0.0
    )
    assert len(calls) == interleaved_timing.MIN_ROUNDS * (interleaved_timing.BURST + 1)
    assert latencies["slow"].median > 2e-3 > latencies["fast"].median
    assert latencies["slow"].runs == latencies["fast"].runs


def test_latency_prints_milliseconds() -> None:
    assert str(timing.Latency.of([1e-3, 2e-3, 3e-3])) == "2.000 [1.500, 2.500]"


def test_peak_memory_grows_with_an_allocation() -> None:
    before = memory.peak_bytes()
    block = np.ones(before // 8 + 4_000_000)  # more than has ever been resident
    assert memory.peak_bytes() >= block.nbytes
    assert memory.peak_bytes() > before


def test_an_unknown_model_is_an_error() -> None:
    result = measure(Request("no_such_model"))
    assert result.error is not None and "found 'no_such_model'" in result.error


def test_models_are_selected_by_pattern() -> None:
    assert select([]) == list(MODELS)
    assert select(["lstm_tc*", "mlp"]) == ["lstm_tc", "lstm_tc_unrolled", "mlp"]
    with pytest.raises(OptionError, match="found 'nothing"):
        select(["nothing*"])


def test_command_line_lists_models(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    assert "| light_resnet50 " in capsys.readouterr().out


def test_command_line_measures_the_parts_that_are_asked_for(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["--parts", "launch", "--output", str(tmp_path)]) == 0
    assert "native launch us" in capsys.readouterr().out
    content = json.loads((tmp_path / "bench.json").read_text())
    assert [launch["num_veus"] for launch in content["launches"]] == [1, 2, 3, 8]
    assert all(launch["native"] > 0 and launch["run"] > 0 for launch in content["launches"])
    assert content["models"] == content["nodes"] == []


def test_command_line_refuses_an_unknown_model(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["nope", "--output", str(tmp_path)]) == 1
    captured = capsys.readouterr()
    assert captured.err.startswith("error: model: expected one of ")
    assert captured.err.count("\n") == 1
