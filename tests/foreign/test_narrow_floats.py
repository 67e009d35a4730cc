"""Functions of f16 and bf16 run without the runtime library of a compiler."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import rammer_mlir


@pytest.mark.parametrize(
    ("kind", "dtype", "tolerance"),
    [("f16", np.float16, 2e-3), ("bf16", ml_dtypes.bfloat16, 2e-2)],
)
def test_a_fused_multiply_add(kind: str, dtype: type, tolerance: float) -> None:
    tensor = f"tensor<9x{kind}>"
    text = (
        f"func.func @f(%a: {tensor}, %b: {tensor}, %c: {tensor}) -> {tensor} {{\n"
        f"  %r = math.fma %a, %b, %c : {tensor}\n  return %r : {tensor}\n}}\n"
    )
    values = [np.linspace(begin, 2, 9).astype(dtype) for begin in (-3, -1, 0)]
    a, b, c = (value.astype(np.float64) for value in values)
    with rammer_mlir.compile(text, cache=False) as exe:
        found = exe.run({f"arg{n}": value for n, value in enumerate(values)})["result0"]
    np.testing.assert_allclose(found.astype(np.float64), a * b + c, tolerance, tolerance)


def test_a_sum_of_constants_of_bf16() -> None:
    text = """func.func @f() -> tensor<3xbf16> {
      %c = stablehlo.constant dense<[0.5, -1.0, 0x7F80]> : tensor<3xbf16>
      %d = stablehlo.constant dense<[1.0, 2.0, 0xFF80]> : tensor<3xbf16>
      %r = stablehlo.add %c, %d : tensor<3xbf16>
      return %r : tensor<3xbf16>
    }"""
    with rammer_mlir.compile(text, cache=False) as exe:
        found = exe.run({})["result0"]
    np.testing.assert_array_equal(found.astype(np.float64), [1.5, 1, np.nan])
