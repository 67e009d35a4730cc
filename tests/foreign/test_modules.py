"""Modules that hold more than functions."""

from __future__ import annotations

import numpy as np

import rammer_mlir

TEXT = """
module @outer {
  module @inner {
    func.func @g(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
  }
  module attributes {transform.with_named_sequence} {
    transform.named_sequence @__transform_main(%m: !transform.any_op) { transform.yield }
  }
  func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> {
    %r = arith.addf %a, %a : tensor<4xf32>
    return %r : tensor<4xf32>
  }
}
"""


def test_nested_modules_are_left_out() -> None:
    a = np.arange(4, dtype=np.float32)
    with rammer_mlir.compile(TEXT, cache=False) as exe:
        np.testing.assert_array_equal(exe.run({"arg0": a})["result0"], 2 * a)
