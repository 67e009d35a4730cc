"""Tests that constants with equal elements do not separate operations of an rOperator."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper, parser

import rammer_mlir
from rammer_mlir.compiler.models import Request
from rammer_mlir.compiler.options import check_options
from rammer_mlir.compiler.requests import given_source

GRAPH = """<ir_version: 10, opset_import: ["": 20]>
g (float[1,32,30,30] x) => (float[1,64,28,28] y) {
    a = Conv (x, w, b)
    c = Mul (a, s)
    y = Relu (c)
}"""


def model(bias: float, scale: float, elements: int) -> onnx.ModelProto:
    """Return a model of a convolution, a product with a constant, and a maximum with zero.

    Args:
        bias: each element of the convolution's bias.
        scale: each element of the constant.
        elements: number of the constant's elements, 1 or 64.
    """
    weight = np.random.default_rng(0).standard_normal((64, 32, 3, 3)).astype(np.float32)
    values = {
        "w": weight,
        "b": np.full(64, bias, np.float32),
        "s": np.full((elements, 1, 1), scale, np.float32),
    }
    made = parser.parse_model(GRAPH)
    made.graph.initializer.extend(numpy_helper.from_array(v, k) for k, v in values.items())
    return made


@pytest.mark.parametrize("elements", [1, 64])
@pytest.mark.parametrize("bias", [0.0, 0.25])
def test_a_convolution_and_its_elementwise_operations_are_one_operator(
    bias: float, elements: int
) -> None:
    request = Request(given_source(model(bias, -1.5, elements)), check_options("cpu"), {})
    text = request.compilation().emit("operators").decode()
    assert sum("= rtask.operator" in line for line in text.splitlines()) == 1


@pytest.mark.parametrize("num_veus", [1, 3])
def test_results_equal_those_of_onnx_runtime(num_veus: int) -> None:
    given = model(0.25, -1.5, 64)
    x = np.random.default_rng(1).standard_normal((1, 32, 30, 30)).astype(np.float32)
    session = onnxruntime.InferenceSession(given.SerializeToString())
    (expected,) = session.run(None, {"x": x})
    with rammer_mlir.compile(given, num_veus=num_veus) as compiled:
        np.testing.assert_allclose(compiled(x), np.asarray(expected), rtol=1e-4, atol=1e-3)
