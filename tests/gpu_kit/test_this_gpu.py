"""Tests that a kit's results become a device file, and tables in a report.

The results are written by hand.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rammer_mlir.benchmarks import this_gpu
from rammer_mlir.benchmarks.gpu.kit.cases import SUBJECTS, Case, cases_of
from rammer_mlir.benchmarks.gpu.kit.manifest import Kit, Model, ProgramFacts
from rammer_mlir.benchmarks.gpu.kit.report import report
from rammer_mlir.benchmarks.gpu.kit.results import Result
from rammer_mlir.scheduling.devices.description import read_description

ATTRIBUTES = {
    "MULTIPROCESSOR_COUNT": 100, "CLOCK_RATE": 1_500_000, "L2_CACHE_SIZE": 40 << 20,
    "MAX_THREADS_PER_MULTIPROCESSOR": 1024, "MAX_REGISTERS_PER_MULTIPROCESSOR": 65536,
    "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR": 1 << 17, "MAX_SHARED_MEMORY_PER_BLOCK": 1 << 15,
    "MEMORY_CLOCK_RATE": 1, "GLOBAL_MEMORY_BUS_WIDTH": 1,
}  # fmt: skip

PROBE = {
    "attributes": ATTRIBUTES,
    "wrong_shared_loads": 0,
    "reads": [
        {"bytes": 10**9, "blocks": 100, "loads": 4, "seconds": 1e-3, "in_cache": False},
        {"bytes": 10**8, "blocks": 1, "loads": 16, "seconds": 1e-3, "in_cache": False},
        {"bytes": 10**8, "blocks": 1, "loads": 16, "seconds": 1e-5, "in_cache": True},
    ],
    "hand_offs": [{"poll": "relaxed", "blocks": 2, "seconds": 8e-7, "right": True}],
    "meeting_seconds": 2e-6,
}


def timed(seconds: float, **others: Any) -> Result:
    times = {"median": seconds, "low": seconds, "high": seconds, "runs": 3}
    both = {"device": times, "wall": times}
    return {"status": "ok", "excess": 0.5, "graph": both, "launch": both, **others}


def results() -> dict[str, Result]:
    found = {
        "machine": {
            "status": "ok", "device": "made up", "chip": "sm_90", "driver": "13.0",
            "python": "3.12", "system": "none", "packages": {"torch": "2"},
        },
        "probe": {"status": "ok", **PROBE},
        "empty.wavefront": timed(3e-6),
        "relay-1.wavefront": timed(3e-6 + 256 * 1e-7),
        "relay-2.wavefront": timed(3e-6 + 256 * 9e-7),
    }  # fmt: skip
    for kind, seconds in (("f32", 4e-3), ("tf32", 1e-3), ("f16", 5e-4)):
        found[f"product-4096x4096x4096-{kind}.wavefront"] = timed(seconds)
    return found


def write(path: Path, found: dict[str, Result]) -> Path:
    path.write_text("".join(json.dumps({"case": n, **r}) + "\n" for n, r in found.items()))
    return path


def test_results_become_a_device_file(tmp_path: Path) -> None:
    output, source = tmp_path / "this_gpu.toml", write(tmp_path / "results.jsonl", results())
    assert this_gpu.main(["-o", str(output), "--results", str(source)]) == 0
    found = read_description(output)
    assert (found.title, found.units, found.clock_hertz) == ("made up", 100, 1.5e9)
    assert found.bytes_per_second == pytest.approx(1e12)
    assert found.unit_bytes_per_second == pytest.approx(1e11)
    in_flight = 100 * found.bytes_in_flight_per_veu
    assert found.bytes_in_flight_per_veu == 16 << 10
    assert in_flight / found.memory_latency_seconds == pytest.approx(1e12)
    assert found.launch_seconds == pytest.approx(3e-6)
    assert found.rtask_seconds == pytest.approx(1e-7, rel=1e-3)
    assert found.barrier_seconds == pytest.approx(8e-7, rel=1e-3)
    assert found.flops_per_second["f16"] == pytest.approx(2 * 4096**3 / 5e-4, rel=1e-3)
    assert found.flops_per_second["f64"] == 3.4e13  # of the usual board
    assert found.sources["barrier_seconds"] == "measured by a GPU kit"
    assert found.sources["unit_cache_bytes"].startswith("of the usual board, 'h100': ")
    assert found.device(2).num_veus == 2


def test_cases_of_the_device_file_are_those_of_the_kit() -> None:
    assert set(this_gpu.CASES) <= {case.name for case in cases_of(SUBJECTS)}


@pytest.mark.parametrize("change", [{"status": "hung"}, None])
def test_figures_that_are_not_there(
    change: Result | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = results()
    if change is None:
        del found["probe"]
    else:
        found["probe"] = change
    source, output = write(tmp_path / "results.jsonl", found), tmp_path / "this_gpu.toml"
    assert this_gpu.main(["-o", str(output), "--results", str(source)]) == 1
    status = "none" if change is None else "hung"
    assert f"expected the case 'probe' to be ok, found {status}; run it" in capsys.readouterr().err
    assert not output.exists()


def kit() -> Kit:
    cases = [
        Case("machine", "machine"), Case("probe", "probe"),
        Case("p.wavefront", "program", 1, "p", "wavefront", "p.wavefront"),
        Case("net.wavefront", "program", 1, "net", "wavefront", "net.wavefront"),
        Case("net.per-operator", "program", 1, "net", "per-operator", "net.per-operator"),
        Case("p.torch-graph", "torch", 1, "p", "graph"),
        Case("net.torch-graph", "torch", 1, "net", "graph"),
        Case("net.torch-eager", "torch", 1, "net", "eager"),
        Case("net.memcheck", "sanitizer", 1, "net", "memcheck", "net.wavefront"),
    ]  # fmt: skip
    models = {"p": Model({}, product="f16"), "net": Model({}, graph="net.json")}
    facts = {case.program: ProgramFacts(2e-6, 10**9, 10**6, 132) for case in cases if case.program}
    return Kit("nvvm:sm_90", {"date": "today"}, cases, models, facts)


def test_tables_of_results() -> None:
    """The tables have each model's time, its best baseline's time, and its predicted time."""
    times = {"median": 30e-6, "low": 30e-6, "high": 30e-6, "runs": 3}
    found = {
        **results(),
        "p.wavefront": timed(10e-6, floor=1e-6), "net.wavefront": timed(20e-6, floor=1e-6),
        "net.per-operator": timed(50e-6), "net.torch-graph": {"status": "ok", "device": times},
        "net.torch-eager": {"status": "wrong", "message": "a | b"},
        "p.torch-graph": {"status": "ok", "device": times},
    }  # fmt: skip
    text = report(kit(), found)
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]
    assert ["p", "2.00", "1.00", "10.00", "100.00", "100", "30.00", "3.00"] in rows
    assert ["net", "0.0200", "-", "-", "0.0500", "-", "0.0300", "-", "1.50"] in rows
    assert ["net.wavefront", "132", "2.00", "1.00", "20.00", "20.00", "20.00", "0.5"] in rows
    assert ["hand-off, relaxed", "2", "800 ns"] in rows
    assert "a \\| b" in text and "made up, CUDA 13.0" in text
    assert ["net.memcheck", "left", ""] in rows


def test_tables_of_nothing() -> None:
    text = report(kit(), {})
    assert text.startswith("Kit for nvvm:sm_90, packed on today.")
    assert text.count("| left ") == len(kit().cases)
