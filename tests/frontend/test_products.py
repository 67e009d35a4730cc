"""Tests that matrix products are right, and imported as few operations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from node_checks import check_node, floats, run_node
from onnx import numpy_helper, parser

import rammer_mlir


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((3, 4), (4, 5)),
        ((4,), (4, 5)),
        ((3, 4), (4,)),
        ((4,), (4,)),
        ((2, 3, 4), (4,)),
        ((4,), (2, 4, 5)),
        ((2, 3, 4), (2, 4, 5)),
        ((2, 1, 3, 4), (5, 4, 6)),
        ((3, 4), (2, 4, 5)),
        ((2, 3, 4), (1, 4, 5)),
    ],
)
def test_matmul(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    check_node("MatMul", [floats(*left), floats(*right, seed=1)])


def test_shared_right_side_is_one_product_of_all_rows() -> None:
    text = check_node("MatMul", [floats(2, 3, 4), floats(4, 5, seed=1)])
    assert text.count("linalg.generic") == 1
    assert ": tensor<6x4xf32>, tensor<4x5xf32>)" in text


def test_half_precision_is_added_up_in_single() -> None:
    left, right = floats(2, 300).astype(np.float16), floats(300, 2, seed=1).astype(np.float16)
    text = check_node("MatMul", [left, right], tolerance=5e-2)
    assert "arith.extf" in text
    assert "-> tensor<2x2xf32>" in text


@pytest.mark.parametrize("trans_a", [0, 1])
@pytest.mark.parametrize("trans_b", [0, 1])
@pytest.mark.parametrize("shift", [None, (), (1,), (5,), (3, 1), (3, 5)])
def test_gemm(trans_a: int, trans_b: int, shift: tuple[int, ...] | None) -> None:
    a = floats(*((4, 3) if trans_a else (3, 4)))
    b = floats(*((5, 4) if trans_b else (4, 5)), seed=1)
    inputs = [a, b] if shift is None else [a, b, floats(*shift, seed=2)]
    check_node("Gemm", inputs, transA=trans_a, transB=trans_b, alpha=0.5, beta=0.25)


@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("scale", ["", "  u = Mul(t, k)"])
def test_constants_after_gemm_are_not_multiplied_by_beta(has_bias: bool, scale: str) -> None:
    model = parser.parse_model(f"""<ir_version: 9, opset_import: ["": 17]>
      g (float[3,4] x) => (float[3,2] y)
      <float[4,2] w = {{1, 2, 3, 4, 5, 6, 7, 8}}, float[2] b = {{1, -1}},
       float k = {{3}}, float s = {{-3}}> {{
      t = Gemm <alpha = 0.5, beta = 2.0> (x, w{", b" * has_bias}){scale}
      y = Sub({"u" if scale else "t"}, s) }}""")
    x = floats(3, 4)
    expected = 0.5 * x @ np.arange(1, 9).reshape(4, 2) + has_bias * np.array([2, -2])
    with rammer_mlir.compile(model, cache=False) as exe:
        found = exe.run({"x": x})["y"]
    np.testing.assert_allclose(found, (3 if scale else 1) * expected + 3, rtol=1e-5)


def test_plain_gemm_is_one_product_and_one_sum() -> None:
    text = check_node("Gemm", [floats(3, 4), floats(4, 5), floats(5)])
    assert text.count("linalg.generic") == 2


@pytest.mark.parametrize("kind", [np.uint8, np.int8])
@pytest.mark.parametrize("per_row", [False, True])
def test_matmul_integer(kind: type[np.integer[Any]], per_row: bool) -> None:
    generator = np.random.default_rng(0)
    limits = np.iinfo(kind)
    a = generator.integers(limits.min, limits.max, (3, 4), dtype=kind)
    b = generator.integers(limits.min, limits.max, (4, 5), dtype=kind)
    zero_a = np.array([3, 0, 7], kind) if per_row else np.array(5, kind)
    zero_b = np.array([1, 2, 3, 4, 5], kind) if per_row else np.array(2, kind)
    found = run_node("MatMulInteger", [a, b, zero_a, zero_b])["out0"]
    wide_a = a.astype(np.int32) - zero_a.reshape(-1, 1)
    np.testing.assert_array_equal(found, wide_a @ (b.astype(np.int32) - zero_b))


def test_a_zero_point_of_terms_that_only_the_weight_has() -> None:
    """A sum over a dimension of the quantized weight alone keeps the weight's zero point."""
    model = parser.parse_model(
        """<ir_version: 10, opset_import: ["": 21]> g (uint8[1,16] x) => (float[1,32] y)
        <float s = {1.0}, uint8 z = {0}, float t = {0.5}, uint8 q = {1}> {
            a = DequantizeLinear(x, s, z)  b = DequantizeLinear(w, t, q)
            y = Einsum<equation="mk,kjn->mn">(a, b) }"""
    )
    random = np.random.default_rng(0)
    weight = random.integers(0, 255, (16, 3, 32), np.uint8)
    model.graph.initializer.append(numpy_helper.from_array(weight, "w"))
    x = random.integers(0, 255, (1, 16), np.uint8)
    with rammer_mlir.compile(model, num_veus=1) as compiled:
        found = compiled(x)
    expected = np.einsum("mk,kjn->mn", x.astype(float), (weight.astype(float) - 1) * 0.5)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
