"""Artifacts with foreign code load about as fast as those without."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import onnx
import pytest

import rammer_mlir
from rammer_mlir.benchmarks.models import build
from rammer_mlir.runtime.executable import Executable

MOST = 2.0
"""The longest time to load, as a multiple of that for the same model without foreign code."""

_LOADS = 12


CASES = {
    "numpy": "transformer",
    "onnxruntime": "transformer",
    "openvino": "transformer",
    "onednn": "many regions",
    "iree": "transformer",
}
"""The model of each code generator; those of ONNX graphs take their model as one region."""


@cache
def model(name: str) -> onnx.ModelProto:
    """Return a network whose artifact takes milliseconds to load."""
    if name == "transformer":
        return build("transformer_4_layers")
    return build("inception_v3", scale="small")


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return a function that gives the path of a model's artifact without foreign code."""
    folder = tmp_path_factory.mktemp("artifacts")

    @cache
    def made(name: str) -> Path:
        return saved(model(name), folder / f"{name}.rammer")

    return made


def saved(model: onnx.ModelProto, path: Path, **options: Any) -> Path:
    with rammer_mlir.compile(model, num_veus=2, cache=False, **options) as exe:
        exe.save(path)
    return path


def least_seconds(paths: Sequence[Path]) -> list[float]:
    """Return the least time to load each file; the files take turns, each a few times."""
    least = [float("inf")] * len(paths)
    for _ in range(_LOADS):
        for number, path in enumerate(paths):
            begin = time.perf_counter()
            loaded = rammer_mlir.load(path)
            least[number] = min(least[number], time.perf_counter() - begin)
            loaded.close()
    return least


@pytest.mark.parametrize("codegen", CASES)
def test_loading_takes_at_most_twice_as_long(
    codegen: str, hosts: Callable[[str], Path], tmp_path: Path
) -> None:
    name = CASES[codegen]
    options = {"offload": codegen, "offload_choice": "always"}
    path = saved(model(name), tmp_path / "foreign.rammer", **options)
    with rammer_mlir.load(path) as loaded:
        assert isinstance(loaded, Executable)
        assert len(loaded.image.modules) > (5 if codegen in ("onednn", "iree") else 0)
    foreign, own = least_seconds([path, hosts(name)])
    assert foreign <= MOST * own, f"{1e3 * foreign:.2f} ms, {1e3 * own:.2f} ms without"
