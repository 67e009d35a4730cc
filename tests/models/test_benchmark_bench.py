"""Measuring, with ONNX Runtime itself in the compiler's place."""

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest

from rammer_mlir.benchmarks import bench, memory, report, timing
from rammer_mlir.benchmarks.__main__ import main, select
from rammer_mlir.benchmarks.bench import CompileCost, Request, Result, measure
from rammer_mlir.benchmarks.comparison import Array
from rammer_mlir.benchmarks.launch import LaunchTime
from rammer_mlir.benchmarks.models import MODELS
from rammer_mlir.benchmarks.node_cases import Result as NodeResult
from rammer_mlir.benchmarks.reference import Reference
from rammer_mlir.errors import OptionError


class Stub:
    """An executable that runs by ONNX Runtime, and is off by a factor."""

    stats: Mapping[str, object] = {
        "seconds": {"linalg": 0.25, "tasks": 0.5},
        "arena_bytes": 1_000_000,
        "intermediate_bytes": 3_000_000,
    }

    def __init__(self, model: onnx.ModelProto, num_veus: int, factor: float) -> None:
        self._reference = Reference(model, num_veus)
        self._factor = np.float32(factor)

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        outputs = self._reference.run(feeds)
        return {name: value.astype(np.float32) * self._factor for name, value in outputs.items()}


def compile_stub(model: onnx.ModelProto, policy: str, num_veus: int) -> Stub:
    return Stub(model, num_veus, 1.0 if policy == "wavefront" else 1.5)


REQUEST = Request("mlp", scale="small", threads=(1, 2), budget=0.0)


@pytest.fixture(scope="module")
def result() -> Result:
    return measure(REQUEST, compile_stub)


def test_every_contender_is_timed_with_every_number_of_threads(result: Result) -> None:
    names = [(t.name, t.threads) for t in result.timings]
    expected = ["onnxruntime", "wavefront", "sequential"]
    assert names == [(name, threads) for threads in (1, 2) for name in expected]
    for found in result.timings:
        assert found.latency.runs == timing.MIN_ROUNDS * timing.BURST
        assert 0 < found.latency.low <= found.latency.median <= found.latency.high


def test_outputs_are_compared_with_the_reference(result: Result) -> None:
    worst = {(t.name, t.threads): t.worst for t in result.timings}
    assert worst["wavefront", 1] <= 1
    assert worst["sequential", 1] > 100


def test_compile_costs_are_recorded(result: Result) -> None:
    assert [(c.policy, c.num_veus) for c in result.compiles] == [
        ("wavefront", 2),
        ("sequential", 2),
        ("wavefront", 1),
        ("sequential", 1),
    ]
    first = result.compiles[0]
    assert first.stages == {"linalg": 0.25, "tasks": 0.5}
    assert (first.arena_bytes, first.intermediate_bytes) == (1_000_000, 3_000_000)
    assert first.seconds > 0
    assert first.peak_bytes >= result.base_bytes > 10_000_000


def test_report_holds_a_row_for_each_model_and_ratios(result: Result, tmp_path: Path) -> None:
    failed = Result(Request("alexnet"), error="process ended with status -11")
    nodes = [NodeResult("a", ("Add",), None), NodeResult("b", ("Loop",), "wrong")]
    everything = report.Report([result, failed], [LaunchTime(3, 1.25, 4.5)], nodes)
    paths = report.write(everything, tmp_path / "new" / "folder")
    content = json.loads(paths[0].read_text())
    assert content["machine"]["onnxruntime"] is not None
    assert content["models"][0]["compiles"][0]["stages"]["tasks"] == 0.5
    text = paths[1].read_text()
    assert content["launches"] == [{"num_veus": 3, "native": 1.25, "run": 4.5}]
    assert [node["reason"] for node in content["nodes"]] == [None, "wrong"]
    assert "node tests: 1 of 2 pass (50.0%)" in text
    assert "| 3    | 1.25             | 4.50 " in text
    assert "alexnet: process ended with status -11" in text
    reference, ours = (result.latency(name, 2) for name in ("onnxruntime", "wavefront"))
    assert reference is not None and ours is not None
    row = next(line for line in text.splitlines() if line.startswith("| mlp     | 2"))
    assert f"| {reference.median / ours.median:.2f} " in row


def test_table_aligns_columns() -> None:
    assert report.table([["a", "bb"], ["ccc", "d"]]).splitlines() == [
        "| a   | bb |",
        "|-----|----|",
        "| ccc | d  |",
    ]


def test_compile_table_marks_a_stage_that_a_model_does_not_have(result: Result) -> None:
    other = Result(REQUEST, compiles=[CompileCost("wavefront", 1, 1.0, {"llvm": 1.0}, 0, 0, 0)])
    lines = report.compile_table([result, other]).splitlines()
    assert [cell.strip() for cell in lines[0].split("|")[3:6]] == ["linalg", "tasks", "llvm"]
    assert [cell.strip() for cell in lines[3].split("|")[3:6]] == ["-", "-", "1.00"]


def test_interleaving_gives_everyone_the_same_number_of_runs() -> None:
    calls: list[str] = []
    latencies = timing.interleave(
        {"slow": lambda: (calls.append("slow"), time.sleep(2e-3)), "fast": lambda: None}, 0.0
    )
    assert len(calls) == timing.MIN_ROUNDS * (timing.BURST + 1)
    assert latencies["slow"].median > 2e-3 > latencies["fast"].median
    assert latencies["slow"].runs == latencies["fast"].runs


def test_latency_prints_milliseconds() -> None:
    assert str(timing.Latency.of([1e-3, 2e-3, 3e-3])) == "2.000 [1.500, 2.500]"


def test_peak_memory_grows_with_an_allocation() -> None:
    before = memory.peak_bytes()
    block = np.ones(before // 8 + 4_000_000)  # more than has ever been resident
    assert memory.peak_bytes() >= block.nbytes
    assert memory.peak_bytes() > before


def crash(request: Request) -> Result:
    os._exit(7)


def test_a_child_that_dies_is_an_error_of_its_model() -> None:
    result = bench.measure_in_child(REQUEST, work=crash)
    assert result.error == "process ended with status 7"


def test_an_error_in_the_child_comes_back() -> None:
    result = bench.measure_in_child(Request("no_such_model"))
    assert result.error is not None and "found 'no_such_model'" in result.error


def test_a_child_that_takes_too_long_is_ended() -> None:
    result = bench.measure_in_child(REQUEST, timeout=0.0)
    assert result.error == "no result after 0 s"


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
