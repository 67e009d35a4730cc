"""Tests that the members of an artifact are stored so that constants can be mapped into memory.

A loaded program keeps running while its file is replaced or, without mapping, truncated.
"""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

import rammer_mlir
from rammer_mlir.runtime.artifact import read_artifact
from rammer_mlir.runtime.compiled import RunnableModel
from rammer_mlir.support.atomic_file import write_atomically
from tests.runtime.artifacts import contents, refusal, write_members

WEIGHT = np.arange(1024 * 512, dtype=np.float32).reshape(1024, 512) % 7
X = np.random.default_rng(0).integers(-4, 4, (2, 1024)).astype(np.float32)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The path of the artifact of a matrix product with 2 MiB of weights."""
    path = tmp_path_factory.mktemp("artifacts") / "product.rammer"
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, X.shape)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, (2, 512))
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    graph = helper.make_graph([node], "g", [x], [y], [numpy_helper.from_array(WEIGHT, "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    with rammer_mlir.compile(model, num_veus=2) as built:
        built.save(path)
    return path


def result(loaded: RunnableModel) -> NDArray[np.generic]:
    return loaded.run({"x": X})["y"]


def is_right(loaded: RunnableModel) -> bool:
    return np.array_equal(result(loaded), X @ WEIGHT)


def compressed(saved: Path, path: Path, *names: str) -> Path:
    """Write a copy of an artifact with the members ``names`` compressed; return its path."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in contents(saved).items():
            kind = zipfile.ZIP_DEFLATED if name in names else zipfile.ZIP_STORED
            archive.writestr(name, data, kind)
    return path


def test_compressed_members_are_refused(saved: Path, tmp_path: Path) -> None:
    """An artifact with any compressed member is refused, because constants are mapped as stored."""
    names = list(contents(saved))
    for chosen in (*((name,) for name in names), names):
        path = compressed(saved, tmp_path / "compressed.rammer", *chosen)
        assert "was changed since it was compiled" in refusal(path)


def test_members_at_other_places(saved: Path, tmp_path: Path) -> None:
    """Constants at an address without the alignment for vector loads are copied, not mapped."""
    for padding in range(1, 64, 13):
        members = {"manifest.json": contents(saved)["manifest.json"] + b" " * padding}
        path = write_members(tmp_path / "stored.rammer", contents(saved) | members)
        with rammer_mlir.load(path) as loaded:
            assert is_right(loaded)


@pytest.mark.parametrize("mapped", [True, False])
def test_large_constants_are_mapped_unless_somebody_minds(saved: Path, mapped: bool) -> None:
    (weights,) = read_artifact(saved, mapped=mapped).image.constants.parts
    assert isinstance(weights, np.memmap) == mapped
    assert weights.ctypes.data % 64 == 0


@pytest.mark.parametrize("size", [0, 100])
def test_a_file_that_is_truncated_under_a_program(saved: Path, tmp_path: Path, size: int) -> None:
    """A program that was loaded without mapping runs on after its file is truncated."""
    path = tmp_path / "truncated.rammer"
    path.write_bytes(saved.read_bytes())
    with rammer_mlir.load(path, mapped=False) as loaded:
        os.truncate(path, size)
        assert is_right(loaded)
        loaded.save(tmp_path / "again.rammer")
    with rammer_mlir.load(tmp_path / "again.rammer") as again:
        assert is_right(again)
    refusal(path)


def test_a_file_that_is_replaced_under_a_program(saved: Path, tmp_path: Path) -> None:
    """A program whose file is mapped runs on after the file is replaced as ``save`` does."""
    path = tmp_path / "replaced.rammer"
    path.write_bytes(saved.read_bytes())
    with rammer_mlir.load(path) as loaded:
        write_atomically(path, b"another file")
        assert is_right(loaded)


def test_written_files_get_the_rights_of_new_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Written files have the permissions that the umask gives, and writing never changes the umask.

    A change of the umask would affect files that other threads create.
    """
    path = tmp_path / "file"
    mask = os.umask(0o027)
    try:
        with monkeypatch.context() as patch:
            patch.delattr(os, "umask")
            write_atomically(path, b"x")
    finally:
        os.umask(mask)
    assert path.stat().st_mode & 0o777 == 0o640
