"""The GPU benchmark's own parts, on the emulator."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rammer_mlir
from rammer_mlir.benchmarks.gpu import __main__ as bench
from rammer_mlir.benchmarks.gpu import kit
from rammer_mlir.benchmarks.models import build
from rammer_mlir.benchmarks.relay import Relay
from rammer_mlir.benchmarks.timing import Latency
from rammer_mlir.emulation.device.driver import EmulatedDriver
from rammer_mlir.emulation.device.executable import NO_CODE
from rammer_mlir.runtime.gpu.executable import GpuExecutable


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


MODELS = ["attention", "lstm_bidirectional"]


def once(contenders: dict[str, Callable[[], object]], budget: float) -> dict[str, Latency]:
    """Run each contender once: times of the emulator say nothing."""
    for run in contenders.values():
        run()
    return {name: Latency.of([budget, budget]) for name in contenders}


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("kit")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kit, "RELAYS", {"empty": (2, 0), "relay": (2, 8), "alone": (1, 8)})
        assert kit.main(["pack", str(folder), "--models", *MODELS]) == 0
        yield folder


def emulate(path: Path) -> GpuExecutable:
    """Open an artifact of the kit with an emulated driver, whose kernel is compiled anew."""
    loaded = kit.open_artifact(path)
    case, way = path.name.removesuffix(".rammer").rsplit(".", 1)
    if way == "relay":
        made = Relay(*kit.RELAYS[case]).emulate("nvvm:sm_90")
    else:
        policy, per_operator = kit.WAYS[way]
        made = rammer_mlir.compile(
            build(case.rpartition("-")[0], scale="small"), target="nvvm:sm_90", policy=policy,
            per_operator=per_operator, emulate=True,
        )  # fmt: skip
    own = made.program.driver
    assert isinstance(own, EmulatedDriver)
    driver = EmulatedDriver("sm_90", {loaded.code: own.kernels[NO_CODE]})
    return GpuExecutable(loaded.image, loaded.code, lambda: driver)


def test_a_kit_is_checked_and_timed(packed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kit, "interleave", once)
    found = kit.check(packed, 0.0, emulate)
    assert found["errors"] == {}
    assert list(found["latencies"]) == [f"{name}-small" for name in MODELS]
    assert "wait for another vEU" in found["relays"]
    text = kit.report(found)
    assert all(name in text for name in MODELS) and "sequential, graph ms" in text


def test_a_kit_with_other_numbers_is_refused(
    packed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kit, "interleave", once)
    shutil.copytree(packed, tmp_path / "kit")
    path = tmp_path / "kit" / f"{MODELS[0]}-small.npz"
    with np.load(path) as file:
        arrays = {key: file[key] for key in file.files}
    name = next(key for key in arrays if key.startswith("out:"))
    arrays[name] = arrays[name] + np.float32(0.5)
    np.savez(path, allow_pickle=False, **arrays)
    listed = tmp_path / "kit" / "kit.json"
    content = json.loads(listed.read_text())
    listed.write_text(json.dumps({**content, "cases": [path.stem]}))
    found = kit.check(tmp_path / "kit", 0.0, emulate)
    assert list(found["errors"]) == [f"{MODELS[0]}-small"]
    assert "wavefront computes wrong numbers: worst element" in kit.report(found)


def test_a_kit_needs_no_compiler(packed: Path) -> None:
    """On a machine with NumPy alone it gets as far as the driver."""
    code = (
        "import sys; absent = 'onnx', 'onnxruntime', 'torch_mlir', 'llvmlite';"
        "sys.modules |= dict.fromkeys(absent);"
        f"from rammer_mlir.benchmarks.gpu.kit import main; sys.exit(main(['check', '{packed}']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    if done.returncode:
        assert done.stderr.startswith("error: running on an NVIDIA GPU: expected its driver")
        assert done.stderr.count("\n") == 1


def test_what_is_no_kit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert kit.main(["check", str(tmp_path)]) == 1
    assert "expected a kit with a file kit.json" in capsys.readouterr().err
    assert kit.main(["pack", str(tmp_path), "--target", "cpu"]) == 1
    assert "target 'cpu': expected a GPU" in capsys.readouterr().err


def test_a_kit_that_is_too_large_leaves_models_out(tmp_path: Path) -> None:
    assert kit.pack(tmp_path, "nvvm:sm_90", ["attention"], 1000) == []
    assert not list(tmp_path.glob("attention*"))


@pytest.mark.skipif(shutil.which("nvidia-smi") is not None, reason="there is a GPU to measure on")
def test_no_gpu_is_said_in_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Any) -> None:
    assert bench.main(["--output", str(tmp_path / "out")]) == 0
    text = capsys.readouterr().out
    assert text.startswith("no GPU to measure on: ") and text.count("\n") == 1
    assert not (tmp_path / "out").exists()
