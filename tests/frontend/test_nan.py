"""Tests of compiled models with NaN, infinities and signed zeros among their inputs.

Elementwise operators and softmax agree with ONNX Runtime. A maximum or minimum over elements is NaN
if any element is NaN, as in NumPy and PyTorch; in ONNX Runtime, the order of the elements decides.
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
    """Return a model with inputs ``x`` and ``y``; all results of its nodes are outputs.

    ``boolean`` has the names of the results that are bool instead of float.
    """
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


@pytest.mark.parametrize("decided", [False, True])
@pytest.mark.parametrize("largest", [0, 1])
def test_nan_is_greater_than_numbers_in_an_order(largest: int, decided: bool) -> None:
    """TopK sorts NaN as greater than all numbers, in a compiled program and on the host.

    The host runs TopK if data decides the number of elements.
    """
    count = "Cast<to=7>(k)" if decided else "Constant<value_ints=[4]>()"
    built = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["": 17]>
      g (float[3,9] x, float[1] k) => (float[3,K] y, int64[3,K] i) {{
        n = {count}
        y, i = TopK<largest={largest}>(x, n)
      }}""")
    x = np.random.default_rng(0).permuted(np.stack([SPECIAL] * 3), axis=1)
    x[0, :2] = np.nan
    found = rammer_mlir.compile(built).run({"x": x, "k": np.array([4], np.float32)})
    sign = -1 if largest else 1
    ranks = [[(sign * bool(np.isnan(v)), 0 if np.isnan(v) else sign * v) for v in row] for row in x]
    order = [sorted(range(9), key=row.__getitem__)[:4] for row in ranks]
    assert found["i"].tolist() == order
    assert np.array_equal(found["y"], np.take_along_axis(x, found["i"], 1), equal_nan=True)


@pytest.mark.parametrize("decided", [False, True])
@pytest.mark.parametrize("operator", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("last", [0, 1])
def test_the_position_of_an_extremum_is_that_of_nan(
    operator: str, last: int, decided: bool
) -> None:
    choice = "x = Compress<axis=1>(z, keep)" if decided else "x = Identity(z)"
    built = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["": 17]>
      g (float[2,4] z, bool[4] keep) => (int64[2] i) {{
        {choice}
        i = {operator}<axis=1, keepdims=0, select_last_index={last}>(x)
      }}""")
    z = np.array([[1, np.nan, 3, np.nan], [4, 2, 2, 4]], np.float32)
    found = rammer_mlir.compile(built).run({"z": z, "keep": np.ones(4, np.bool_)})["i"]
    numbers = (3 if last else 0) if operator == "ArgMax" else (2 if last else 1)
    assert found.tolist() == [3 if last else 1, numbers]


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
