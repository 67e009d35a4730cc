"""Tests that transcendental functions of several registers give right results.

The code for the registers is interleaved.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from kernel_harness import compile_kernel

from rammer_mlir.lowering.llvm.machine import host_machine

_RANDOM = np.random.default_rng(0)


def _source(rows: int, columns: int, depth: int) -> str:
    """Return the MLIR text of an rKernel with exponentials and sines of several registers.

    Its elementwise operation reads a matrix, a row, a column, a scalar and the row's index. The
    matrix is a product with ``depth`` terms, or an argument if ``depth`` is 0.
    """
    depth_or_one = max(depth, 1)
    grid = f"memref<{rows}x{columns}xf32>"
    a, w = f"memref<{rows}x{depth_or_one}xf32>", f"memref<{depth_or_one}x{columns}xf32>"
    row, column = f"memref<{columns}xf32>", f"memref<{rows}xf32>"
    product = f"""
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%x : {grid})
  linalg.matmul ins(%a, %w : {a}, {w}) outs(%x : {grid})"""
    return f"""
func.func private @k(%id: index, %a: {a}, %w: {w}, %x: {grid}, %r: {row}, %c: {column},
                     %s: memref<f32>, %y: {grid}) {{{product if depth else ""}
  %scalar = memref.load %s[] : memref<f32>
  linalg.generic {{indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>,
      affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]}}
      ins(%x, %r, %c : {grid}, {row}, {column}) outs(%y : {grid}) {{
  ^bb0(%p: f32, %q: f32, %t: f32, %o: f32):
    %i = linalg.index 0 : index
    %i32 = arith.index_cast %i : index to i32
    %f = arith.sitofp %i32 : i32 to f32
    %1 = math.exp %p : f32
    %2 = arith.mulf %1, %q : f32
    %3 = arith.addf %2, %t : f32
    %4 = math.sin %3 : f32
    %5 = arith.addf %4, %scalar : f32
    %6 = arith.addf %5, %f : f32
    linalg.yield %6 : f32
  }}
  return
}}"""


@pytest.mark.parametrize("bits", [128, 256, 512])
@pytest.mark.parametrize("depth", [0, 3])
@pytest.mark.parametrize("columns", [5, 8, 13, 24, 32, 61, 130])
@pytest.mark.parametrize("rows", [1, 6])
def test_results(rows: int, columns: int, depth: int, bits: int) -> None:
    inner = max(depth, 1)
    shapes = ((rows, inner), (inner, columns), (rows, columns), (columns,), (rows,), ())
    a, w, x, r, c, s = (_RANDOM.uniform(-1, 1, n).astype(np.float32) for n in shapes)
    p = (a.astype(np.float64) @ w if depth else x).astype(np.float32)
    first = np.exp(p) * r + c[:, None]
    expected = np.sin(first.astype(np.float64)) + s + np.arange(rows)[:, None]
    found = np.full((rows, columns), np.nan, np.float32)
    machine = replace(host_machine(), vector_bits=bits)
    compile_kernel(_source(rows, columns, depth), machine=machine)(0, a, w, x, r, c, s, found)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
