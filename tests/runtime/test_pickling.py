"""Tests that loaded models are pickled as the path of their file.

Other models cannot be pickled.
"""

from __future__ import annotations

import copy
import multiprocessing
import pickle
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rammer_mlir
from rammer_mlir import Executable, OpenModel
from rammer_mlir.errors import ArtifactError, OptionError
from rammer_mlir.runtime.compiled import RunnableModel
from tests.cli.tools import save_layer

X = np.random.default_rng(3).standard_normal((4, 8)).astype(np.float32)
MOST_BYTES = 1000


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The path of the artifact of a model of two layers."""
    folder = tmp_path_factory.mktemp("artifacts")
    with rammer_mlir.compile(save_layer(folder / "layer.onnx"), num_veus=1) as made:
        made.save(folder / "layer.rammer")
    return folder / "layer.rammer"


def output(model: RunnableModel) -> np.ndarray:
    """Run the model on ``X``, and return its only output."""
    return model.run({"x": X})["y"]


def copied(model: Any) -> Any:
    """Pickle a model, check that the pickle is small, and return the unpickled model."""
    data = pickle.dumps(model)
    assert len(data) < MOST_BYTES
    return pickle.loads(data)


@pytest.mark.parametrize("copy_of", [copied, copy.copy, copy.deepcopy])
def test_a_copy_is_a_model_of_its_own(copy_of: Any, saved: Path) -> None:
    with rammer_mlir.load(saved, mapped=False) as loaded:
        wanted = output(loaded)
        again = copy_of(copied(loaded))  # also a copy of a copy
    assert type(again) is Executable
    np.testing.assert_array_equal(output(again), wanted)  # though the other one is closed
    again.close()


def test_another_process_runs_the_model(saved: Path) -> None:
    with (
        rammer_mlir.load(saved) as loaded,
        ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool,
    ):
        assert isinstance(loaded, Executable)
        found = pool.submit(output, loaded).result(timeout=60)
        np.testing.assert_array_equal(found, output(loaded))


def test_the_path_holds_from_another_folder(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(saved.parent)
    with rammer_mlir.load(saved.name) as loaded:
        monkeypatch.chdir("/")
        copied(loaded).close()


def test_an_open_model_is_pickled_with_its_files_specializations(tmp_path: Path) -> None:
    source = save_layer(tmp_path / "open.onnx", ("batch", 8))
    made = rammer_mlir.compile(source, num_veus=1, specializations=2)
    assert isinstance(made, OpenModel)
    made.prepare(batch=[4, 2])
    made.save(tmp_path / "open.rammer")
    with rammer_mlir.load(tmp_path / "open.rammer") as loaded, copied(loaded) as again:
        assert again.specializations == [{"batch": 4}, {"batch": 2}]
        np.testing.assert_array_equal(output(again), output(made))
    with pytest.raises(ArtifactError, match="cannot pickle or copy this OpenModel"):
        pickle.dumps(made)


def test_a_file_that_was_replaced_or_removed_is_refused(saved: Path, tmp_path: Path) -> None:
    place = tmp_path / "model.rammer"
    place.write_bytes(saved.read_bytes())
    with rammer_mlir.load(place) as loaded:
        data = pickle.dumps(loaded)
        with rammer_mlir.compile(saved.with_name("layer.onnx"), num_veus=2) as other:
            other.save(place)
        with pytest.raises(ArtifactError, match=r"model\.rammer' was replaced: expected the file"):
            pickle.loads(data)
        place.unlink()
        with pytest.raises(ArtifactError, match=r"cannot read '.*model\.rammer'"):
            pickle.loads(data)


def test_a_model_that_was_compiled_here_is_refused(saved: Path) -> None:
    with rammer_mlir.compile(saved.with_name("layer.onnx"), num_veus=1) as made:
        for refused in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(ArtifactError, match="save the whole model, and load") as caught:
                refused(made)
            assert "\n" not in str(caught.value)


def test_whether_the_cache_had_the_model_makes_no_difference(
    saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A compiled model cannot be pickled, even if ``compile`` takes it from the compile cache.

    The cache entry might be removed before the pickle is read.
    """
    monkeypatch.setenv("RAMMER_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr("rammer_mlir.compiler.cache.WORTH_SECONDS", 0.0)
    model = saved.with_name("layer.onnx")
    rammer_mlir.compile(model, num_veus=1).close()
    with rammer_mlir.compile(model, num_veus=1) as found:
        assert list(found.stats["seconds"]) == ["cache"]
        with pytest.raises(ArtifactError, match="found one compiled here, or a part"):
            pickle.dumps(found)


def test_emulated_code_is_refused(saved: Path) -> None:
    made = rammer_mlir.compile(
        saved.with_name("layer.onnx"), target="nvvm:sm_90", num_veus=2, emulate=True
    )
    with pytest.raises(OptionError, match="expected code for a device, found emulated code"):
        pickle.dumps(made)
