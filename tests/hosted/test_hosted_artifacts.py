"""Tests that models which the host runs in parts can be saved, loaded, and used by the tools.

An artifact has the parts that were run, or those that were prepared ahead; other runs are refused.
"""

from __future__ import annotations

import json
import pickle
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rammer_mlir
from rammer_mlir.checker import verify
from rammer_mlir.errors import ArtifactError, InputError, OptionError
from rammer_mlir.hosted_models.model import HostedModel
from rammer_mlir.open_models.model import OpenModel
from tests.hosted.hosted_checks import assert_equal, check, floats, hosted, model_of, reference
from tests.hosted.test_choices import NO, PRODUCTS, YES
from tests.hosted.test_loops import CELL, STACKING, cell
from tests.hosted.test_sizes import SELECTION, SHAPE_VALUES

RESHAPED = SHAPE_VALUES["Reshape"][0]

STEPS = {
    "choose": (PRODUCTS, [{"x": floats(3, 4), "c": c} for c in (YES, NO)]),
    "repeat": (STACKING, [{"x": floats(4), "n": np.array(7), "c": YES}]),
    "scan": (CELL.replace("[T,", "[90,"), [cell(90)]),
    "compute": (RESHAPED, [{"x": floats(4, 6), "s": np.array(s)} for s in ([6, 4], [3, 8])]),
    "evaluate": (SELECTION, [{"x": floats(9, 4), "w": floats(4, 5)}]),
    "open": (CELL, [cell(70), cell(80)]),
}


@pytest.mark.parametrize("kind", STEPS)
def test_saved_and_loaded(kind: str, tmp_path: Path) -> None:
    text, runs = STEPS[kind]
    model = model_of(text)
    with check(model, runs) as made:
        made.save(tmp_path / "model.rammer")
        again = repr(made)
    with rammer_mlir.load(tmp_path / "model.rammer") as loaded:
        assert isinstance(loaded, HostedModel | OpenModel)
        assert repr(loaded) == again
        for feeds in runs:
            assert_equal(loaded.run(feeds), reference(model, feeds))
        loaded.save(tmp_path / "again.rammer")
    assert verify(tmp_path / "again.rammer").programs > 0


def test_weights_after_host_constants_are_aligned(tmp_path: Path) -> None:
    """A constant of four bytes, which the host uses, precedes weights of whole cache lines."""
    weights = ", ".join(f"{value:.3f}" for value in floats(4, 20).ravel())
    text = f"""(float[3,4] x, bool[1] c) => (float[K] s, float[3,20] y)
    <float[1] one = {{1.5}}, float[4,20] w = {{{weights}}}> {{
      s = Compress(one, c)  y = MatMul(x, w) }}"""
    with hosted(model_of(text), [{"x": floats(3, 4), "c": np.array([True])}]) as made:
        made.save(tmp_path / "model.rammer")
    assert verify(tmp_path / "model.rammer").programs == 1


def test_what_was_not_saved_is_refused(tmp_path: Path) -> None:
    with hosted(model_of(PRODUCTS), [{"x": floats(3, 4), "c": YES}]) as made:
        made.save(tmp_path / "model.rammer")
    with rammer_mlir.load(tmp_path / "model.rammer") as loaded:
        with pytest.raises(InputError, match="has no program for a part of the model"):
            loaded.run({"x": floats(3, 4), "c": NO})


def test_nothing_in_memory_is_nothing_to_save(tmp_path: Path) -> None:
    with rammer_mlir.compile(model_of(PRODUCTS), cache=False) as made:
        with pytest.raises(OptionError, match="expected at least one part in memory"):
            made.save(tmp_path / "model.rammer")


def test_parts_are_prepared_ahead(tmp_path: Path) -> None:
    with rammer_mlir.compile(model_of(PRODUCTS), cache=False) as made:
        assert isinstance(made, HostedModel)
        assert made.prepare() == []
        made.save(tmp_path / "model.rammer")
    with rammer_mlir.load(tmp_path / "model.rammer") as loaded:
        assert loaded.run({"x": floats(3, 4), "c": NO})["y"].shape == (4, 4)


