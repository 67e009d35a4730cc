"""Tests that fusion forms the expected rOperators, and avoids copies.

Concatenations and pads need no copy if their operands can be written in place.
"""

from __future__ import annotations

import pytest
from linalg_programs import count, operators

CONV = """
#id = affine_map<(n, c, h, w) -> (n, c, h, w)>
#bias = affine_map<(n, c, h, w) -> (c)>
func.func @main(%x: tensor<1x8x10x10xf32> {rtask.name = "x"},
    %w: tensor<16x8x3x3xf32> {rtask.constant = "w"}, %b: tensor<16xf32> {rtask.constant = "b"})
    -> (tensor<1x16x8x8xf32> {rtask.name = "y"}) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x16x8x8xf32>
  %init = linalg.generic {indexing_maps = [#bias, #id],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%b : tensor<16xf32>) outs(%e : tensor<1x16x8x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<1x16x8x8xf32>
  %conv = linalg.conv_2d_nchw_fchw {dilations = dense<1> : vector<2xi64>,
      strides = dense<1> : vector<2xi64>}
      ins(%x, %w : tensor<1x8x10x10xf32>, tensor<16x8x3x3xf32>)
      outs(%init : tensor<1x16x8x8xf32>) -> tensor<1x16x8x8xf32>
  %relu = linalg.generic {indexing_maps = [#id, #id],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%conv : tensor<1x16x8x8xf32>) outs(%e : tensor<1x16x8x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    %m = arith.maximumf %in, %zero : f32
    linalg.yield %m : f32
  } -> tensor<1x16x8x8xf32>
  return %relu : tensor<1x16x8x8xf32>
}
"""

SOFTMAX = """
#row = affine_map<(r, c) -> (r)>
#id = affine_map<(r, c) -> (r, c)>
func.func @main(%x: tensor<64x100xf32> {rtask.name = "x"})
    -> (tensor<64x100xf32> {rtask.name = "y"}) {
  %low = arith.constant 0xFF800000 : f32
  %zero = arith.constant 0.0 : f32
  %e1 = tensor.empty() : tensor<64xf32>
  %e2 = tensor.empty() : tensor<64x100xf32>
  %f0 = linalg.fill ins(%low : f32) outs(%e1 : tensor<64xf32>) -> tensor<64xf32>
  %max = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<64x100xf32>) outs(%f0 : tensor<64xf32>) {
  ^bb0(%in: f32, %out: f32):
    %m = arith.maximumf %in, %out : f32
    linalg.yield %m : f32
  } -> tensor<64xf32>
  %exp = linalg.generic {indexing_maps = [#id, #row, #id],
      iterator_types = ["parallel", "parallel"]}
      ins(%x, %max : tensor<64x100xf32>, tensor<64xf32>) outs(%e2 : tensor<64x100xf32>) {
  ^bb0(%in: f32, %m: f32, %out: f32):
    %d = arith.subf %in, %m : f32
    %v = math.exp %d : f32
    linalg.yield %v : f32
  } -> tensor<64x100xf32>
  %f1 = linalg.fill ins(%zero : f32) outs(%e1 : tensor<64xf32>) -> tensor<64xf32>
  %sum = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
      ins(%exp : tensor<64x100xf32>) outs(%f1 : tensor<64xf32>) {
  ^bb0(%in: f32, %out: f32):
    %s = arith.addf %in, %out : f32
    linalg.yield %s : f32
  } -> tensor<64xf32>
  %div = linalg.generic {indexing_maps = [#id, #row, #id],
      iterator_types = ["parallel", "parallel"]}
      ins(%exp, %sum : tensor<64x100xf32>, tensor<64xf32>) outs(%e2 : tensor<64x100xf32>) {
  ^bb0(%in: f32, %s: f32, %out: f32):
    %q = arith.divf %in, %s : f32
    linalg.yield %q : f32
  } -> tensor<64x100xf32>
  return %div : tensor<64x100xf32>
}
"""


def square(name: str, source: str, shape: str) -> str:
    """Return MLIR text of an elementwise square of the value ``source``."""
    rank = shape.count("x")
    dims = ", ".join(f"d{i}" for i in range(rank))
    kinds = ", ".join(['"parallel"'] * rank)
    id_map = f"affine_map<({dims}) -> ({dims})>"
    return f"""
  %{name}_e = tensor.empty() : tensor<{shape}>
  %{name} = linalg.generic {{indexing_maps = [{id_map}, {id_map}], iterator_types = [{kinds}]}}
      ins(%{source} : tensor<{shape}>) outs(%{name}_e : tensor<{shape}>) {{
  ^bb0(%in: f32, %out: f32):
    %s = arith.mulf %in, %in : f32
    linalg.yield %s : f32
  }} -> tensor<{shape}>"""


