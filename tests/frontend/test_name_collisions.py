"""Tests models whose values and nodes have the names that the compiler gives to new ones.

The reference is ONNX Runtime.
"""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from node_checks import Array, floats
from onnx import helper, numpy_helper
from test_contradictions import parsed, refusal

from rammer_mlir.frontends.onnx.load import load
from rammer_mlir.frontends.onnx.node_names import separate_nodes
from rammer_mlir.frontends.onnx.prepare import prepare
from tests.hosted.hosted_checks import check


def model_of(
    nodes: list[onnx.NodeProto], x: Array, constants: dict[str, Array], opset: int = 17
) -> onnx.ModelProto:
    """Return a model with the input ``x``, the output ``y`` and the given constants."""
    graph = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def beside_lstm(name: str, operator: str = "Neg") -> onnx.ModelProto:
    """Return a model with an LSTM ``n``, multiplied by the value ``name``, which a node computes.

    ``operator`` is the operator of this node.
    """
    nodes = [
        helper.make_node("LSTM", ["x", "w", "r"], ["", "h"], "n", hidden_size=4),
        helper.make_node(operator, ["c"], [name], "other"),
        helper.make_node("Mul", ["h", name], ["y"], "z"),
    ]
    constants = {"w": floats(1, 16, 3), "r": floats(1, 16, 4), "c": floats(1, 1, 4)}
    return model_of(nodes, floats(2, 1, 3), constants)


@pytest.mark.parametrize("number", [2, 22, 28])
def test_a_value_beside_a_recurrent_layer(number: int) -> None:
    check(beside_lstm(f"n/{number}"), [{"x": floats(2, 1, 3)}])


def test_a_constant_beside_a_folded_batch_norm() -> None:
    """A convolution with the weight ``conv/folded_weight`` follows one with a batch norm."""
    nodes = [
        helper.make_node("Conv", ["x", "k"], ["c"], "conv", pads=[1] * 4),
        helper.make_node("BatchNormalization", ["c", "s", "b", "m", "v"], ["p"], "bn"),
        helper.make_node("Conv", ["x", "conv/folded_weight"], ["q"], "other", pads=[1] * 4),
        helper.make_node("Add", ["p", "q"], ["y"], "z"),
    ]
    x, channels = floats(1, 3, 6, 6), {name: floats(8, seed=2) for name in "sbm"}
    weights = {"k": floats(8, 3, 3, 3), "conv/folded_weight": floats(8, 3, 3, 3, seed=1)}
    variance = np.abs(floats(8)) + np.float32(0.5)
    check(model_of(nodes, x, {**weights, **channels, "v": variance}), [{"x": x}])


@pytest.mark.parametrize("name", ["p/shape", "p/chosen"])
def test_a_constant_beside_an_operator_of_an_old_opset(name: str) -> None:
    nodes = [
        helper.make_node("Hardmax", ["x"], ["p"], axis=1),
        helper.make_node("Mul", ["p", name], ["y"]),
    ]
    x = floats(2, 3, 4)
    check(model_of(nodes, x, {name: floats(4)}, opset=11), [{"x": x}])


@pytest.mark.parametrize("name", ["i/shape", "i/scalar"])
def test_a_value_in_the_body_of_a_loop_on_the_host(name: str) -> None:
    """The body's iteration number is a vector ``i``, which is made of a scalar."""
    model = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["": 17]>
      g (float[3] x, int64 n, bool c) => (float[3] y) {{
        y = Loop(n, c, x) <body = b (int64[1] i, bool d, float[3] s) => (bool e, float[3] t)
          <float[1] limit = {{100}}> {{
            v = Cast<to = 1>(i)  "{name}" = Neg(s)  u = Abs("{name}")  t = Add(v, u)
            z = ReduceMax<keepdims = 0>(t)  w = Squeeze(limit)  e = Less(z, w) }}> }}""")
    check(model, [{"x": floats(3), "n": np.array(4), "c": np.array(True)}])


def test_names_of_nodes_stay_where_nothing_collides() -> None:
    names = ["n", "a/MatMul", "/b/Conv"]
    values = ["m/1", "a/MatMul/ReadVariableOp:0", "/b/Conv_output_0"]
    nodes = [helper.make_node("Neg", ["x"], [v], n) for n, v in zip(names, values, strict=True)]
    graph = helper.make_graph(nodes, "test", [], [])
    separate_nodes(graph)
    assert [node.name for node in graph.node] == names


def test_nodes_get_numbers_where_names_collide() -> None:
    pairs = [("n", "n/1"), ("n", "a"), ("n_2", "b"), ("m", "n_1/c/d")]
    graph = helper.make_graph(
        [helper.make_node("Neg", ["x"], [value], name) for name, value in pairs], "test", [], []
    )
    separate_nodes(graph)
    assert [node.name for node in graph.node] == ["n_3", "n_4", "n_2", "m"]


def test_messages_have_the_users_name() -> None:
    """A node that is renamed because a weight begins with its name keeps its name in messages."""
    model = parsed("(float[2,3] x) => (float[A,B] y) {y = MatMul(x, w)}")
    model.graph.node[0].name, model.graph.node[0].input[1] = "fc1", "fc1/weight"
    model.graph.initializer.append(numpy_helper.from_array(np.ones((5, 4)), "fc1/weight"))
    assert refusal(model).startswith("'fc1' (MatMul) is not valid: ")


def test_the_users_name_begins_the_names_of_new_nodes() -> None:
    prepared = prepare(load(beside_lstm("n/2")))
    assert {node.name.partition("/")[0] for node in prepared.graph.node} <= {"n_1", "other", "z"}


def test_values_with_underscores() -> None:
    """The prefix of a value's new names is not that of another value."""
    nodes = [
        helper.make_node("Hardmax", ["x"], ["p"], axis=1),
        helper.make_node("Neg", ["x"], ["m"]),
        helper.make_node("Hardmax", ["m"], ["p_"], axis=1),
        helper.make_node("Add", ["p", "p_"], ["p/q"]),
        helper.make_node("Neg", ["p/q"], ["y"]),
    ]
    x = floats(2, 3, 4)
    check(model_of(nodes, x, {}, opset=7), [{"x": x}])
