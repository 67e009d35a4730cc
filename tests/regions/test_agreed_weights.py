"""Tests that the readings of a region use a small constant that all calls of the region pass."""

from __future__ import annotations

import pytest

from rammer_mlir import dialects
from rammer_mlir.bindings import ir
from rammer_mlir.passes.ir.entry import functions, symbol_name
from rammer_mlir.passes.regions.region import region_of

MEANS = """
#rows = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#each = affine_map<(d0) -> (d0)>
func.func private @region(%x: tensor<2x4xf32>, %n: tensor<2xf32>) -> tensor<2xf32>
    attributes {{rtask.codegen = "any"}} {{
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<2xf32>) -> tensor<2xf32>
  %s = linalg.generic {{indexing_maps = [#rows, #row], iterator_types = ["parallel", "reduction"]}}
      ins(%x : tensor<2x4xf32>) outs(%z : tensor<2xf32>) {{
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      linalg.yield %c : f32
  }} -> tensor<2xf32>
  %m = linalg.generic {{indexing_maps = [#each, #each, #each], iterator_types = ["parallel"]}}
      ins(%s, %n : tensor<2xf32>, tensor<2xf32>) outs(%e : tensor<2xf32>) {{
    ^bb0(%a: f32, %b: f32, %o: f32):
      %c = arith.divf %a, %b : f32
      linalg.yield %c : f32
  }} -> tensor<2xf32>
  return %m : tensor<2xf32>
}}
func.func @main(%x: tensor<2x4xf32>,
    %n: tensor<2xf32> {{rtask.constant = "n", rtask.value = dense<4.0> : tensor<2xf32>}},
    %o: tensor<2xf32> {{rtask.constant = "{other}", rtask.value = dense<{value}> : tensor<2xf32>}})
    -> (tensor<2xf32>, tensor<2xf32>) {{
  %a = func.call @region(%x, %n) : (tensor<2x4xf32>, tensor<2xf32>) -> tensor<2xf32>
  %b = func.call @region(%x, %o) : (tensor<2x4xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %a, %b : tensor<2xf32>, tensor<2xf32>
}}
"""


@pytest.mark.parametrize(
    ("other", "value", "kinds"),
    [("n", 4.0, ["reduce_mean"]), ("o", 3.0, ["reduce_sum", "div"])],
)
def test_a_mean_needs_one_divisor(other: str, value: float, kinds: list[str]) -> None:
    context = ir.Context()
    dialects.register(context)
    with context, ir.Location.unknown():
        module = ir.Module.parse(MEANS.format(other=other, value=value))
        (function,) = (f for f in functions(module) if symbol_name(f) == "region")
        region = region_of(module, function)
        found = [r.kind for each in region.operations for r in each.readings if r.kind != "fill"]
    assert found == kinds
