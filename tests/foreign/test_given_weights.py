"""Weights that a module names are given with the shape and dtype of its arguments."""

from __future__ import annotations

import numpy as np
import pytest

import rammer_mlir
from rammer_mlir.errors import ModelError

TEXT = """func.func @main(%x: tensor<?x8xf32> {rtask.name = "x", rtask.dimensions = ["n", ""]},
    %w: tensor<8x4xf32> {rtask.constant = "w"}) -> (tensor<?x4xf32> {rtask.name = "y"}) {
  %z = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x8xf32>
  %e = tensor.empty(%n) : tensor<?x4xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<?x4xf32>) -> tensor<?x4xf32>
  %r = linalg.matmul ins(%x, %w : tensor<?x8xf32>, tensor<8x4xf32>)
    outs(%f : tensor<?x4xf32>) -> tensor<?x4xf32>
  return %r : tensor<?x4xf32>
}"""
W = np.random.default_rng(0).standard_normal((8, 4)).astype(np.float32)
X = np.random.default_rng(1).standard_normal((4, 8)).astype(np.float32)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (W.astype(np.float64), "weight 'w': expected dtype float32, found float64"),
        (W.astype(np.float16), "weight 'w': expected dtype float32, found float16"),
        (W.T, "weight 'w': expected shape"),
        (W.ravel(), "weight 'w': expected shape"),
        (W[:4], "weight 'w': expected shape"),
    ],
)
def test_other_shapes_and_dtypes(given: np.ndarray, message: str) -> None:
    with rammer_mlir.compile(TEXT, constants={"w": given}, cache=False, num_veus=1) as made:
        with pytest.raises(ModelError, match=message):
            made.run({"x": X})


@pytest.mark.parametrize("given", [W.astype(">f4"), np.asfortranarray(W), W[::-1][::-1]])
def test_other_orders_of_bytes_and_elements(given: np.ndarray) -> None:
    with rammer_mlir.compile(TEXT, constants={"w": given}, cache=False, num_veus=1) as made:
        np.testing.assert_allclose(made.run({"x": X})["y"], X @ W, rtol=1e-5, atol=1e-6)


def test_weights_are_those_of_the_compilation() -> None:
    """Later changes of the caller's array do not change programs for other sizes."""
    weights = W.copy()
    with rammer_mlir.compile(TEXT, constants={"w": weights}, cache=False, num_veus=1) as made:
        weights *= 2
        np.testing.assert_allclose(made.run({"x": X})["y"], X @ W, rtol=1e-5, atol=1e-6)
