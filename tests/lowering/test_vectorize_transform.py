"""Tests that reductions with constant matrices become straight-line code with right results.

The results are those of loops.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from kernel_harness import compile_kernel

from rammer_mlir.lowering.llvm.machine import host_machine

_RANDOM = np.random.default_rng(0)
_BLOCKS, _TILES, _LANES = 3, 5, 32


def _source(matrix: str, rows: int, columns: int, start: str = "0.0") -> str:
    """Return the MLIR text of an rKernel that transforms tiles of an image and adds a bias.

    It computes ``matrix @ tile @ matrix.T`` for each tile. ``matrix`` is the text of a constant of
    ``rows`` times ``columns`` numbers; ``start`` is the text of the scalar at which sums start.
    """
    size = 2 * _TILES + columns - 2
    image = f"memref<{_BLOCKS}x{columns}x{size}x{_LANES}xf32>"
    tiles = f"memref<{rows}x{_BLOCKS}x{_TILES}x{rows}x{_LANES}xf32>"
    loops = "n, s, a, b, l"
    parallel = ", ".join(['"parallel"'] * 5)
    return f"""
memref.global "private" constant @m : memref<{rows}x{columns}xf32> = dense<{matrix}>
func.func private @k(%id: index, %x: {image}, %b: memref<{_LANES}xf32>, %y: {tiles}) {{
  %start = arith.constant {start} : f32
  %m = memref.get_global @m : memref<{rows}x{columns}xf32>
  linalg.fill ins(%start : f32) outs(%y : {tiles})
  linalg.generic {{indexing_maps = [
      affine_map<({loops}, i, j) -> (a, i)>, affine_map<({loops}, i, j) -> (b, j)>,
      affine_map<({loops}, i, j) -> (n, i, 2 * s + j, l)>,
      affine_map<({loops}, i, j) -> (a, n, s, b, l)>],
      iterator_types = [{parallel}, "reduction", "reduction"]}}
      ins(%m, %m, %x : memref<{rows}x{columns}xf32>, memref<{rows}x{columns}xf32>, {image})
      outs(%y : {tiles}) {{
  ^bb0(%p: f32, %q: f32, %v: f32, %t: f32):
    %f = arith.mulf %p, %q : f32
    %g = arith.mulf %f, %v : f32
    %h = arith.addf %t, %g : f32
    linalg.yield %h : f32
  }}
  linalg.generic {{indexing_maps = [
      affine_map<({loops}) -> (a, n, s, b, l)>, affine_map<({loops}) -> (l)>,
      affine_map<({loops}) -> (a, n, s, b, l)>], iterator_types = [{parallel}]}}
      ins(%y, %b : {tiles}, memref<{_LANES}xf32>) outs(%y : {tiles}) {{
  ^bb0(%p: f32, %q: f32, %t: f32):
    %h = arith.addf %p, %q : f32
    linalg.yield %h : f32
  }}
  return
}}
"""


@pytest.mark.parametrize(("start", "bits"), [(0.0, 512), (0.0, 256), (1.5, 512)])
@pytest.mark.parametrize(("rows", "columns"), [(2, 4), (3, 3), (4, 6), (6, 6), (1, 3)])
def test_tiles_of_rows_and_columns(rows: int, columns: int, start: float, bits: int) -> None:
    matrix = _RANDOM.integers(-2, 3, (rows, columns)).astype(np.float32)
    matrix[:, 0] = _RANDOM.choice((-1, 1, 2), rows)
    size = 2 * _TILES + columns - 2
    image = _RANDOM.standard_normal((_BLOCKS, columns, size, _LANES), dtype=np.float32)
    bias = _RANDOM.standard_normal(_LANES, dtype=np.float32)
    found = np.full((rows, _BLOCKS, _TILES, rows, _LANES), np.nan, np.float32)
    source = _source(str(matrix.tolist()), rows, columns, str(start))
    kernel = compile_kernel(source, machine=replace(host_machine(), vector_bits=bits))
    kernel(0, image, bias, found)
    windows = np.stack([image[:, :, 2 * s : 2 * s + columns] for s in range(_TILES)], axis=1)
    expected = np.einsum(
        "ai,bj,nsijl->ansbl", matrix, matrix, windows.astype(np.float64), optimize=True
    )
    np.testing.assert_allclose(found, expected + bias + start, rtol=1e-4, atol=1e-4)
