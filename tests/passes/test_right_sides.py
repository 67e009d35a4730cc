"""Tests that matrix products are right if their right operand is an input.

The input may be transposed, and may be copied into panels first.
"""

from __future__ import annotations

import numpy as np
import pytest
from onnx import parser

import rammer_mlir
from rammer_mlir.errors import OptionError
from rammer_mlir.passes.rtask_transpose_right_sides import TransposeRightSides


@pytest.mark.parametrize("rows", [1, 5, 8, 9, 40, 197])
@pytest.mark.parametrize("columns", [7, 33, 512])
@pytest.mark.parametrize("permutation", [(0, 2, 1), (1, 2, 0), (1, 0, 2)])
def test_products_with_transposed_right_sides(
    rows: int, columns: int, permutation: tuple[int, int, int]
) -> None:
    """Products whose right operand is a transposed input are right.

    The input has the batch, the inner dimension and the columns in several orders.
    """
    shape = [0, 0, 0]
    for dim, size in zip(permutation, (3, 24, columns), strict=True):
        shape[dim] = size
    model = parser.parse_model(f"""<ir_version: 9, opset_import: ["": 17]>
    g (float[3,{rows},24] x, float{shape} w) => (float[3,{rows},{columns}] y) {{
      t = Transpose<perm = {list(permutation)}>(w)  y = MatMul(x, t) }}""")
    random = np.random.default_rng(0)
    feeds = {
        "x": random.standard_normal((3, rows, 24)).astype(np.float32),
        "w": random.standard_normal(shape).astype(np.float32),
    }
    found = rammer_mlir.compile(model, cache=False, num_veus=2).run(feeds)["y"]
    exact = feeds["x"].astype(np.float64) @ feeds["w"].transpose(permutation).astype(np.float64)
    np.testing.assert_allclose(found, exact, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("rows", [3, 300])
def test_a_right_side_that_is_used_otherwise_too(rows: int) -> None:
    model = parser.parse_model(f"""<ir_version: 9, opset_import: ["": 17]>
    g (float[{rows},16] x, float[40,16] w) => (float[{rows},40] y, float[16,40] z) {{
      t = Transpose<perm = [1, 0]>(w)  y = MatMul(x, t)  z = Neg(t) }}""")
    random = np.random.default_rng(1)
    x = random.standard_normal((rows, 16)).astype(np.float32)
    w = random.standard_normal((40, 16)).astype(np.float32)
    found = rammer_mlir.compile(model, cache=False).run({"x": x, "w": w})
    np.testing.assert_allclose(found["y"], x @ w.T, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(found["z"], -w.T)


@pytest.mark.parametrize("columns", [112, 128, 130])
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("num_veus", [1, 3])
def test_large_right_sides_are_copied_in_panels(columns: int, batch: int, num_veus: int) -> None:
    """Products with a large right operand are right, whether or not panels divide the columns.

    A panel has 32 or 16 columns.
    """
    model = parser.parse_model(f"""<ir_version: 9, opset_import: ["": 17]>
    g (float[{batch},150,640] x, float[{batch},640,{columns}] w)
      => (float[{batch},150,{columns}] y) {{ z = MatMul(x, w)  y = Relu(z) }}""")
    random = np.random.default_rng(2)
    x, w = (
        random.standard_normal((batch, *shape)).astype(np.float32)
        for shape in ((150, 640), (640, columns))
    )
    found = rammer_mlir.compile(model, cache=False, num_veus=num_veus).run({"x": x, "w": w})["y"]
    exact = np.maximum(x.astype(np.float64) @ w, 0)
    np.testing.assert_allclose(found, exact, rtol=1e-4, atol=1e-3)


def test_panels_have_16_or_32_columns() -> None:
    with pytest.raises(OptionError, match="width: expected 16 or 32 columns, found 24"):
        TransposeRightSides(width=24).check_options()


def test_few_rows_are_fewer_than_many() -> None:
    with pytest.raises(OptionError, match="expected 0 <= few < many, found 8 and 8"):
        TransposeRightSides(few=8, many=8).check_options()
