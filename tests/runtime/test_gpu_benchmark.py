"""Tests that those parts of the GPU benchmark that need no GPU work on the emulator."""

from __future__ import annotations

import shutil
from typing import Any

import numpy as np
import pytest

from rammer_mlir.benchmarks.gpu import __main__ as bench
from rammer_mlir.benchmarks.relay import Relay


@pytest.mark.parametrize(("num_veus", "steps"), [(1, 5), (2, 9), (3, 7), (2, 0)])
@pytest.mark.parametrize("target", ["nvvm:sm_90", "rocdl:gfx90a"])
def test_a_relay_counts_its_steps(target: str, num_veus: int, steps: int) -> None:
    executable = Relay(num_veus, steps).emulate(target)
    for start in (0.5, 3.25):
        found = executable.run({"x": np.array([start], np.float32)}) if steps else None
        assert found is None or found["y"][0] == start + steps
    if not steps:
        executable.run_on_device(executable.to_device({"x": np.zeros(1, np.float32)}))


def test_relays_compile_for_both_makers() -> None:
    for target in ("nvvm:sm_80", "rocdl:gfx942"):
        executable = Relay(2, 256).compile(target)
        assert len(executable.code) > 0


@pytest.mark.skipif(shutil.which("nvidia-smi") is not None, reason="there is a GPU to measure on")
def test_no_gpu_is_said_in_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Any) -> None:
    assert bench.main(["--output", str(tmp_path / "out")]) == 0
    text = capsys.readouterr().out
    assert text.startswith("no GPU to measure on: ") and text.count("\n") == 1
    assert not (tmp_path / "out").exists()
