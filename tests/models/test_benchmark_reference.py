"""Tests that benchmarks give models suitable random inputs, and find wrong outputs.

Outputs are compared with ONNX Runtime's.
"""

import numpy as np
import pytest
from onnx import TensorProto, helper

from rammer_mlir.benchmarks.comparison import compare
from rammer_mlir.benchmarks.contenders.onnx_runtime import run
from rammer_mlir.benchmarks.models import build, random_feeds
from rammer_mlir.errors import ShapeError


def test_feeds_fit_the_inputs_and_repeat_with_the_seed() -> None:
    model = build("integer_ops", scale="small")
    feeds = random_feeds(model, seed=3)
    assert {name: value.dtype.name for name, value in feeds.items()} == {
        "a": "int64",
        "b": "int64",
        "flags": "bool",
    }
    again, other = random_feeds(model, seed=3), random_feeds(model, seed=4)
    assert all(np.array_equal(feeds[name], again[name]) for name in feeds)
    assert not all(np.array_equal(feeds[name], other[name]) for name in feeds)


def test_feeds_refuse_a_symbolic_dimension() -> None:
    info = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3])
    model = helper.make_model(helper.make_graph([], "g", [info], []))
    with pytest.raises(ShapeError, match=r"input 'x': .* found \['batch', 3\]"):
        random_feeds(model)


def test_reference_runs_with_several_threads() -> None:
    model = build("mlp", scale="small")
    feeds = random_feeds(model)
    assert compare(run(model, feeds, threads=1), run(model, feeds, threads=2)).ok


def test_comparison_finds_the_worst_element() -> None:
    expected = np.array([[1.0, -10.0], [0.0, 4.0]], np.float32)
    found = expected + np.array([[0, 0.02], [0, 0.001]], np.float32)
    comparison = compare({"y": expected}, {"y": found})
    worst = comparison.worst
    assert worst is not None
    assert (worst.output, worst.index) == ("y", (0, 1))
    # 0.02 against 1e-3 * 10 + 1e-4 * 10
    assert worst.excess == pytest.approx(0.02 / 0.011, rel=1e-3)
    assert not comparison.ok
    assert "y[0, 1]: expected -10" in str(comparison)


def test_small_elements_are_measured_by_the_scale_of_their_output() -> None:
    expected = {"y": np.array([0.0, 100.0], np.float32)}
    assert compare(expected, {"y": np.array([0.009, 100.0], np.float32)}).ok
    assert not compare(expected, {"y": np.array([0.011, 100.0], np.float32)}).ok


@pytest.mark.parametrize(
    ("expected", "found", "ok"),
    [
        (np.nan, np.nan, True),
        (np.inf, np.inf, True),
        (np.inf, -np.inf, False),
        (np.inf, 1.0, False),
        (1.0, np.inf, False),
        (1.0, np.nan, False),
        (np.nan, 1.0, False),
        (0.0, 0.0, True),
        (0.0, 1e-30, False),
    ],
)
def test_special_values(expected: float, found: float, ok: bool) -> None:
    a, b = (np.array(value, np.float32) for value in (expected, found))
    assert compare({"y": a}, {"y": b}).ok is ok


def test_integers_are_compared_exactly() -> None:
    large = np.array([2**62, 2**62 + 1])
    assert compare({"y": large}, {"y": large.copy()}).ok
    assert not compare({"y": large}, {"y": large + np.array([0, 1])}).ok


def test_a_missing_or_misshapen_output_is_a_mismatch() -> None:
    x = np.zeros([2, 3], np.float32)
    assert str(compare({"y": x}, {})) == "output 'y': expected, not found"
    assert str(compare({}, {"y": x})) == "output 'y': found, not expected"
    comparison = compare({"y": x}, {"y": x.T})
    assert str(comparison) == "output 'y': expected float32[2, 3], found float32[3, 2]"
    assert not compare({"y": x}, {"y": x.astype(np.float64)}).ok
