"""Tests that operands that are contiguous along an unrolled loop are loaded in rows.

The rows are transposed in registers.
"""

from __future__ import annotations

import numpy as np
import pytest
from kernel_harness import assembly, compile_kernel, lower_text
from random_generics import DTYPES

from rammer_mlir.lowering.llvm.machine import host_machine

_SUM = """
#rows = affine_map<(i, j) -> (i, j)>
#columns = affine_map<(i, j) -> (j, i)>
func.func private @k(%id: index, %x: memref<{m}x{n}x{t}>, %y: memref<{n}x{m}x{t}>,
                     %z: memref<{m}x{n}x{t}>) {{
  linalg.generic {{indexing_maps = [#rows, #columns, #rows],
                  iterator_types = ["parallel", "parallel"]}}
      ins(%x, %y : memref<{m}x{n}x{t}>, memref<{n}x{m}x{t}>) outs(%z : memref<{m}x{n}x{t}>) {{
  ^bb0(%a: {t}, %b: {t}, %old: {t}):
    %c = arith.{add} %a, %b : {t}
    linalg.yield %c : {t}
  }}
  return
}}
"""

_DOTS = """
func.func private @k(%id: index, %x: memref<{n}x{m}xf32>, %y: memref<{n}xf32>,
                     %z: memref<{m}xf32>) {{
  linalg.generic {{indexing_maps = [affine_map<(i, j) -> (j, i)>, affine_map<(i, j) -> (j)>,
                                   affine_map<(i, j) -> (i)>],
                  iterator_types = ["parallel", "reduction"]}}
      ins(%x, %y : memref<{n}x{m}xf32>, memref<{n}xf32>) outs(%z : memref<{m}xf32>) {{
  ^bb0(%a: f32, %b: f32, %old: f32):
    %c = arith.mulf %a, %b : f32
    %d = arith.addf %old, %c : f32
    linalg.yield %d : f32
  }}
  return
}}
"""


@pytest.mark.parametrize("element", DTYPES)
@pytest.mark.parametrize(("m", "n"), [(16, 16), (17, 33), (5, 70), (64, 3), (40, 21), (3, 1000)])
def test_a_sum_with_a_transposed_operand(element: str, m: int, n: int) -> None:
    rng = np.random.default_rng(m)
    x, y = (rng.integers(-50, 50, shape).astype(DTYPES[element]) for shape in ((m, n), (n, m)))
    z = np.zeros_like(x)
    add = "addi" if element.startswith("i") else "addf"
    compile_kernel(_SUM.format(m=m, n=n, t=element, add=add))(0, x, y, z)
    np.testing.assert_array_equal(z, np.add(x, y.T))


def test_a_square_needs_no_gather() -> None:
    source = _SUM.format(m=64, n=64, t="f32", add="addf")
    assert "masked.gather" not in lower_text(source)
    if host_machine().triple.startswith("x86_64"):
        assert "gather" not in assembly(source)


@pytest.mark.parametrize(("m", "n"), [(4, 64), (20, 33), (1, 7)])
def test_dot_products_with_columns(m: int, n: int) -> None:
    rng = np.random.default_rng(n)
    x, y = rng.standard_normal((n, m)).astype("f"), rng.standard_normal(n).astype("f")
    z = rng.standard_normal(m).astype("f")
    expected = z + x.T.astype(np.float64) @ y
    compile_kernel(_DOTS.format(m=m, n=n))(0, x, y, z)
    np.testing.assert_allclose(z, expected, rtol=1e-5, atol=1e-5)
