"""Tests that functions on f32 and f16 compiled to PTX are accurate in the interpreter.

The reference is NumPy in float64.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import helper
from ptx_models import Interpreted

Array = NDArray[Any]

FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "Sinh": np.sinh,
    "Cosh": np.cosh,
    "Tan": np.tan,
    "Asinh": np.arcsinh,
    "Acosh": np.arccosh,
    "Atanh": np.arctanh,
    "Sin": np.sin,
    "Cos": np.cos,
}

NUMBERS = np.array(
    [0.0, -0.0, 1e-6, -1e-6, 1e-3, 0.3, -0.9, 1.0, -1.0, 1.5, 11.0, -11.5, 40.0, -89.3, 100.0, -1e4,
     6e4, -6e4, 2.0**28, 1e10, -1e10, 1e25, -1e25, 3e38, -3e38, np.inf, -np.inf, np.nan, 1e-40],
    np.float32,
)  # fmt: skip


@pytest.mark.parametrize("element", [np.float32, np.float16])
def test_functions(element: type[np.floating[Any]]) -> None:
    """Functions are accurate for numbers of all magnitudes, and handle infinities and NaN."""
    with np.errstate(all="ignore"):
        x = NUMBERS.astype(element)
        kind = helper.np_dtype_to_tensor_dtype(x.dtype)
        graph = helper.make_graph(
            [helper.make_node(name, ["x"], [name]) for name in FUNCTIONS],
            "functions",
            [helper.make_tensor_value_info("x", kind, x.shape)],
            [helper.make_tensor_value_info(name, kind, x.shape) for name in FUNCTIONS],
        )
        opsets = [helper.make_opsetid("", 22)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
        found = Interpreted(model, num_veus=2).executable().run({"x": x})
        for name, reference in FUNCTIONS.items():
            exact = reference(x.astype(np.float64)).astype(element).astype(np.float64)
            values = np.asarray(found[name]).astype(np.float64)
            limit = float(4 * np.finfo(element).eps)
            np.testing.assert_allclose(values, exact, rtol=limit, err_msg=name)
