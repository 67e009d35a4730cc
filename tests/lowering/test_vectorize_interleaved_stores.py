"""Tests that vector registers whose elements alternate in memory are stored contiguously.

The elements are interleaved before the store.
"""

from __future__ import annotations

import numpy as np
import pytest
from kernel_harness import compile_kernel, lower_text
from random_generics import DTYPES

_REPEATED = """
func.func private @k(%id: index, %x: memref<{w}x{t}>, %y: memref<{b}x{t}>,
                     %z: memref<{w}x{b}x{t}>) {{
  linalg.generic {{indexing_maps = [affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (j)>,
                                   affine_map<(i, j) -> (i, j)>],
                  iterator_types = ["parallel", "parallel"]}}
      ins(%x, %y : memref<{w}x{t}>, memref<{b}x{t}>) outs(%z : memref<{w}x{b}x{t}>) {{
  ^bb0(%u: {t}, %v: {t}, %old: {t}):
    %r = arith.{add} %u, %v : {t}
    linalg.yield %r : {t}
  }}
  return
}}
"""


@pytest.mark.parametrize("element", DTYPES)
@pytest.mark.parametrize("copies", [2, 3, 4, 5])
@pytest.mark.parametrize("width", [7, 33, 100])
def test_each_element_several_times(element: str, copies: int, width: int) -> None:
    rng = np.random.default_rng(width)
    x, y = (rng.integers(-50, 50, size).astype(DTYPES[element]) for size in (width, copies))
    z = np.zeros((width + 1) * copies, x.dtype)
    add = "addi" if element.startswith("i") else "addf"
    compile_kernel(_REPEATED.format(w=width, b=copies, t=element, add=add))(0, x, y, z)
    np.testing.assert_array_equal(z[: width * copies].reshape(width, copies), np.add.outer(x, y))
    assert not z[width * copies :].any()  # nothing beyond the result


@pytest.mark.parametrize("copies", [2, 3, 4])
def test_nothing_is_scattered(copies: int) -> None:
    assert "scatter" not in lower_text(_REPEATED.format(w=64, b=copies, t="f32", add="addf"))
