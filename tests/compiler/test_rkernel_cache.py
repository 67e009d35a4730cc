"""The compile cache's level of rKernels.

Models with equal rKernels share them, the cache's memory is bounded, and a damaged entry is
compiled again.
"""

from __future__ import annotations

import logging
import sqlite3
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import rammer_mlir
from rammer_mlir.compiler import cache as compile_cache
from rammer_mlir.compiler.caching import rkernels
from rammer_mlir.compiler.caching.cache_file import FILE, CacheFile
from rammer_mlir.compiler.caching.rkernels import RKERNEL, RKernelCache
from rammer_mlir.runtime.executable import Executable


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the test an empty compile cache that keeps all rKernels, but no programs."""
    monkeypatch.setenv(compile_cache.FOLDER_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setattr(compile_cache, "WORTH_SECONDS", 1e9)
    monkeypatch.setattr(rkernels, "WORTH_SECONDS", 0.0)
    return tmp_path / "cache"


def products(*widths: int) -> onnx.ModelProto:
    """Return a chain of matrix products of 16 rows; the matrices are [widths[0], widths[1]], ..."""
    shapes = list(pairwise(widths))
    weights = [np.random.default_rng(n).standard_normal(s) for n, s in enumerate(shapes)]
    graph = helper.make_graph(
        [helper.make_node("MatMul", [f"v{n}", f"w{n}"], [f"v{n + 1}"]) for n in range(len(shapes))],
        "products",
        [helper.make_tensor_value_info("v0", TensorProto.FLOAT, [16, widths[0]])],
        [helper.make_tensor_value_info(f"v{len(shapes)}", TensorProto.FLOAT, [16, widths[-1]])],
        [numpy_helper.from_array(w.astype(np.float32), f"w{n}") for n, w in enumerate(weights)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def checked(model: onnx.ModelProto) -> None:
    """Compile a model and compare its results with NumPy's."""
    executable = rammer_mlir.compile(model, num_veus=2)
    assert isinstance(executable, Executable)
    x = np.random.default_rng(9).standard_normal(executable.signature.inputs[0].shape)
    expected = x
    for weights in model.graph.initializer:
        expected = expected @ numpy_helper.to_array(weights).astype(np.float64)
    found = executable(x.astype(np.float32))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-3)


def counts(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [text.split(": ")[-1] for text in caplog.messages if "rKernels found" in text]


def test_another_model_finds_an_rkernel_of_equal_loops(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "rammer_mlir")
    checked(products(64, 32))
    checked(products(64, 32, 48))
    checked(products(64, 32, 48))
    assert counts(caplog) == [
        "0 of 1 rKernels found",
        "1 of 2 rKernels found",
        "2 of 2 rKernels found",
    ]
    assert [each.level for each in CacheFile(folder, 0).kept()] == [RKERNEL] * 2


def test_a_damaged_rkernel_is_compiled_again(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    checked(products(64, 32))
    with closing(sqlite3.connect(folder / FILE)) as database, database:
        database.execute("UPDATE entries SET content = ?", (b"no object",))
    caplog.set_level(logging.INFO, "rammer_mlir")
    checked(products(64, 32))
    checked(products(64, 32))
    assert counts(caplog) == ["0 of 1 rKernels found", "1 of 1 rKernels found"]


def test_what_compiles_fast_is_not_written(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rkernels, "WORTH_SECONDS", 1e9)
    checked(products(64, 32))
    assert not (folder / FILE).exists()


def test_without_a_file_they_are_found_in_memory() -> None:
    cache = RKernelCache(None)
    cache.keep({"a": b"1", "b": b"22"}, seconds=1.0)
    assert cache.find(["a", "c", "b"]) == {"a": b"1", "b": b"22"}


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """When the rKernels in memory exceed the limit, the least recently used one is dropped."""
    monkeypatch.setattr(rkernels, "_MEMORY_BYTES", 250)
    cache = RKernelCache(None)
    for name in "ab":
        cache.keep({name: bytes(100)}, seconds=1.0)
    assert cache.find(["a"])
    cache.keep({"c": bytes(100)}, seconds=1.0)
    assert set(cache.find(["a", "b", "c"])) == {"a", "c"}
    cache.keep({"c": bytes(140)}, seconds=1.0)
    assert set(cache.find(["a", "b", "c"])) == {"a", "c"}


def test_the_file_keeps_all_or_none(tmp_path: Path) -> None:
    file = CacheFile(tmp_path, 1000)
    assert file.keep_all(RKERNEL, {"a": bytes(400), "b": bytes(400)})
    assert not file.keep_all(RKERNEL, {"c": bytes(400), "d": bytes(700)})
    assert set(file.find_all(RKERNEL, ("a", "b", "c", "d"))) == {"a", "b"}
    assert file.keep_all(RKERNEL, {"a": b"new", "e": bytes(300)})
    found = file.find_all(RKERNEL, ("a", "b", "e"))
    assert found["a"].content == b"new"
    assert set(found) == {"a", "b", "e"}
    assert file.keep_all(RKERNEL, {"f": bytes(700)})
    assert set(file.find_all(RKERNEL, ("a", "b", "e", "f"))) == {"e", "f"}
