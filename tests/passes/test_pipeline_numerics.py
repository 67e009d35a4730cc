"""Tests that compiled linalg programs give the results of NumPy in float64.

Tiles do not divide the sizes of these programs.
"""

from __future__ import annotations

import numpy as np
import pytest
from linalg_programs import compilation, signature
from test_fusion import CONCAT, CONV, PAD, SOFTMAX

from rammer_mlir.compiler.options import check_options

POLICIES = ("wavefront", "sequential")


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    """Return normally distributed float32 numbers of a shape, which ``seed`` determines."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def convolution(x: np.ndarray, w: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return a 3x3 convolution with bias and ReLU, computed in float64."""
    windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), (3, 3), (2, 3))
    out = np.einsum("nchwij,ocij->nohw", windows, w.astype(np.float64))
    return np.maximum(out + b[None, :, None, None], 0)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("num_veus", [1, 3])
def test_convolution(policy: str, num_veus: int) -> None:
    x, w, b = normal(1, 8, 10, 10), normal(16, 8, 3, 3, seed=1), normal(16, seed=2)
    options = check_options(policy=policy, num_veus=num_veus)
    described = signature({"x": x}, {"y": (1, 16, 8, 8)})
    with compilation(CONV, described, {"w": w, "b": b}, options).executable() as exe:
        np.testing.assert_allclose(exe(x), convolution(x, w, b), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("policy", POLICIES)
def test_softmax(policy: str) -> None:
    x = 10 * normal(64, 100)
    options = check_options(policy=policy, num_veus=2)
    with compilation(
        SOFTMAX, signature({"x": x}, {"y": (64, 100)}), None, options
    ).executable() as e:
        wide = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
        np.testing.assert_allclose(e(x), wide / wide.sum(axis=1, keepdims=True), rtol=1e-5)


def test_concatenation_and_padding_in_place() -> None:
    x, y = normal(4, 16), normal(4, 16, seed=1)
    with compilation(CONCAT, signature({"x": x, "y": y}, {"z": (8, 16)})).executable() as exe:
        np.testing.assert_allclose(exe(x, y), np.concatenate([x * x, y * y]), rtol=1e-6)
    with compilation(PAD, signature({"x": x}, {"z": (6, 18)})).executable() as exe:
        np.testing.assert_allclose(exe(x), np.pad(x * x, 1, constant_values=7), rtol=1e-6)


MATMUL = """
func.func @main(%a: tensor<{m}x{k}xf32> {{rtask.name = "a"}},
    %b: tensor<{k}x{n}xf32> {{rtask.name = "b"}}) -> (tensor<{m}x{n}xf32> {{rtask.name = "c"}}) {{
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<{m}x{n}xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<{m}x{n}xf32>) -> tensor<{m}x{n}xf32>
  %c = linalg.matmul ins(%a, %b : tensor<{m}x{k}xf32>, tensor<{k}x{n}xf32>)
      outs(%f : tensor<{m}x{n}xf32>) -> tensor<{m}x{n}xf32>
  return %c : tensor<{m}x{n}xf32>
}}
"""


@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 1), (1, 257, 33), (127, 65, 31), (301, 299, 67)])
@pytest.mark.parametrize("num_veus", [1, 2, 8])
def test_matrix_products_of_sizes_that_no_tile_divides(
    m: int, n: int, k: int, num_veus: int
) -> None:
    a, b = normal(m, k), normal(k, n, seed=1)
    options = check_options(num_veus=num_veus)
    described = signature({"a": a, "b": b}, {"c": (m, n)})
    with compilation(MATMUL.format(m=m, n=n, k=k), described, None, options).executable() as exe:
        expected = a.astype(np.float64) @ b.astype(np.float64)
        np.testing.assert_allclose(exe(a, b), expected, rtol=1e-4, atol=1e-4)
