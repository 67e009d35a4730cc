"""Tests that ``stablehlo.triangular_solve`` gives the solutions of NumPy's solver."""

from __future__ import annotations

import numpy as np
import pytest

import rammer_mlir


@pytest.mark.parametrize("on_left", [True, False])
@pytest.mark.parametrize("is_lower", [True, False])
@pytest.mark.parametrize("has_ones", [True, False])
@pytest.mark.parametrize("transposes", [True, False])
@pytest.mark.parametrize(
    ("batch", "unknowns", "columns", "element"),
    [((), 5, 3, "f32"), ((2, 3), 4, 1, "f64"), ((2,), 1, 2, "f32"), ((), 70, 2, "f64")],
)
def test_triangular_solve(
    on_left: bool, is_lower: bool, has_ones: bool, transposes: bool,
    batch: tuple[int, ...], unknowns: int, columns: int, element: str,
) -> None:  # fmt: skip
    dtype = {"f32": np.float32, "f64": np.float64}[element]
    random = np.random.default_rng(0)
    a = random.standard_normal((*batch, unknowns, unknowns)) / unknowns
    a += 2 * np.eye(unknowns)
    b = random.standard_normal((*batch, *((unknowns, columns) if on_left else (columns, unknowns))))
    kinds = [f"tensor<{'x'.join(map(str, each.shape))}x{element}>" for each in (a, b)]
    text = f"""func.func @f(%a: {kinds[0]}, %b: {kinds[1]}) -> {kinds[1]} {{
      %r = "stablehlo.triangular_solve"(%a, %b) {{
        left_side = {str(on_left).lower()}, lower = {str(is_lower).lower()},
        unit_diagonal = {str(has_ones).lower()},
        transpose_a = #stablehlo<transpose {"TRANSPOSE" if transposes else "NO_TRANSPOSE"}>
      }} : ({kinds[0]}, {kinds[1]}) -> {kinds[1]}
      return %r : {kinds[1]}
    }}"""
    read = np.tril(a) if is_lower else np.triu(a)
    if has_ones:
        read = read - read * np.eye(unknowns) + np.eye(unknowns)
    factor = np.swapaxes(read, -1, -2) if transposes else read
    if on_left:
        wanted = np.linalg.solve(factor, b)
    else:
        flipped = [np.swapaxes(each, -1, -2) for each in (factor, b)]
        wanted = np.swapaxes(np.linalg.solve(*flipped), -1, -2)
    # The other triangle, and a diagonal of ones, are not read.
    unread = ~(np.tri(unknowns, dtype=bool) if is_lower else np.tri(unknowns, dtype=bool).T)
    given = np.where(unread | (np.eye(unknowns, dtype=bool) & has_ones), np.nan, a)
    with rammer_mlir.compile(text, cache=False) as exe:
        found = exe.run({"arg0": given.astype(dtype), "arg1": b.astype(dtype)})["result0"]
    np.testing.assert_allclose(found, wanted, rtol=1e-3 if element == "f32" else 1e-9, atol=1e-5)