BOXES = """(float[40,6] x, float[6,8] w, bool[40] keep) => (float[A,8] y) {
  at = NonZero(keep)  all = Constant<value_ints = [-1]>()  flat = Reshape(at, all)
  rows = Gather(x, flat)  z = MatMul(rows, w)  y = Relu(z) }"""


def _selected(count: int) -> dict[str, np.ndarray[Any, Any]]:
    return {"x": floats(40, 6), "w": floats(6, 8), "keep": np.arange(40) < count}


@pytest.mark.parametrize("most", [None, 20])
def test_sizes_that_were_not_run_before(most: int | None, tmp_path: Path) -> None:
    """A prepared model runs at sizes without an earlier run, up to a greatest size.

    The greatest size is the user's, or the size of the tensor from which rows are selected.
    """
    model = model_of(BOXES)
    with rammer_mlir.compile(model, cache=False, specializations=16) as made:
        assert isinstance(made, HostedModel)
        assert made.prepare(most) == []
        made.save(tmp_path / "model.rammer")
    with rammer_mlir.load(tmp_path / "model.rammer") as loaded:
        for count in (0, 3, 20, *((40,) if most is None else ())):
            assert_equal(loaded.run(_selected(count)), reference(model, _selected(count)))
        if most is not None:
            with pytest.raises(InputError, match="has no program for a part of the model"):
                loaded.run(_selected(40))


@pytest.mark.parametrize("most", ["a", [1], 2.5, -5, True])
def test_bounds_that_are_no_sizes(most: Any) -> None:
    made = hosted(model_of(BOXES), [])
    with pytest.raises(OptionError, match="most: expected an integer of at least 0, found"):
        made.prepare(most)


LIMITED = """(bool c, float[9,4] x, float[4,5] w) => (float[A,5] y) <int64[1] zero = {0}> {
  s = If(c)<then_branch = a () => (float[B,4] p) <int64[1] end = {8}> { p = Slice(x, zero, end) },
            else_branch = b () => (float[B,4] p) <int64[1] end = {3}> { p = Slice(x, zero, end) }>
  q = Sigmoid(s)  r = MatMul(q, w)  y = Softmax(r) }"""


def test_branches_whose_values_have_the_same_names(tmp_path: Path) -> None:
    """The greatest size of an If is that of all branches, whatever the names of their values."""
    model = model_of(LIMITED)
    with rammer_mlir.compile(model, cache=False) as made:
        assert isinstance(made, HostedModel) and made.summary.endswith("are padded, 8 at most")
        assert made.prepare() == []
        made.save(tmp_path / "model.rammer")
    with rammer_mlir.load(tmp_path / "model.rammer") as loaded:
        for chosen in (True, False):
            feeds = {"c": np.array(chosen), "x": floats(9, 4), "w": floats(4, 5)}
            assert_equal(loaded.run(feeds), reference(model, feeds))


def test_a_file_with_the_greatest_size_alone(tmp_path: Path) -> None:
    """A file's only program, made for a large size, also runs smaller sizes."""
    model = model_of(BOXES)
    with hosted(model, [_selected(38)]) as made:
        made.save(tmp_path / "model.rammer")
    with rammer_mlir.load(tmp_path / "model.rammer") as loaded:
        assert_equal(loaded.run(_selected(5)), reference(model, _selected(5)))


def test_parts_that_are_not_padded_are_named() -> None:
    text = BOXES.replace("z = MatMul(rows, w)", "t = Transpose(rows)  z = MatMul(t, rows)")
    with rammer_mlir.compile(model_of(text.replace("[A,8]", "[6,6]")), cache=False) as made:
        assert isinstance(made, HostedModel)
        assert made.prepare() == [
            "part 0, each size is compiled: 'MatMul:z' (MatMul) forbids padding"
        ]


