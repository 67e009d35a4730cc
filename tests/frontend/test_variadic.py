"""Tests of operators with more inputs than an rOperator has operands."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

import rammer_mlir


@pytest.mark.parametrize("operator", ["Sum", "Mean", "Max", "Min"])
def test_many_inputs(operator: str) -> None:
    rng = np.random.default_rng(0)
    shapes = [[2, 5], [5], [2, 1], [1]]
    feeds = {f"x{n}": rng.standard_normal(shapes[n % 4]).astype(np.float32) for n in range(150)}
    graph = helper.make_graph(
        [helper.make_node(operator, list(feeds), ["y"])],
        "g",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, x.shape) for n, x in feeds.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    with rammer_mlir.compile(model, cache=False) as executable:
        found = executable.run(feeds)["y"]
    wide = np.stack([np.broadcast_to(x, (2, 5)).astype(np.float64) for x in feeds.values()])
    expected = {"Sum": wide.sum(0), "Mean": wide.mean(0), "Max": wide.max(0), "Min": wide.min(0)}
    np.testing.assert_allclose(found, expected[operator], rtol=1e-5, atol=1e-5)
