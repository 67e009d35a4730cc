"""Tests that independent models in one program are right, and their rTasks run concurrently."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper

import rammer_mlir
from rammer_mlir.benchmarks.models import build, random_feeds
from rammer_mlir.compiler.compilation import Compilation
from rammer_mlir.compiler.options import check_options
from rammer_mlir.errors import ModelError
from rammer_mlir.frontends.onnx.independent_models import together


def reference(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    results = map(np.asarray, session.run(names, feeds))
    return dict(zip(names, results, strict=True))


def negation(opset: int, rows: int | str = 3) -> onnx.ModelProto:
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [rows, 2]) for n in "xy")
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"], name="neg")], "g", [x], [y])
    opsets = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def test_each_model_computes_as_alone(tmp_path: Path) -> None:
    models = {name: build(name, 1, "small") for name in ("squeezenet", "nas_cell")}
    path = tmp_path / "squeezenet.onnx"
    onnx.save(models["squeezenet"], path)
    joined = together({"squeezenet": path, "nas_cell": models["nas_cell"].SerializeToString()})
    feeds = {name: random_feeds(model, seed=3) for name, model in models.items()}
    given = {f"{name}/{key}": value for name, one in feeds.items() for key, value in one.items()}
    with rammer_mlir.compile(joined, num_veus=2, cache=False) as executable:
        found = executable.run(given)
    for name, model in models.items():
        for key, expected in reference(model, feeds[name]).items():
            result = found.pop(f"{name}/{key}")
            np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)
    assert not found


def test_models_of_one_name_and_several_opsets() -> None:
    joined = together({"a": negation(13), "b": negation(18), "c": negation(13, "rows")})
    feeds = {f"{name}/x": np.full((3, 2), n, np.float32) for n, name in enumerate("abc")}
    with rammer_mlir.compile(joined, dims={"rows": 3}, cache=False) as executable:
        found = executable.run(feeds)
    for n, name in enumerate("abc"):
        np.testing.assert_array_equal(found[f"{name}/y"], np.full((3, 2), -n, np.float32))


def test_models_overlap_on_a_wide_device() -> None:
    options = check_options("nvvm:sm_70", policy="wavefront", num_veus=None)

    def seconds(model: onnx.ModelProto) -> float:
        return Compilation.of_model(model, options).predict()[0].seconds

    models = {name: build(name, 1, "small") for name in ("squeezenet", "nas_cell")}
    alone = [seconds(model) for model in models.values()]
    assert seconds(together(models)) < 0.9 * sum(alone)


@pytest.mark.parametrize(
    ("models", "message"),
    [
        ({}, r"together: expected models by name, found \[\]"),
        ({"": negation(13)}, r"together: expected models by name, found \[''\]"),
        ({"a": b"no model"}, "a: cannot be read: "),
        ({"a": "no_such_file.onnx"}, "a: cannot be read: .*no_such_file"),
    ],
)
def test_models_that_are_none(models: dict[str, object], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        together(models)  # type: ignore[arg-type]
