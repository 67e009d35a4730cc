"""Tests that schedules follow the costs of the device that is named.

It is named in Python, or to `rammer-compile`.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import rammer_mlir
from rammer_mlir.benchmarks.models import build
from rammer_mlir.benchmarks.this_cpu import description, measure
from rammer_mlir.cli.compile import main
from rammer_mlir.errors import OptionError
from rammer_mlir.scheduling.devices.catalog import find_device
from tests.cli.tools import save_layer

MEASURED = {
    "units": 3, "flops_per_second": 2e11, "unit_bytes_per_second": 9e9, "bytes_per_second": 2e10,
    "launch_seconds": 2e-6, "single_launch_seconds": 6e-7, "rtask_seconds": 1e-8,
    "barrier_seconds": 5e-7,
    "unit_cache_kept_bytes": 1_500_000, "unit_cache_lost_bytes": 3_000_000,
}  # fmt: skip


def predicted(summary: str) -> float:
    found = re.search(r"predicted time\s+([\d.]+) ms", summary)
    assert found, summary
    return float(found.group(1))


def test_a_measured_device_is_a_device_file(tmp_path: Path) -> None:
    path = tmp_path / "this_cpu.toml"
    path.write_text(description(MEASURED), encoding="utf-8")
    found = find_device(str(path))
    for name, value in MEASURED.items():
        if name != "flops_per_second":
            assert getattr(found, name) == value
    assert found.flops_per_second["f32"] == 2e11
    assert [found.device(count).launch_seconds for count in (1, 2)] == [6e-7, 2e-6]
    assert found.device(6).cache_kept_bytes == 750_000, "two vEUs share a core's cache"


@pytest.mark.slow
def test_this_machine_has_senseful_figures() -> None:
    found = measure(repeats=5)
    assert 1e9 < found["flops_per_second"] / found["units"] < 1e12
    assert 1e8 < found["unit_bytes_per_second"] < 1e12
    assert 0 <= found["rtask_seconds"] < 1e-5
    assert 0 <= found["barrier_seconds"] < 1e-3
    assert 0 < found["launch_seconds"] < 1e-3
    assert 1e4 < found["unit_cache_kept_bytes"] <= found["unit_cache_lost_bytes"] < 1e9


def test_the_api_and_the_tool_take_a_device(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = build("attention", scale="small")
    slow = tmp_path / "slow cpu.toml"
    text = description(MEASURED | {"flops_per_second": 3e6})
    slow.write_text(text, encoding="utf-8")
    times = [
        predicted(rammer_mlir.compile(model, num_veus=2, costs=costs).summary)
        for costs in (None, "a100", str(slow))
    ]
    assert max(times[:2]) < times[2]
    monkeypatch.chdir(tmp_path)
    layer = save_layer(tmp_path / "layer.onnx")
    printed: list[float] = []
    for costs in ("cpu", str(slow)):
        assert main([str(layer), "--veus", "2", "--costs", costs]) == 0
        printed.append(predicted(capsys.readouterr().out))
    assert printed[0] < printed[1]


def test_a_gpu_is_scheduled_with_a_gpus_costs() -> None:
    model = build("attention", scale="small")
    own = rammer_mlir.compile(model, target="rocdl:gfx942", num_veus=3, emulate=True)
    named = rammer_mlir.compile(
        model, target="rocdl:gfx942", num_veus=3, costs="mi300x", emulate=True
    )
    assert own.summary == named.summary


def test_devices_that_do_not_fit() -> None:
    model = build("attention", scale="small")
    with pytest.raises(OptionError, match="unknown device 'abacus': expected one of a100"):
        rammer_mlir.compile(model, costs="abacus")
    with pytest.raises(OptionError, match="number of vEUs: expected at most 864 on 'a100'"):
        rammer_mlir.compile(model, num_veus=900, costs="a100")
