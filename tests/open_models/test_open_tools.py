"""Tests that the command-line tools handle models with open dimensions.

The sizes of the dimensions are given by name, or by the shapes of arrays.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from rammer_mlir.cli import compile as compile_tool
from rammer_mlir.cli import opt as opt_tool
from rammer_mlir.cli import run as run_tool
from tests.cli.tools import Main, Tool
from tests.open_models.models import decoder, expected, layer, weight

MODEL = layer()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with two models, an artifact of two programs, and arrays as inputs."""
    folder = tmp_path_factory.mktemp("tools")
    onnx.save(MODEL, folder / "model.onnx")
    onnx.save(decoder(), folder / "decoder.onnx")
    np.savez(folder / "in.npz", x=weight(0, 2, 3, 8))
    arguments = [str(folder / "model.onnx"), "-o", str(folder / "several.rammer"), "--no-cache"]
    sizes = ["--dim", "batch=1,2", "--dim", "length=3"]
    assert compile_tool.main([*arguments, *sizes, "--veus", "1"]) == 0
    return folder


def fails(capsys: pytest.CaptureFixture[str], main: Main, *arguments: str | Path) -> str:
    return Tool(main, capsys).fail(*arguments)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ([], "the model leaves 'batch', 'length' open: give --dim batch=N --dim length=N"),
        (["batch=1,2"], "the model leaves 'length' open: give --dim length=N"),
        (["batch"], "--dim 'batch': expected NAME=SIZES, as batch=1,8 or length=16..512:16"),
        (["batch=1,,2"], "--dim 'batch=1,,2': expected NAME=SIZES, "),
        (["batch=-1"], "--dim 'batch=-1': expected NAME=SIZES, "),
        (["batch=3..1"], "--dim 'batch=3..1': expected NAME=SIZES, "),
        (["batch=1..9:0"], "--dim 'batch=1..9:0': expected NAME=SIZES, "),
        (["=1"], "--dim '=1': expected NAME=SIZES, "),
        (["batch=1", "batch=2"], "--dim 'batch=2': 'batch' has sizes already; give it once"),
        (["batch=1..20", "length=1..20"], "--dim: expected at most 256 specializations, found 400"),
        (["batch=1..999999999999"], "--dim: expected at most 256 specializations, found 99999999"),
        (["rows=1"], "--dim: unknown dimension 'rows': the model's open dimensions are 'batch', "),
        (["rows=1,2", "batch=1"], "--dim: unknown dimension 'rows': the model's open dimensions "),
    ],
)
def test_sizes_that_do_not_do(
    sizes: list[str], message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [text for size in sizes for text in ("--dim", size)]
    output = folder / "none.rammer"
    found = fails(capsys, compile_tool.main, folder / "model.onnx", "-o", output, *given)
    assert found.startswith(message)
    assert not output.exists()


def test_a_shape_and_a_size_that_contradict(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--shape", "k0=1,7,8", "--dim", "past=8", "-o", folder / "none.rammer"]
    found = fails(capsys, compile_tool.main, folder / "decoder.onnx", *given)
    assert found.startswith("'past' is 7 in k0, 8 in --dim: ")


def test_stages_need_one_size(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [folder / "model.onnx", "--emit", "linalg", "--dim", "length=3", "--dim"]
    printed = Tool(compile_tool.main, capsys).succeed(*arguments, "batch=2")
    assert "tensor<2x3x8xf32>" in printed
    found = fails(capsys, compile_tool.main, *arguments, "batch=1,2")
    assert found.startswith("--dim batch: expected one size with --emit, found 2")
    opened = [folder / "model.onnx", "--dim", "batch=2"]
    assert "2x3x8" in Tool(opt_tool.main, capsys).succeed(*opened, "--dim", "length=3")
    found = fails(capsys, opt_tool.main, *opened)
    assert found == "the model leaves 'length' open: give --dim length=N"


def test_ranges_of_sizes() -> None:
    from rammer_mlir.cli.model_options import parse_dims

    found = parse_dims(["a=1,8", "b=16..64:16", "x[0]=3", "c=2..3,3,9"])
    assert found == {"a": (1, 8), "b": (16, 32, 48, 64), "x[0]": (3,), "c": (2, 3, 9)}


def test_a_single_size_makes_a_file_of_one_program(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = folder / "single.rammer"
    sizes = ["--dim", "batch=2", "--dim", "length=3"]
    tool = Tool(compile_tool.main, capsys)
    tool.succeed(folder / "model.onnx", "-o", output, "--no-cache", *sizes)
    info = Tool(run_tool.main, capsys).succeed("--info", output)
    assert "input 'x'        2x3x8 float32\n" in info and "specialization" not in info
    found = fails(capsys, run_tool.main, output, "--dim", "batch=2")
    assert found.startswith("--dim: expected a model with open dimensions")


def test_an_artifact_says_what_it_holds(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    info = Tool(run_tool.main, capsys).succeed("--info", folder / "several.rammer")
    # The length is fixed: only one size was given.
    assert info.splitlines() == [
        "target           cpu",
        "vEUs             1",
        "input 'x'        batchx3x8 float32",
        "output 'y'       batchx3x8 float32",
        "specialization   batch=1",
        "specialization   batch=2",
    ]
    proven = Tool(run_tool.main, capsys).succeed("--verify", folder / "several.rammer")
    assert "programs 2" in proven
    found = fails(capsys, run_tool.main, "--info", folder / "model.onnx")
    assert found.startswith("--info: expected an artifact")


@pytest.mark.parametrize("model", ["several.rammer", "model.onnx"])
def test_the_shapes_of_arrays_decide(
    model: str, folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    output = tmp_path / "out.npz"
    tool = Tool(run_tool.main, capsys)
    tool.succeed(folder / model, "--inputs", folder / "in.npz", "--outputs", output)
    x = np.load(folder / "in.npz")["x"]
    found = np.load(output)["y"]
    np.testing.assert_allclose(found, expected(MODEL, {"x": x})["y"], rtol=1e-4, atol=1e-4)


def test_random_inputs_need_sizes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    several = folder / "several.rammer"
    found = fails(capsys, run_tool.main, several)
    assert "give --dim batch=N, or arrays with --inputs; the artifact holds batch=1; batch=2" in (
        found
    )
    tool = Tool(run_tool.main, capsys)
    assert "output 'y'  2x3x8" in tool.succeed(several, "--dim", "batch=2")
    assert "output 'y'  1x3x8" in tool.succeed(several, "--shape", "x=1,3,8")
    found = fails(capsys, run_tool.main, several, "--dim", "batch=7")
    assert found.startswith("for batch=7: ") and "batch=1; batch=2" in found
    found = fails(capsys, run_tool.main, several, "--dim", "rows=7")
    assert found.startswith("--dim: unknown dimension 'rows'")
    found = fails(capsys, run_tool.main, several, "--dim", "batch=1,2")
    assert found.startswith("--dim batch: expected one size for random inputs, found 2")
    found = fails(capsys, run_tool.main, folder / "model.onnx")
    assert found.startswith("the model leaves 'batch', 'length' open: give --dim batch=N --dim ")


def test_timelines_of_an_open_model(
    folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    timeline = tmp_path / "t.json"
    arguments = ["--inputs", folder / "in.npz", "--timeline", timeline, "--compare", "sequential"]
    Tool(run_tool.main, capsys).succeed(folder / "model.onnx", *arguments)
    assert timeline.stat().st_size > 0
