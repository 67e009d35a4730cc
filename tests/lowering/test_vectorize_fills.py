"""Tests that a reduction into a filled buffer starts from the fill's scalar.

Then the reduction need not read the buffer.
"""

from __future__ import annotations

import pytest

from rammer_mlir.bindings import ir
from rammer_mlir.lowering.cpu.vectorize.fills import fill_scalar, known_fills
from rammer_mlir.lowering.ir_walk import producer, walk

_SCALAR = """linalg.generic {indexing_maps = [affine_map<(i) -> ()>, affine_map<(i) -> (i)>],
      iterator_types = ["parallel"]} ins(%zero : f32) outs(%y : memref<8xf32>) {
  ^bb0(%p: f32, %q: f32):
    linalg.yield %p : f32
  }"""
_CAPTURED = """linalg.generic {indexing_maps = [affine_map<(i) -> (i)>],
      iterator_types = ["parallel"]} outs(%y : memref<8xf32>) {
  ^bb0(%q: f32):
    linalg.yield %zero : f32
  }"""
_KEPT = _CAPTURED.replace("yield %zero", "yield %q")
_ELSEWHERE = _CAPTURED.replace("%y", "%z")


@pytest.mark.parametrize(
    ("fill", "is_known"),
    [(_SCALAR, True), (_CAPTURED, True), (_KEPT, False), (_ELSEWHERE, False), ("", False)],
)
def test_a_scalar_written_everywhere_is_known(fill: str, is_known: bool) -> None:
    source = f"""
func.func private @k(%id: index, %x: memref<8x5xf32>, %y: memref<8xf32>, %z: memref<8xf32>) {{
  %zero = arith.constant 0.0 : f32
  {fill}
  linalg.generic {{indexing_maps = [affine_map<(i, k) -> (i, k)>, affine_map<(i, k) -> (i)>],
      iterator_types = ["parallel", "reduction"]}}
      ins(%x : memref<8x5xf32>) outs(%y : memref<8xf32>) {{
  ^bb0(%p: f32, %q: f32):
    %s = arith.addf %q, %p : f32
    linalg.yield %s : f32
  }}
  return
}}"""
    with ir.Context():
        module = ir.Module.parse(source)
        *_, reduction = [o for o in walk(module.operation) if o.name == "linalg.generic"]
        (found,) = known_fills(reduction)
        assert (found is not None) == is_known
        if found is not None:
            assert producer(fill_scalar(found)) == "arith.constant"