CONCAT = f"""
func.func @main(%x: tensor<4x16xf32> {{rtask.name = "x"}},
    %y: tensor<4x16xf32> {{rtask.name = "y"}})
    -> (tensor<8x16xf32> {{rtask.name = "z"}}) {{
  {square("a", "x", "4x16xf32")}
  {square("b", "y", "4x16xf32")}
  %z = tensor.concat dim(0) %a, %b
      : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<8x16xf32>
  return %z : tensor<8x16xf32>
}}
"""

PAD = f"""
func.func @main(%x: tensor<4x16xf32> {{rtask.name = "x"}})
    -> (tensor<6x18xf32> {{rtask.name = "z"}}) {{
  %c = arith.constant 7.0 : f32
  {square("a", "x", "4x16xf32")}
  %p = tensor.pad %a low[1, 1] high[1, 1] {{
  ^bb0(%i: index, %j: index):
    tensor.yield %c : f32
  }} : tensor<4x16xf32> to tensor<6x18xf32>
  return %p : tensor<6x18xf32>
}}
"""


def test_bias_convolution_and_activation_are_one_operator() -> None:
    found = operators(CONV)
    assert count(found, "rtask.operator") == len(found) == 1


def test_a_convolutions_weights_have_output_channels_innermost() -> None:
    (operator,) = operators(CONV)
    assert "tensor<8x3x3x16xf32>" in operator.operands


def test_softmax_is_one_operator() -> None:
    found = operators(SOFTMAX)
    assert count(found, "rtask.operator") == len(found) == 1


def test_concatenation_needs_no_copy_and_equal_operators_share_a_kernel() -> None:
    found = operators(CONCAT)
    calls = [op for op in found if op.name == "rtask.operator"]
    assert count(found, "tensor.concat") == 1
    assert len(calls) == 2
    assert calls[0].kernels == calls[1].kernels


def test_padding_adds_a_border_and_no_copy() -> None:
    found = operators(PAD)
    kernels = [op.kernels for op in found if op.name == "rtask.operator"]
    assert len(kernels) == 2
    assert sum("border" in kernel for kernel in kernels) == 1
    assert count(found, "tensor.pad") == 0


def test_an_input_that_is_concatenated_is_copied() -> None:
    found = operators(CONCAT.replace("%a, %b", "%x, %b"))
    assert sum("copy" in op.kernels for op in found) == 1


def product(name: str, left: str, right: str, rows: int, inner: int, columns: int) -> str:
    """Return MLIR text that defines ``%name`` as the matrix product of two values."""
    out = f"tensor<{rows}x{columns}xf32>"
    return f"""
  %{name}_e = tensor.empty() : {out}
  %{name}_f = linalg.fill ins(%zero : f32) outs(%{name}_e : {out}) -> {out}
  %{name} = linalg.matmul
      ins(%{left}, %{right} : tensor<{rows}x{inner}xf32>, tensor<{inner}x{columns}xf32>)
      outs(%{name}_f : {out}) -> {out}"""


def sum_of_products(first: str, second: str) -> str:
    """Return a function that adds two products, ``first`` and ``second``, in this order.

    The product ``late`` depends on a third product, the product ``early`` does not.
    """
    return f"""
func.func @main(%x: tensor<4x24xf32> {{rtask.name = "x"}}, %a: tensor<24x16xf32>
    {{rtask.name = "a"}}, %b: tensor<24x32xf32> {{rtask.name = "b"}}, %c: tensor<32x16xf32>
    {{rtask.name = "c"}}) -> (tensor<4x16xf32> {{rtask.name = "y"}}) {{
  %zero = arith.constant 0.0 : f32
  {product("early", "x", "a", 4, 24, 16)}
  {product("state", "x", "b", 4, 24, 32)}
  {product("late", "state", "c", 4, 32, 16)}
  %e = tensor.empty() : tensor<4x16xf32>
  %y = linalg.add ins(%{first}, %{second} : tensor<4x16xf32>, tensor<4x16xf32>)
      outs(%e : tensor<4x16xf32>) -> tensor<4x16xf32>
  return %y : tensor<4x16xf32>
}}
"""


@pytest.mark.parametrize("order", [("early", "late"), ("late", "early")])
def test_a_sum_joins_the_product_that_waits_longer(order: tuple[str, str]) -> None:
    """A sum is fused with the product that starts later.

    The other product can run while the inputs of that product are computed.
    """
    found = operators(sum_of_products(*order))
    kinds = sorted(sorted(op.operands) for op in found if op.name == "rtask.operator")
    early = ["tensor<24x16xf32>", "tensor<4x24xf32>"]
    late = ["tensor<32x16xf32>", "tensor<4x16xf32>", "tensor<4x32xf32>"]
    state = ["tensor<24x32xf32>", "tensor<4x24xf32>"]
    assert kinds == [early, state, late]
