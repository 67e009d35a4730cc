"""Tests that products in MLIR input are recognized by their bodies' data flow, not by names alone.

Masks of indices inside of chains of products are tested, too.
"""

from __future__ import annotations

import numpy as np

import rammer_mlir

RECURRENCE = """
  {result} = linalg.generic {{indexing_maps = [
      affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>,
      affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]}}
      ins({source}, %w : tensor<2x64xf32>, tensor<64x256xf32>) outs(%f : tensor<2x256xf32>) {{
   ^bb0(%x: f32, %y: f32, %o: f32):
     %p = arith.mulf %o, %y : f32
     %s = arith.addf %p, %x : f32
     linalg.yield %s : f32
  }} -> tensor<2x256xf32>"""


def test_a_recurrence_is_no_matrix_product() -> None:
    """Bodies that multiply the destination and add an input are not those of a product."""
    weight = np.random.default_rng(0).random((64, 256), np.float32)
    text = f"""func.func @main(%a: tensor<2x64xf32>, %b: tensor<2x64xf32>)
      -> (tensor<2x256xf32>, tensor<2x256xf32>) {{
  %w = arith.constant dense<"0x{weight.tobytes().hex().upper()}"> : tensor<64x256xf32>
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x256xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<2x256xf32>) -> tensor<2x256xf32>
  {RECURRENCE.format(result="%0", source="%a")}
  {RECURRENCE.format(result="%1", source="%b")}
  return %0, %1 : tensor<2x256xf32>, tensor<2x256xf32>
}}"""
    given = np.random.default_rng(1).random((2, 2, 64), np.float32)
    with rammer_mlir.compile(text, num_veus=2) as compiled:
        found = compiled(*given)
    for result, x in zip(found, given, strict=True):
        expected = np.zeros((2, 256), np.float32)
        for k in range(64):
            expected = expected * weight[k] + x[:, k : k + 1]
        np.testing.assert_allclose(result, expected, rtol=1e-5)


MASKED = """
func.func @main(%q: tensor<512x64xf32>, %k: tensor<64x512xf32>, %v: tensor<512x64xf32>)
    -> tensor<512x64xf32> {
  %z = arith.constant 0.0 : f32
  %low = arith.constant -1.0e3 : f32
  %e = tensor.empty() : tensor<512x512xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<512x512xf32>) -> tensor<512x512xf32>
  %s = linalg.matmul ins(%q, %k : tensor<512x64xf32>, tensor<64x512xf32>)
      outs(%f : tensor<512x512xf32>) -> tensor<512x512xf32>
  %me = tensor.empty() : tensor<512x512xi1>
  %m = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]} outs(%me : tensor<512x512xi1>) {
   ^bb0(%o: i1):
     %i = linalg.index 0 : index
     %j = linalg.index 1 : index
     %c = arith.cmpi sge, %i, %j : index
     linalg.yield %c : i1
  } -> tensor<512x512xi1>
  %p = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>,
      affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]}
      ins(%m, %s : tensor<512x512xi1>, tensor<512x512xf32>) outs(%e : tensor<512x512xf32>) {
   ^bb0(%c: i1, %x: f32, %o: f32):
     %y = arith.select %c, %x, %low : f32
     %w = math.exp %y : f32
     linalg.yield %w : f32
  } -> tensor<512x512xf32>
  %e2 = tensor.empty() : tensor<512x64xf32>
  %f2 = linalg.fill ins(%z : f32) outs(%e2 : tensor<512x64xf32>) -> tensor<512x64xf32>
  %r = linalg.matmul ins(%p, %v : tensor<512x512xf32>, tensor<512x64xf32>)
      outs(%f2 : tensor<512x64xf32>) -> tensor<512x64xf32>
  return %r : tensor<512x64xf32>
}"""


def test_chains_with_a_mask_of_indices() -> None:
    """Causal attention of 512 rows, whose intermediates exceed a cache, has the right results."""
    random = np.random.default_rng(2)
    q, k, v = (
        (random.standard_normal(shape) * 0.1).astype(np.float32)
        for shape in ((512, 64), (64, 512), (512, 64))
    )
    with rammer_mlir.compile(MASKED, num_veus=2) as compiled:
        found = compiled(q, k, v)
    scores = np.where(np.tri(512, dtype=np.bool_), q.astype(np.float64) @ k, -1e3)
    np.testing.assert_allclose(found, np.exp(scores) @ v, rtol=1e-4, atol=1e-4)