def test_the_greatest_size_on_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(model_of(BOXES).SerializeToString())
    artifact = tmp_path / "model.rammer"
    source = (tmp_path / "model.onnx", "-o", artifact, "--no-cache")
    wrong = tool("compile", *source, "--most", "-1")
    assert "--most: expected an integer of at least 0, found '-1'" in wrong.stderr
    made = tool("compile", *source, "--most", "10")
    assert made.returncode == 0, made.stderr
    with rammer_mlir.load(artifact) as loaded:
        assert loaded.run(_selected(7))["y"].shape == (7, 8)
        with pytest.raises(InputError):
            loaded.run(_selected(30))


def test_a_copy_is_loaded_from_the_file(tmp_path: Path) -> None:
    feeds = {"x": floats(3, 4), "c": YES}
    with hosted(model_of(PRODUCTS), [feeds]) as made:
        made.save(tmp_path / "model.rammer")
    with rammer_mlir.load(tmp_path / "model.rammer") as loaded:
        with pickle.loads(pickle.dumps(loaded)) as again:
            assert_equal(again.run(feeds), loaded.run(feeds))


def test_a_file_that_was_changed(tmp_path: Path) -> None:
    path = tmp_path / "model.rammer"
    with hosted(model_of(PRODUCTS), [{"x": floats(3, 4), "c": YES}]) as made:
        made.save(path)
    with zipfile.ZipFile(path) as archive:
        manifest = json.loads(archive.read("manifest.json"))
    assert manifest["model"]["program"]["steps"][-1]["condition"] == "c"
    content = path.read_bytes()
    path.write_bytes(content.replace(b'"condition": "c"', b'"condition": "x"'))
    with pytest.raises(ArtifactError):
        rammer_mlir.load(path)


def tool(name: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", f"rammer_mlir.cli.{name}", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_tools(tmp_path: Path) -> None:
    """The tools compile, run and describe a model; its file has both branches, though none ran."""
    (tmp_path / "model.onnx").write_bytes(model_of(PRODUCTS).SerializeToString())
    artifact = tmp_path / "model.rammer"
    made = tool("compile", tmp_path / "model.onnx", "-o", artifact, "--no-cache")
    assert made.returncode == 0, made.stderr
    np.savez(tmp_path / "no.npz", x=floats(3, 4), c=NO)
    for source in (artifact, tmp_path / "model.onnx"):
        ran = tool(
            "run", source, "--inputs", tmp_path / "no.npz", "--outputs", tmp_path / "out.npz"
        )
        assert ran.returncode == 0, ran.stderr
        assert "output 'y'  4x4 float32" in ran.stdout
        x = floats(3, 4)
        with np.load(tmp_path / "out.npz") as found:
            np.testing.assert_allclose(found["y"], x.T @ x, rtol=1e-4, atol=1e-5)
    told = tool("run", artifact, "--info")
    assert "host             'If:y': part 0 if c, else part 1" in told.stdout
    refused = tool("run", artifact, "--timeline", tmp_path / "t.json")
    assert "--timeline: expected one program" in refused.stderr
    shutil.rmtree(tmp_path)


@pytest.mark.parametrize("rows", ["5", "N"])
def test_a_model_that_the_host_computes_alone(rows: str, tmp_path: Path) -> None:
    """Such a model has no compiled part; its artifact has the host program only."""
    model = model_of(f"(float[{rows}] x) => (int64[1,K] n) {{ n = NonZero(x) }}")
    x = np.array([0, 1, 0, 2, 3], np.float32)
    with rammer_mlir.compile(model, cache=False) as made:
        made.run({"x": x})
        made.save(tmp_path / "model.rammer")
    with rammer_mlir.load(tmp_path / "model.rammer") as loaded:
        assert loaded.run({"x": x})["n"].tolist() == [[1, 3, 4]]
