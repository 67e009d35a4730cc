"""Each arrow of the README's picture has a test of its two ends.

A stage leads to the next stage, and its printed text can be compiled from there on.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import rammer_mlir
from rammer_mlir.cli import compile as compile_tool
from rammer_mlir.compiler.compilation import Compilation
from rammer_mlir.compiler.options import check_options
from rammer_mlir.compiler.stage_names import PORTABLE_STAGES
from tests.cli.tools import save_layer

ROOT = Path(__file__).resolve().parents[2]

FRAMEWORKS = {
    ("torch", "onnx"): ("test_pytorch_models.py", "test_three_ways_give_torchs_numbers"),
    ("jax", "linalg"): ("test_jax_functions.py", "test_a_lowered_function_is_a_model"),
}
"""Arrows from frameworks, and the file and name of each arrow's test, which needs the framework."""

_NODE = r"(\w+)(?:\(\[.*?\]\))?"
_ARROW = re.compile(rf"{_NODE} -->(?:\|.*?\|)? (?={_NODE})")


def arrows() -> list[tuple[str, str]]:
    """Return the arrows of the picture, each as the names of its source and its target."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    picture = text.partition("```mermaid")[2].partition("```")[0]
    return [(found[1], found[2]) for found in _ARROW.finditer(picture)]


ARROWS = arrows()
STAGE_ARROWS = [(a, b) for a, b in ARROWS if a in PORTABLE_STAGES]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file of a model of two layers."""
    return save_layer(tmp_path_factory.mktemp("picture") / "layer.onnx")


@cache
def printed(model: Path, stage: str) -> bytes:
    return Compilation.of_model(str(model), check_options("cpu", num_veus=2)).emit_whole(stage)


def feeds() -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(5).standard_normal((4, 8)).astype(np.float32)}


@cache
def expected(model: Path) -> np.ndarray:
    import onnxruntime

    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, feeds())[0])


def check(model: Path, given: str | bytes) -> None:
    with rammer_mlir.compile(given, num_veus=2, cache=False) as exe:
        (found,) = exe.run(feeds()).values()
    np.testing.assert_allclose(found, expected(model), rtol=1e-4, atol=1e-5)


def test_the_picture_has_no_arrow_without_a_test() -> None:
    tested = {
        *FRAMEWORKS, *STAGE_ARROWS,
        ("onnx", "linalg"), ("mlir", "linalg"), ("target", "llvm"), ("llvm", "object"),
        ("object", "artifact"), ("artifact", "run"),
    }  # fmt: skip
    assert len(STAGE_ARROWS) == len(PORTABLE_STAGES)
    assert set(ARROWS) <= tested


@pytest.mark.parametrize("arrow", FRAMEWORKS)
def test_frameworks_have_tests_of_their_own(arrow: tuple[str, str]) -> None:
    file, name = FRAMEWORKS[arrow]
    assert f"def {name}(" in (ROOT / "tests" / "frameworks" / file).read_text(encoding="utf-8")


@pytest.mark.parametrize(("begin", "end"), STAGE_ARROWS)
def test_a_stage_leads_to_the_next(model: Path, tmp_path: Path, begin: str, end: str) -> None:
    given, found = tmp_path / f"{begin}.mlir", tmp_path / f"{end}.mlir"
    given.write_bytes(printed(model, begin))
    values = ("--emit-values",) if end in PORTABLE_STAGES else ()
    assert compile_tool.main([str(given), "--emit", end, *values, "-o", str(found)]) == 0
    if end in PORTABLE_STAGES:
        check(model, str(found))
    else:
        assert "func" in found.read_text(encoding="utf-8")


@pytest.mark.parametrize("stage", PORTABLE_STAGES)
def test_a_stage_is_given_back(model: Path, stage: str) -> None:
    check(model, printed(model, stage))


def test_linalg_of_ones_own_and_onnx_come_in(model: Path) -> None:
    check(model, str(model))
    text = "func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }\n"
    with rammer_mlir.compile(text, cache=False) as exe:
        a = np.arange(4, dtype=np.float32)
        np.testing.assert_array_equal(exe.run({"arg0": a})["result0"], a)


def test_a_target_becomes_code_an_artifact_and_a_run(model: Path, tmp_path: Path) -> None:
    compilation = Compilation.of_model(str(model), check_options("cpu", num_veus=2))
    assert b"define" in compilation.emit("llvm")
    assert compilation.emit("object").startswith(b"\x7fELF")
    artifact = tmp_path / "layer.rammer"
    with rammer_mlir.compile(str(model), num_veus=2, cache=False) as exe:
        exe.save(artifact)
    with rammer_mlir.load(artifact) as loaded:
        (output,) = loaded.run(feeds()).values()
        found = np.asarray(output, np.float64)
    np.testing.assert_allclose(found, expected(model), rtol=1e-4, atol=1e-5)
