"""Tests that reductions that subtract from their accumulator are right and vectorized.

Such reductions compute sums of negated values.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

import rammer_mlir
from rammer_mlir.compiler.compilation import Compilation
from rammer_mlir.compiler.options import check_options


def negated_sums(axis: int, shape: tuple[int, int]) -> onnx.ModelProto:
    """Return a model of the sums of ``-x`` and of ``-(x * y)`` along an axis."""
    rows, columns = shape
    kept = shape[1 - axis]
    return onnx.parser.parse_model(f"""
        <ir_version: 9, opset_import: ["" : 18]>
        m (float[{rows}, {columns}] x, float[{rows}, {columns}] y)
            => (float[{kept}] s, float[{kept}] p)
        <int64[1] axis = {{{axis}}}> {{
            n = Neg (x)
            s = ReduceSum <keepdims = 0> (n, axis)
            xy = Mul (x, y)
            m = Neg (xy)
            p = ReduceSum <keepdims = 0> (m, axis)
        }}""")


@pytest.mark.parametrize("target", ["cpu", "nvvm:sm_90", "rocdl:gfx90a"])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("shape", [(7, 300), (257, 33)])
def test_sums_of_negated_values(target: str, axis: int, shape: tuple[int, int]) -> None:
    more: dict[str, Any] = {} if target == "cpu" else {"emulate": True, "check": True}
    model = negated_sums(axis, shape)
    executable = rammer_mlir.compile(model, target=target, num_veus=3, **more)
    generator = np.random.default_rng(3)
    x, y = (generator.standard_normal(shape).astype(np.float32) for _ in "xy")
    found = executable.run({"x": x, "y": y})
    wide = x.astype(np.float64)
    np.testing.assert_allclose(found["s"], -wide.sum(axis), rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(found["p"], -(wide * y).sum(axis), rtol=1e-5, atol=1e-4)


def test_their_code_has_vectors() -> None:
    options = check_options("cpu", policy="wavefront", num_veus=1)
    compilation = Compilation.of_model(negated_sums(1, (16, 512)), options)
    assert "vector.reduce.fadd" in compilation.emit("target").decode()
