"""Tests that ``rammer-run --emulate`` gives the CPU's results, and refuses unsuitable options."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from rammer_mlir.cli.compile import main as compile_main
from rammer_mlir.cli.run import main
from tests.cli.tools import save_layer


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the file of a model of two layers."""
    return str(save_layer(tmp_path_factory.mktemp("models") / "layer.onnx"))


def run(
    model: str, output: Path, *options: str
) -> dict[str, np.ndarray[tuple[int, ...], np.dtype[np.float32]]]:
    """Run ``rammer-run`` on a model with the given options; return the outputs by name.

    The tool writes the outputs to the file ``output``.
    """
    assert main([model, "--outputs", str(output), *options]) == 0
    with np.load(output) as outputs:
        return dict(outputs)


@pytest.mark.parametrize("target", ["nvvm:sm_90", "rocdl:gfx90a"])
def test_emulation_agrees_with_the_cpu(
    model: str, target: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = run(model, tmp_path / "cpu.npz")
    capsys.readouterr()
    found = run(
        model, tmp_path / "gpu.npz", "--target", target, "--emulate", "--check", "--veus", "3"
    )
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-4, atol=1e-5)
    text = capsys.readouterr().out
    assert "emulation" in text
    assert "latency" not in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--check"], "--check: expected --emulate with it, found none; give both"),
        (["--emulate"], "target 'cpu': expected a GPU to emulate, found none; choose nvvm"),
        (["--emulate", "--target", "nvvm:sm_1"], "sm_1"),
        (
            ["--emulate", "--target", "nvvm", "--veus", "2", "--timeline", "t.json"],
            "timeline: expected the target cpu, whose vEUs record times",
        ),
        *(
            (
                ["--emulate", "--target", "nvvm", "--veus", "2", "--threads", count],
                "--threads: expected the target cpu, found nvvm",
            )
            for count in ("0", "2")
        ),
    ],
)
def test_refusals(
    model: str,
    options: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([model, *options]) == 1
    errors = capsys.readouterr().err
    assert errors.startswith("error: ")
    assert errors.count("\n") == 1
    assert message in errors
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("target", ["nvvm:sm_90", "rocdl:gfx90a"])
def test_an_artifact_for_a_gpu(
    target: str, model: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """An artifact for a GPU is written without a GPU; running it is refused in one line."""
    path = tmp_path / "model.rammer"
    options = ["--target", target, "--veus", "2", "--watchdog", "1000000", "-o", str(path)]
    assert compile_main([model, *options]) == 0
    assert "2 vEUs" in capsys.readouterr().out
    assert path.stat().st_size > 0
    for extra, message in (
        ([], "GPU: expected "),
        (["--target", "cpu"], f"--target: expected cpu, but '{path}' is compiled for {target}"),
        (["--watchdog", "5"], "--watchdog: expected an ONNX model, but"),
        (["--per-operator"], "--per-operator: expected an ONNX model, but"),
    ):
        if not extra and shutil.which("nvidia-smi" if "nvvm" in target else "rocm-smi"):
            continue
        assert main([str(path), *extra]) == 1
        errors = capsys.readouterr().err
        assert message in errors and errors.count("\n") == 1


def test_emulated_launches_per_operator(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--target", "nvvm", "--veus", "2", "--emulate", "--check", "--per-operator"]
    assert main([model, *options]) == 0
    assert "emulation" in capsys.readouterr().out
