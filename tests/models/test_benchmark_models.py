"""Tests that the benchmark models are valid, and give outputs that depend on their inputs."""

import numpy as np
import onnx
import pytest

from rammer_mlir.benchmarks.comparison import Array, compare
from rammer_mlir.benchmarks.contenders.onnx_runtime import run
from rammer_mlir.benchmarks.models import LIGHT, MODELS, TABLE_1, Scale, build, random_feeds
from rammer_mlir.errors import OptionError

SENSITIVITY = 1e-2
"""Least change of an output between two inputs, relative to the output's largest element.

It is far above the tolerance: an executable that ignores its input fails a comparison.
"""


def as_float(array: Array) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    return array.astype(np.float64)


def check_outputs(model: onnx.ModelProto) -> None:
    onnx.checker.check_model(model)
    first, second = (run(model, random_feeds(model, seed), threads=2) for seed in (0, 1))
    assert list(first) == [info.name for info in model.graph.output]
    for info in model.graph.output:
        a, b = as_float(first[info.name]), as_float(second[info.name])
        dims = info.type.tensor_type.shape.dim
        assert a.shape == tuple(dim.dim_value for dim in dims)
        assert np.isfinite(a).all()
        assert a.size == 1 or np.ptp(a) > 0
        scale = np.abs(a).max()
        assert 1e-6 < scale < 1e3
        assert np.abs(a - b).max() > SENSITIVITY * scale


@pytest.mark.parametrize("name", MODELS)
def test_small_model_runs(name: str) -> None:
    check_outputs(build(name, scale="small"))


@pytest.mark.parametrize("name", MODELS)
def test_small_model_runs_in_a_batch(name: str) -> None:
    model = build(name, batch=3, scale="small")
    outputs = run(model, random_feeds(model))
    assert all(np.isfinite(as_float(value)).all() for value in outputs.values())
    axis_sizes = {size for value in outputs.values() for size in value.shape}
    assert 3 in axis_sizes


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_full_model_runs(name: str) -> None:
    model = build(name)
    shapes = {
        info.name: tuple(dim.dim_value for dim in info.type.tensor_type.shape.dim)
        for info in model.graph.input
    }
    assert shapes == MODELS[name].shapes
    check_outputs(model)


@pytest.mark.parametrize("name", ["lstm_tc", "seq2seq", "deepspeech2"])
def test_both_forms_of_a_recurrent_model_agree(name: str) -> None:
    operators, cells = build(name, scale="small"), build(f"{name}_unrolled", scale="small")
    assert any(node.op_type == "LSTM" for node in operators.graph.node)
    assert not any(node.op_type == "LSTM" for node in cells.graph.node)
    feeds = random_feeds(operators)
    comparison = compare(run(operators, feeds), run(cells, feeds))
    assert comparison.ok, str(comparison)


@pytest.mark.parametrize("scale", ["full", "small"])
def test_lstm_tc_has_a_cell_for_each_layer_and_step(scale: Scale) -> None:
    model = build("lstm_tc_unrolled", scale=scale)
    cells = sum(node.op_type == "Split" for node in model.graph.node) - 1  # one splits the input
    assert cells == {"full": 10 * 100, "small": 3 * 5}[scale]


def test_building_twice_gives_the_same_bytes() -> None:
    first, second = (build("mlp", scale="small").SerializeToString() for _ in range(2))
    assert first == second


def test_light_models_have_no_constant_weights() -> None:
    for name in LIGHT:
        model = build(name, scale="small")
        assert not any(node.op_type == "ConstantOfShape" for node in model.graph.node)
        assert len(model.graph.input) == 1
        floats = [
            onnx.numpy_helper.to_array(tensor)
            for tensor in model.graph.initializer
            if tensor.data_type == onnx.TensorProto.FLOAT
        ]
        assert all(array.size == 1 or np.ptp(array) > 0 for array in floats)


def test_node_names_are_unique() -> None:
    for name in [*TABLE_1, "mlp", "attention"]:
        names = [node.name for node in build(name, scale="small").graph.node]
        assert len(set(names)) == len(names)


def test_unknown_model_is_refused() -> None:
    with pytest.raises(OptionError, match="found 'alexnett'"):
        build("alexnett")
