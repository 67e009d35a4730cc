"""Launches that upstream's own pipeline makes of linalg become one persistent kernel."""

from __future__ import annotations

import numpy as np
import pytest
from megakernel import TO_LAUNCHES, TO_TILED_LAUNCHES, Array, compile_launches, random_arrays

PERCEPTRON = """
#rows = affine_map<(d0, d1) -> (d0)>
#columns = affine_map<(d0, d1) -> (d1)>
#all = affine_map<(d0, d1) -> (d0, d1)>
func.func @perceptron(%x: memref<12x20xf32>, %w: memref<20x16xf32>, %b: memref<16xf32>,
                      %y: memref<12x16xf32>) {
  %zero = arith.constant 0.0 : f32
  %h = memref.alloc() : memref<12x16xf32>
  %s = memref.alloc() : memref<12xf32>
  linalg.fill ins(%zero : f32) outs(%h : memref<12x16xf32>)
  linalg.matmul ins(%x, %w : memref<12x20xf32>, memref<20x16xf32>) outs(%h : memref<12x16xf32>)
  linalg.generic {indexing_maps = [#columns, #all], iterator_types = ["parallel", "parallel"]}
      ins(%b : memref<16xf32>) outs(%h : memref<12x16xf32>) {
  ^bb0(%v: f32, %o: f32):
    %n = arith.addf %v, %o : f32
    %p = arith.maximumf %n, %zero : f32
    linalg.yield %p : f32
  }
  linalg.fill ins(%zero : f32) outs(%s : memref<12xf32>)
  linalg.generic {indexing_maps = [#all, #rows], iterator_types = ["parallel", "reduction"]}
      ins(%h : memref<12x16xf32>) outs(%s : memref<12xf32>) {
  ^bb0(%v: f32, %o: f32):
    %n = arith.addf %v, %o : f32
    linalg.yield %n : f32
  }
  linalg.generic {indexing_maps = [#all, #rows, #all], iterator_types = ["parallel", "parallel"]}
      ins(%h, %s : memref<12x16xf32>, memref<12xf32>) outs(%y : memref<12x16xf32>) {
  ^bb0(%v: f32, %t: f32, %o: f32):
    %n = arith.divf %v, %t : f32
    linalg.yield %n : f32
  }
  memref.dealloc %h : memref<12x16xf32>
  memref.dealloc %s : memref<12xf32>
  return
}
"""


def perceptron(x: Array, w: Array, b: Array) -> Array:
    """Return the result of ``PERCEPTRON``, computed in float64."""
    h = np.maximum(x.astype(np.float64) @ w + b, 0)
    return h / h.sum(axis=1, keepdims=True)


@pytest.mark.parametrize(
    ("tiles", "num_veus", "policy"),
    [
        ("", 3, "wavefront"),
        ("4,4", 1, "wavefront"),
        ("4,4", 4, "list"),
        ("4,8", 4, "sequential"),
        ("4,8", 5, "ios"),
        ("5,3", 4, "wavefront"),
    ],
)
def test_perceptron(tiles: str, num_veus: int, policy: str) -> None:
    """A perceptron is right for all tile sizes, also if they leave threads of edge blocks idle."""
    before = TO_TILED_LAUNCHES.replace("TILES", tiles) if tiles else TO_LAUNCHES
    mega = compile_launches(PERCEPTRON, before, num_veus=num_veus, policy=policy)
    x, w, b, y = random_arrays(1, (12, 20), (20, 16), (16,), (12, 16))
    found = mega.run(x, w, b, y, runs=2)
    assert np.abs(found[3] - perceptron(x, w, b)).max() < 1e-5
    for kept, given in zip(found, (x, w, b), strict=False):
        assert np.array_equal(kept, given)


CONVOLUTION = """
#out = affine_map<(n, f, y, x) -> (n, f, y, x)>
func.func @convolution(%x: memref<2x3x10x9xf32>, %w: memref<4x3x3x3xf32>,
                       %y: memref<2x4x8x7xf32>, %z: memref<2x4x8x7xf32>) {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%y : memref<2x4x8x7xf32>)
  linalg.conv_2d_nchw_fchw
      {dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>}
      ins(%x, %w : memref<2x3x10x9xf32>, memref<4x3x3x3xf32>) outs(%y : memref<2x4x8x7xf32>)
  linalg.generic {indexing_maps = [#out, #out],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%y : memref<2x4x8x7xf32>) outs(%z : memref<2x4x8x7xf32>) {
  ^bb0(%v: f32, %o: f32):
    %n = math.tanh %v : f32
    linalg.yield %n : f32
  }
  return
}
"""


@pytest.mark.parametrize("target", ["nvvm", "rocdl:gfx90a"])
def test_convolution_in_three_dimensions_of_blocks(target: str) -> None:
    """Three of a convolution's four parallel loops become the grid, one a loop in the kernel."""
    mega = compile_launches(CONVOLUTION, TO_LAUNCHES, target=target)
    x, w, y, z = random_arrays(2, (2, 3, 10, 9), (4, 3, 3, 3), (2, 4, 8, 7), (2, 4, 8, 7))
    windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), (3, 3), axis=(2, 3))
    expected = np.einsum("ncyxij,fcij->nfyx", windows, w)
    found = mega.run(x, w, y, z)
    assert np.abs(found[2] - expected).max() < 1e-5
    assert np.abs(found[3] - np.tanh(expected)).max() < 1e-5
