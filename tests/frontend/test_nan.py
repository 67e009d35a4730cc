"""NaN, infinities and signed zeros through the whole compiler.

Elementwise operators and softmax do what ONNX Runtime does. A maximum or minimum over elements is
NaN as soon as one of them is, as in NumPy and PyTorch; there ONNX Runtime depends on the order.
"""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

import rammer_mlir
from rammer_mlir.benchmarks.contenders.onnx_runtime import OnnxRuntime

Floats = NDArray[np.float32]

SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5, -2.5, 3e38, 1e-40], np.float32)
X, Y = (np.ascontiguousarray(a) for a in np.meshgrid(SPECIAL, SPECIAL))

UNARY = (
    "Abs Ceil Erf Exp Floor HardSigmoid HardSwish LeakyRelu Log LogSoftmax Neg Reciprocal Relu "
    "Round Sigmoid Sign Softmax Softplus Softsign Sqrt Tanh"
).split()
BINARY = "Add Sub Mul Div Max Min PRelu".split()
COMPARISONS = "Equal Greater GreaterOrEqual Less LessOrEqual".split()


def model(nodes: list[onnx.NodeProto], boolean: frozenset[str] = frozenset()) -> onnx.ModelProto:
    """Return a model of ``x`` and ``y`` whose outputs are all results of its nodes."""
    names = [name for node in nodes for name in node.output]
    graph = helper.make_graph(
        nodes,
        "special",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, X.shape) for name in "xy"],
        [
            helper.make_tensor_value_info(
                name, TensorProto.BOOL if name in boolean else TensorProto.FLOAT, None
            )
            for name in names
        ],
        [
            numpy_helper.from_array(np.array(v, np.float32), n)
            for n, v in (("low", -1), ("high", 2))
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def run(built: onnx.ModelProto) -> dict[str, NDArray[np.generic]]:
    with rammer_mlir.compile(built, num_veus=1) as executable:
        return executable.run({"x": X, "y": Y})


def test_elementwise_operators_do_what_onnx_runtime_does() -> None:
    nodes = [helper.make_node(operator, ["x"], [operator]) for operator in UNARY]
    nodes += [helper.make_node(operator, ["x", "y"], [operator]) for operator in BINARY]
    nodes += [helper.make_node(operator, ["x", "y"], [operator]) for operator in COMPARISONS]
    nodes.append(helper.make_node("Clip", ["x", "low", "high"], ["Clip"]))
    nodes.append(helper.make_node("IsNaN", ["x"], ["IsNaN"]))
    built = model(nodes, frozenset((*COMPARISONS, "IsNaN")))
    expected, found = OnnxRuntime(built, 1).run({"x": X, "y": Y}), run(built)
    wrong = [
        name
        for name, values in expected.items()
        if not np.allclose(values, found[name], 1e-3, 1e-6, equal_nan=True)
    ]
    assert not wrong


@pytest.mark.parametrize("operator", ["ReduceMax", "ReduceMin", "ReduceSum"])
def test_a_reduction_over_nan_is_nan(operator: str) -> None:
    built = model([helper.make_node(operator, ["x"], ["r"], keepdims=0)])
    assert np.isnan(run(built)["r"])


def test_a_reduction_beside_nan_is_a_number() -> None:
    built = model([helper.make_node("ReduceMax", ["y"], ["r"], axes=[1], keepdims=0)])
    assert np.array_equal(run(built)["r"], SPECIAL, equal_nan=True)


def test_a_maximum_of_a_window_with_nan_is_nan() -> None:
    graph = helper.make_graph(
        [helper.make_node("MaxPool", ["x"], ["r"], kernel_shape=[2], strides=[2])],
        "pool",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, 6])],
        [helper.make_tensor_value_info("r", TensorProto.FLOAT, [1, 1, 3])],
    )
    built = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    x = np.array([[[np.nan, 1, 2, np.nan, -np.inf, 3]]], np.float32)
    with rammer_mlir.compile(built, num_veus=1) as executable:
        found = executable.run({"x": x})["r"]
    assert np.array_equal(found, [[[np.nan, np.nan, 3]]], equal_nan=True)
