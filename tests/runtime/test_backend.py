"""Tests that the ONNX backend interface, ``rammer_mlir.backend``, runs models and single nodes."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from rammer_mlir import backend
from rammer_mlir.errors import InputError, OptionError

X = np.random.default_rng(0).standard_normal((2, 3)).astype(np.float32)


def model(operator: str = "Neg", *, shaped: bool = True) -> onnx.ModelProto:
    """Return a model of one node; ``shaped`` is whether it declares the shape of its output."""
    shape = [2, 3]
    graph = helper.make_graph(
        [helper.make_node(operator, ["x"], ["y"])],
        "test",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, shape if shaped else None)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


@pytest.mark.parametrize("shaped", [True, False])
@pytest.mark.parametrize("inputs", [[X], X, {"x": X}], ids=["sequence", "array", "mapping"])
def test_a_model(shaped: bool, inputs: Any) -> None:
    (y,) = backend.run_model(model(shaped=shaped), inputs)
    np.testing.assert_array_equal(y, -X)


def test_a_node() -> None:
    (y,) = backend.run_node(helper.make_node("Exp", ["x"], ["y"]), [X])
    np.testing.assert_allclose(y, np.exp(X), rtol=1e-6)
    (y,) = backend.run_node(helper.make_node("Sub", ["x", "x"], ["y"]), X, opset_version=17)
    np.testing.assert_array_equal(y, X - X)
    clip = helper.make_node("Clip", ["x", "", "high"], ["y"])
    (y,) = backend.run_node(clip, [X, np.array(0.5, np.float32)])
    np.testing.assert_array_equal(y, np.minimum(X, np.float32(0.5)))
    lengths = np.array([3, 1], np.int64)
    node = helper.make_node("Split", ["x", "lengths"], ["a", "b"], axis=0)
    found = backend.run_node(node, [np.ones((4, 2), np.float32), lengths])  # decided by data
    assert [part.shape for part in found] == [(3, 2), (1, 2)]
    with pytest.raises(InputError, match="'Exp': expected 1 inputs, found 2"):
        backend.run_node(helper.make_node("Exp", ["x"], ["y"]), [X, X])


def test_what_does_not_fit() -> None:
    with pytest.raises(InputError, match="expected 1 inputs, found 2"):
        backend.run_model(model(), [X, X])
    with pytest.raises(OptionError, match="device 'CUDA:0': expected CPU"):
        backend.prepare(model(), "CUDA:0")


def test_compatibility_is_answered_for_any_model() -> None:
    assert backend.is_compatible(model())
    assert not backend.is_compatible(model("RandomUniformLike"))
    assert not backend.is_compatible(model("NoSuchOperator"))
    assert not backend.is_compatible(model(), "CUDA")
