"""Conditions of ``cf.assert`` are assumed to hold, and wrong indices are clamped."""

from __future__ import annotations

import logging

import numpy as np
import pytest

import rammer_mlir
from rammer_mlir.errors import RammerError

IN_NEST = """
func.func @rows(%rows: tensor<6xi64>, %table: tensor<9x4xf32>) -> tensor<6x4xf32> {
  %zero = arith.constant 0 : i64
  %end = arith.constant 9 : index
  %empty = tensor.empty() : tensor<6x4xf32>
  %found = linalg.generic {
    indexing_maps = [affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>],
    iterator_types = ["parallel", "parallel"]
  } ins(%rows : tensor<6xi64>) outs(%empty : tensor<6x4xf32>) {
  ^bb0(%row: i64, %out: f32):
    %i = arith.index_cast %row : i64 to index
    %j = linalg.index 1 : index
    %is_below = arith.cmpi slt, %i, %end : index
    cf.assert %is_below, "too large"
    %is_positive = arith.cmpi sge, %row, %zero : i64
    cf.assert %is_positive, "negative"
    %element = tensor.extract %table[%i, %j] : tensor<9x4xf32>
    linalg.yield %element : f32
  } -> tensor<6x4xf32>
  return %found : tensor<6x4xf32>
}
"""

IN_ANOTHER_NEST = """
#same = affine_map<(i) -> (i)>
func.func @two(%a: tensor<4xi64>, %table: tensor<9xf32>) -> (tensor<4xf32>, tensor<4xi64>) {
  %nine = arith.constant 9 : i64
  %empty = tensor.empty() : tensor<4xi64>
  %i = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel"]}
      ins(%a : tensor<4xi64>) outs(%empty : tensor<4xi64>) {
  ^bb0(%x: i64, %out: i64):
    %is_below = arith.cmpi ult, %x, %nine : i64
    cf.assert %is_below, "too large"
    linalg.yield %x : i64
  } -> tensor<4xi64>
  %none = tensor.empty() : tensor<4xf32>
  %found = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel"]}
      ins(%i : tensor<4xi64>) outs(%none : tensor<4xf32>) {
  ^bb0(%x: i64, %out: f32):
    %at = arith.index_cast %x : i64 to index
    %element = tensor.extract %table[%at] : tensor<9xf32>
    linalg.yield %element : f32
  } -> tensor<4xf32>
  return %found, %i : tensor<4xf32>, tensor<4xi64>
}
"""

IN_FUNCTION = """
func.func @element(%i: index, %table: tensor<9xf32>) -> f32 {
  %end = arith.constant 9 : index
  %is_below = arith.cmpi ult, %i, %end : index
  cf.assert %is_below, "too large"
  %element = tensor.extract %table[%i] : tensor<9xf32>
  return %element : f32
}
"""

IN_LOOP = """
func.func @chain(%next: tensor<9xi64>, %table: tensor<9xf32>, %n: index) -> tensor<9xf32> {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %end = arith.constant 9 : index
  %marked:2 = scf.for %k = %zero to %n step %one
      iter_args(%i = %zero, %t = %table) -> (index, tensor<9xf32>) {
    %follower = tensor.extract %next[%i] : tensor<9xi64>
    %j = arith.index_cast %follower : i64 to index
    %is_below = arith.cmpi ult, %j, %end : index
    cf.assert %is_below, "no such element"
    %seven = arith.constant 7.0 : f32
    %u = tensor.insert %seven into %t[%j] : tensor<9xf32>
    scf.yield %j, %u : index, tensor<9xf32>
  }
  return %marked#1 : tensor<9xf32>
}
"""


def test_conditions_are_assumed(caplog: pytest.LogCaptureFixture) -> None:
    random = np.random.default_rng(0)
    table = random.standard_normal((9, 4), np.float32)
    with (
        caplog.at_level(logging.INFO, "rammer_mlir"),
        rammer_mlir.compile(IN_NEST, cache=False) as exe,
    ):
        rows = random.integers(0, 9, 6)
        right = exe.run({"arg0": rows, "arg1": table})["result0"]
        wrong = exe.run({"arg0": np.array([9, -1, 2**62, -(2**62), 3, 8]), "arg1": table})
    np.testing.assert_array_equal(right, table[rows])
    np.testing.assert_array_equal(wrong["result0"], table[[8, 0, 8, 0, 3, 8]])
    messages = [record.getMessage() for record in caplog.records]
    assert messages.count("assertions: 2 of cf.assert are assumed to hold") == 1


@pytest.mark.parametrize(("index", "read"), [(0, 0), (5, 5), (9, 8), (2**62, 8), (-1, 0)])
def test_a_scalar_read(index: int, read: int) -> None:
    table = np.arange(9, dtype=np.float32)
    with rammer_mlir.compile(IN_FUNCTION, cache=False) as exe:
        found = exe.run({"arg0": np.array(index), "arg1": table})["result0"]
    assert found == read


def test_indices_that_another_nest_asserts() -> None:
    indices = np.array([3, -(2**40), 2**31, 8])
    with rammer_mlir.compile(IN_ANOTHER_NEST, cache=False) as exe:
        found = exe.run({"arg0": indices, "arg1": np.arange(9, dtype=np.float32)})["result0"]
    np.testing.assert_array_equal(found, [3, 0, 8, 8])


def test_reads_and_insertions_of_a_loop() -> None:
    table = np.zeros(9, np.float32)
    with rammer_mlir.compile(IN_LOOP, cache=False) as exe:
        following = np.array([3, 0, 0, 2**40, 0, 0, 0, 0, -5])  # the places 3, 8 and 0
        found = exe.run({"arg0": following, "arg1": table, "arg2": np.array(3)})["result0"]
    np.testing.assert_array_equal(np.flatnonzero(found), [0, 3, 8])


SLICE = """
func.func @slice(%x: tensor<2x9xf32>, %i: index) -> tensor<2xf32> {{
  {assertion}
  %0 = tensor.extract_slice %x[1, {offset}] [1, 2] [1, 3] : tensor<2x9xf32> to tensor<2xf32>
  return %0 : tensor<2xf32>
}}
"""


@pytest.mark.parametrize("assertion", ["", '%t = arith.constant true\ncf.assert %t, "no"'])
def test_slices_with_offsets_of_the_run(assertion: str) -> None:
    """An offset out of bounds is clamped, with and without an assertion."""
    x = np.arange(18, dtype=np.float32).reshape(2, 9)
    text = SLICE.format(assertion=assertion, offset="%i")
    reads = {0: 0, 3: 3, 5: 5, 6: 5, 7 * 10**11: 5, -1: 0, -(2**62): 0}
    with rammer_mlir.compile(text, cache=False) as exe:
        for given, read in reads.items():
            found = exe.run({"arg0": x, "arg1": np.array(given)})["result0"]
            np.testing.assert_array_equal(found, x[1, [read, read + 3]])


def test_slices_with_wrong_constant_offsets() -> None:
    text = SLICE.format(assertion="%c = arith.constant 6 : index", offset="%c")
    with pytest.raises(RammerError, match="expected an offset from 0 to 5, found 6"):
        rammer_mlir.compile(text, cache=False)
