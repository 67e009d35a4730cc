"""Tests that packed weights are made correctly from the constants stored beside the IR."""

from __future__ import annotations

import numpy as np
import pytest
from linalg_programs import compilation, signature

from rammer_mlir.compiler.weights import packed_weights
from rammer_mlir.errors import ModelError

TEXT = """
func.func @main(%x: tensor<2xf32> {rtask.name = "x"},
    %a: tensor<3x2xf32> {rtask.constant = "a",
                         rtask.pack = [array<i64: 2, 3>, array<i64: 1, 0>]},
    %b: tensor<6xf32> {rtask.constant = "a", rtask.pack = [array<i64: 6>]},
    %c: tensor<2xf32> {rtask.constant = "small", rtask.value = dense<[1.0, 2.0]> : tensor<2xf32>})
    -> (tensor<2xf32> {rtask.name = "y"}) {
  return %x : tensor<2xf32>
}
"""


def test_reshapes_and_transposes_are_done_in_turn() -> None:
    values = np.arange(6, dtype=np.float32)
    made = compilation(TEXT, signature({}, {}), {"a": values})
    weights = packed_weights(made.module.body.operations[0], {"a": values})
    np.testing.assert_array_equal(weights[1], values.reshape(2, 3).T)
    np.testing.assert_array_equal(weights[2], values)
    np.testing.assert_array_equal(weights[3], np.array([1, 2], dtype=np.float32))
    assert all(array.flags.c_contiguous for array in weights.values())


MATRIX = """
func.func @main(%x: tensor<2xf32> {rtask.name = "x"},
    %a: tensor<4x2x5xf32> {rtask.constant = "a", rtask.pack = [
        array<i64: 5, 2, 3>, array<i64: 2, 1, 0>, MATRIX, array<i64: 4, 10>, array<i64: 0, 1>]})
    -> (tensor<2xf32> {rtask.name = "y"}) {
  return %x : tensor<2xf32>
}
"""


def test_a_matrix_multiplies_the_first_dimension_and_rounds_once() -> None:
    numbers = np.random.default_rng(3)
    values = numbers.standard_normal((5, 2, 3)).astype(np.float32)
    matrix = numbers.integers(-9, 9, (4, 3)) / 3
    text = MATRIX.replace("MATRIX", f"dense<{matrix.tolist()}> : tensor<4x3xf64>")
    made = compilation(text, signature({}, {}), {"a": values})
    (found,) = packed_weights(made.module.body.operations[0], {"a": values}).values()
    expected = np.einsum("ra,cba->rbc", matrix, values.astype(np.float64))
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, expected.astype(np.float32))


def test_a_weight_without_a_value_is_refused() -> None:
    made = compilation(TEXT, signature({}, {}))
    with pytest.raises(ModelError, match="weight 'a' has no value"):
        packed_weights(made.module.body.operations[0], {})
