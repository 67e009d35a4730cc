"""Tests that a loop runs no iteration if its initial condition, an input, is false.

That holds even if the loop has a trip count.
"""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest
from onnx.reference import ReferenceEvaluator

import rammer_mlir

LOOP = """<ir_version: 10, opset_import: ["": 21]>
g (float[8] x, bool c, float[8,8] w) => (float[M,8] r) {
  n = Constant<value_int=20>()
  z, ys = Loop(n, c, x) <body = b (int64 i, bool k, float[8] s) => (bool k2, float[8] t, float[8] u)
  {
    k2 = Identity(k)
    t = Sin(s)
    u = Identity(t)
  }>
  q = MatMul(ys, w)
  r = Exp(q)
}"""


@pytest.mark.parametrize("begins", [True, False])
def test_a_condition_of_the_run(begins: bool) -> None:
    model = onnx.parser.parse_model(LOOP)
    random = np.random.default_rng(0)
    x, w = (random.standard_normal(shape, np.float32) for shape in ((8,), (8, 8)))
    feeds = {"x": x, "c": np.array(begins), "w": w}
    found = rammer_mlir.compile(model, num_veus=1).run(feeds)["r"]
    if begins:
        (expected,) = ReferenceEvaluator(model).run(None, feeds)
        np.testing.assert_allclose(found, np.asarray(expected, np.float32), rtol=1e-4)
    else:
        assert found.shape == (0, 8)
