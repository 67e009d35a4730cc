"""Small models that stand for graphs which no machine holds are refused, and soon."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from test_contradictions import parsed, refusal

import rammer_mlir
from rammer_mlir.frontends.onnx.limits import MOST_DIMENSIONS, MOST_NESTED_CALLS, MOST_NODES

OPSETS = [helper.make_opsetid("", 21), helper.make_opsetid("own", 1)]
TOO_MANY = f"expected at most {MOST_NODES} nodes once functions, loops and recurrent layers are"


def function(name: str, calls: Sequence[str]) -> onnx.FunctionProto:
    """Return a function that calls others, or operators, one after the other."""
    values = ["a", *(f"t{number}" for number in range(1, len(calls))), "b"]
    nodes = [
        helper.make_node(call, [x], [y], domain="own" if call.startswith("F") else "")
        for call, (x, y) in zip(calls, pairwise(values), strict=True)
    ]
    return helper.make_function("own", name, ["a"], ["b"], nodes, OPSETS)


def calling(name: str, functions: Sequence[onnx.FunctionProto]) -> onnx.ModelProto:
    """Return a model that calls a function."""
    x, y = (helper.make_tensor_value_info(v, TensorProto.FLOAT, [2]) for v in "xy")
    node = helper.make_node(name, ["x"], ["y"], domain="own", name="call")
    graph = helper.make_graph([node], "g", [x], [y])
    return helper.make_model(graph, opset_imports=OPSETS, functions=functions, ir_version=10)


def chain(length: int, calls: int) -> onnx.ModelProto:
    """Return a model of functions that each call the next one so often; the last negates."""
    names = [*(f"F{number}" for number in range(length)), "Neg"]
    functions = [function(a, [b] * calls) for a, b in pairwise(names)]
    return calling("F0", functions)


def nested_loops(depth: int, steps: int) -> onnx.ModelProto:
    """Return a model of loops within loops around one operator."""
    inner = "y = Tanh(x)"
    for level in reversed(range(depth)):
        inner = (
            f"y{level} = Loop(n, c, s{level}) <body: graph = b{level} (int64 i{level}, "
            f"bool d{level}, float[2] s{level + 1}) => (bool e{level}, float[2] y{level + 1}) "
            f"{{e{level} = Identity(d{level}) {inner}}}>"
        ).replace("y = Tanh(x)", f"y{depth} = Tanh(s{depth})")
    model = parsed(f"(float[2] s0) => (float[2] y0) {{{inner}}}", n=[steps])
    del model.graph.initializer[0].dims[:]
    model.graph.initializer.append(numpy_helper.from_array(np.array(True), "c"))
    return model


def recurrent(operator: str, steps: int) -> onnx.ModelProto:
    """Return a recurrent layer over so many steps."""
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[operator]
    model = parsed(
        f"(float[{steps},1,3] x, float[1,{2 * gates},3] w, float[1,{2 * gates},2] r) "
        f"=> (float[A,B,C,D] y) {{y = {operator}<hidden_size=2>(x, w, r)}}"
    )
    return model


@pytest.mark.parametrize(
    ("model", "part"),
    [
        (chain(24, 2), "'call' (F0): " + TOO_MANY),
        (chain(3, 1000), "'call' (F0): " + TOO_MANY),
        (nested_loops(4, 100), "'Loop:y0' (Loop), 100 steps: " + TOO_MANY),
        (nested_loops(1, 1 << 40), TOO_MANY),
        (recurrent("LSTM", 1 << 20), "'LSTM:y' (LSTM): " + TOO_MANY),
        (recurrent("GRU", 1 << 20), "'GRU:y' (GRU): " + TOO_MANY),
        (recurrent("RNN", 1 << 20), "'RNN:y' (RNN): " + TOO_MANY),
        (recurrent("RNN", 1 << 40), "'x': expected at most 2147483647 elements"),
    ],
    ids=["doubling", "wide", "loops", "steps", "LSTM", "GRU", "RNN", "elements"],
)
def test_what_grows_without_end_is_refused(model: onnx.ModelProto, part: str) -> None:
    begin = time.process_time()
    assert part in refusal(model)
    assert time.process_time() - begin < 20


def test_functions_that_call_themselves() -> None:
    """They are named, also where others stand in between."""
    text = "expected functions that do not call themselves, found "
    assert text + "'own::F0' -> 'own::F0'" in refusal(calling("F0", [function("F0", ["F0"])]))
    ring = [function("F0", ["F1"]), function("F1", ["F2"]), function("F2", ["Neg", "F0"])]
    assert text in refusal(calling("F0", ring))


def test_calls_within_calls() -> None:
    """Up to a depth that no program written by hand or by an exporter has."""
    text = f"expected at most {MOST_NESTED_CALLS} levels, found {MOST_NESTED_CALLS + 1}"
    assert text in refusal(chain(5000, 1))
    x = np.array([1, -2], np.float32)
    with rammer_mlir.compile(chain(MOST_NESTED_CALLS, 1), num_veus=1) as executable:
        assert np.array_equal(executable.run({"x": x})["y"], -x)


def test_small_nests_are_expanded() -> None:
    """The bounds are far from what models do."""
    x = np.array([0.5, -2], np.float32)
    expected = x
    for _ in range(27):
        expected = np.tanh(expected)
    with rammer_mlir.compile(nested_loops(3, 3), num_veus=1) as executable:
        np.testing.assert_allclose(executable.run({"s0": x})["y0"], expected, rtol=1e-5)


def ones(rank: int) -> str:
    return ",".join(["1"] * rank)


def test_dimensions_beyond_those_of_arrays() -> None:
    text = f"expected at most {MOST_DIMENSIONS} dimensions, found 100"
    graph = "(float[{0}] x) => (float[{0}] y) {{y = Transpose(x)}}"
    assert text in refusal(parsed(graph.format(ones(100))))
    inner = "(float[2] x) => (float[2] y) {z = Reshape(x, s) y = Reshape(z, t)}"
    assert text in refusal(parsed(inner, s=[2, *[1] * 99], t=[2]))
    with rammer_mlir.compile(parsed(graph.format(ones(MOST_DIMENSIONS))), num_veus=1) as built:
        x = np.full((1,) * MOST_DIMENSIONS, 3, np.float32)
        assert np.array_equal(built.run({"x": x})["y"], x)
