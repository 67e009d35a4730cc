"""Tests that the tools take ``--entry``, ``--constants`` and ``--emit-values`` for MLIR models."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rammer_mlir.cli import compile as compile_tool
from rammer_mlir.cli import run as run_tool

TWO = """
func.func @doubled(%x: tensor<4xf32> {rtask.name = "x"}) -> (tensor<4xf32> {rtask.name = "y"}) {
  %0 = arith.addf %x, %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func @shifted(%x: tensor<4xf32> {rtask.name = "x"},
    %w: tensor<4xf32> {rtask.constant = "w"}) -> (tensor<4xf32> {rtask.name = "y"}) {
  %0 = arith.addf %x, %w : tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""

X = np.arange(4, dtype=np.float32)
W = np.array([4, 3, 2, 1], np.float32)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "two.mlir").write_text(TWO)
    np.savez(tmp_path / "weights.npz", w=W)
    np.savez(tmp_path / "in.npz", x=X)
    return tmp_path


def found(folder: Path, *arguments: str) -> np.ndarray:
    given = ["--inputs", str(folder / "in.npz"), "--outputs", str(folder / "out.npz")]
    assert run_tool.main([*arguments, *given]) == 0
    with np.load(folder / "out.npz") as arrays:
        return arrays["y"]


def test_run_takes_an_entry_and_constants(folder: Path) -> None:
    file = str(folder / "two.mlir")
    assert np.array_equal(found(folder, file, "--entry", "doubled"), 2 * X)
    weights = ["--constants", str(folder / "weights.npz")]
    assert np.array_equal(found(folder, file, "--entry", "shifted", *weights), X + W)


def test_compile_takes_an_entry_and_constants(folder: Path) -> None:
    artifact = str(folder / "shifted.rammer")
    options = ["--entry", "shifted", "--constants", str(folder / "weights.npz"), "-o", artifact]
    assert compile_tool.main([str(folder / "two.mlir"), *options]) == 0
    assert np.array_equal(found(folder, artifact), X + W)


@pytest.mark.parametrize("ending", ["mlir", "mlirbc"])
def test_a_stage_with_values_needs_no_weights(folder: Path, ending: str) -> None:
    stage = str(folder / f"tasks.{ending}")
    options = ["--entry", "shifted", "--constants", str(folder / "weights.npz")]
    emitted = ["--emit", "tasks", "--emit-values", "-o", stage]
    assert compile_tool.main([str(folder / "two.mlir"), *options, *emitted]) == 0
    assert np.array_equal(found(folder, stage), X + W)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--entry", "none"], "entry: expected a public function of"),
        (["--entry", "shifted"], "'w'"),
        (["--entry", "shifted", "--constants", "absent.npz"], "absent.npz"),
        (["--entry", "doubled", "--emit", "object", "--emit-values", "-o", "-"], "object"),
    ],
)
def test_what_is_refused(
    folder: Path, options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out = [] if "--emit" in options else ["-o", str(folder / "out.rammer")]
    assert compile_tool.main([str(folder / "two.mlir"), *options, *out]) == 1
    error = capsys.readouterr().err
    assert error.startswith("error: ") and message in error
    assert error.count("\n") == 1 and "Traceback" not in error
    assert not (folder / "out.rammer").exists()
