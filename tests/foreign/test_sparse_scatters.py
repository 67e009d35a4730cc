"""Scatters of few updates into many elements are loops, as in the gradient of an embedding."""

from __future__ import annotations

import numpy as np
import pytest

import rammer_mlir
from rammer_mlir.compiler.compilation import Compilation
from rammer_mlir.compiler.models import Request
from rammer_mlir.compiler.options import check_options
from rammer_mlir.compiler.requests import given_source
from rammer_mlir.passes.legalization import scatters

ROWS, WIDTH, TOKENS = 4000, 96, 200
INDICES = f"tensor<{TOKENS}x1xi32>"
UPDATES = f"tensor<{TOKENS}x{WIDTH}xf32>"
TABLE = f"tensor<{ROWS}x{WIDTH}xf32>"

GRADIENT = f"""
func.func @main(%i: {INDICES}, %u: {UPDATES}) -> {TABLE} {{
  %zero = stablehlo.constant dense<0.0> : {TABLE}
  %0 = "stablehlo.scatter"(%zero, %i, %u) ({{
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }}) {{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1],
      inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}}
      : ({TABLE}, {INDICES}, {UPDATES}) -> {TABLE}
  return %0 : {TABLE}
}}
"""

BATCHES = """
func.func @main(%t: tensor<3x7x5xf32>, %i: tensor<3x4x1xi32>, %u: tensor<3x4x5xf32>)
    -> tensor<3x7x5xf32> {
  %0 = "stablehlo.scatter"(%t, %i, %u) ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.multiply %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) {scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [2],
      inserted_window_dims = [1], input_batching_dims = [0], scatter_indices_batching_dims = [0],
      scatter_dims_to_operand_dims = [1], index_vector_dim = 2>}
      : (tensor<3x7x5xf32>, tensor<3x4x1xi32>, tensor<3x4x5xf32>) -> tensor<3x7x5xf32>
  return %0 : tensor<3x7x5xf32>
}
"""


def compilation_of(text: str) -> Compilation:
    """Return a ``Compilation`` of a module for this machine, which can emit its stages."""
    return Request(given_source(text), check_options("cpu"), {}).compilation()


def test_the_gradient_of_an_embedding_is_a_loop() -> None:
    """The gradient of an embedding is compiled to a loop that updates the result's buffer.

    Rows whose index occurs several times are added.
    """
    random = np.random.default_rng(1)
    tokens = random.integers(-2, ROWS + 2, (TOKENS, 1)).astype(np.int32)
    tokens[5:9] = 17
    updates = random.standard_normal((TOKENS, WIDTH)).astype(np.float32)
    with rammer_mlir.compile(GRADIENT, cache=False) as made:
        (found,) = made.run(dict(zip(made.input_names, (tokens, updates), strict=True))).values()
    expected = np.zeros((ROWS, WIDTH), np.float32)
    for (row,), update in zip(tokens, updates, strict=True):
        if 0 <= row < ROWS:
            expected[row] += update
    np.testing.assert_array_equal(found, expected)
    compilation = compilation_of(GRADIENT)
    assert b"scf.for" in compilation.emit("linalg")
    assert b"memref.alloc" not in compilation.emit("buffers")


@pytest.mark.parametrize("is_loop", [False, True], ids=["reduction", "loop"])
def test_batching_dimensions(is_loop: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if is_loop:
        monkeypatch.setattr(scatters, "_MOST_TESTS", 0)
        monkeypatch.setattr(scatters, "_TESTS_PER_UPDATE", 0)
    random = np.random.default_rng(2)
    t = random.standard_normal((3, 7, 5)).astype(np.float32)
    i = random.integers(-1, 8, (3, 4, 1)).astype(np.int32)
    u = random.standard_normal((3, 4, 5)).astype(np.float32)
    with rammer_mlir.compile(BATCHES, cache=False) as made:
        (found,) = made.run(dict(zip(made.input_names, (t, i, u), strict=True))).values()
    expected = t.copy()
    for batch, number in np.ndindex(3, 4):
        row = i[batch, number, 0]
        if 0 <= row < 7:
            expected[batch, row] *= u[batch, number]
    np.testing.assert_allclose(found, expected, rtol=1e-6)
