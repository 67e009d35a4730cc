"""Tests that stacked recurrent layers overlap, and give right results.

A layer computes a time step while the layer below computes later time steps.
"""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import rammer_mlir
from rammer_mlir.benchmarks.comparison import compare
from rammer_mlir.benchmarks.contenders.onnx_runtime import OnnxRuntime
from rammer_mlir.compiler.compilation import Compilation
from rammer_mlir.compiler.options import check_options
from rammer_mlir.scheduling.dependencies import Dependencies

STEPS, HIDDEN, LAYERS = 48, 8, 3


def stack(directions: list[str], kind: str = "LSTM") -> onnx.ModelProto:
    """Return a model of stacked recurrent layers of the operator ``kind``, with random weights.

    ``directions`` has each layer's attribute ``direction``, such as "reverse".
    """
    generator = np.random.default_rng(3)
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind] * HIDDEN
    nodes: list[onnx.NodeProto] = []
    weights = [numpy_helper.from_array(np.array([STEPS, 1, -1]), "shape")]
    value, features = "x", HIDDEN
    for layer, direction in enumerate(directions):
        count = 2 if direction == "bidirectional" else 1
        for name, size in (("w", features), ("r", HIDDEN)):
            data = 0.5 * generator.standard_normal((count, gates, size))
            weights.append(numpy_helper.from_array(data.astype(np.float32), f"{name}{layer}"))
        nodes.append(
            helper.make_node(
                kind, [value, f"w{layer}", f"r{layer}"], [f"steps{layer}"], f"layer{layer}",
                hidden_size=HIDDEN, direction=direction,
            )
        )  # fmt: skip
        value, features = f"out{layer}", count * HIDDEN
        if count == 2:
            nodes.append(
                helper.make_node("Transpose", [f"steps{layer}"], [f"t{layer}"], perm=[0, 2, 1, 3])
            )
        source = f"t{layer}" if count == 2 else f"steps{layer}"
        nodes.append(helper.make_node("Reshape", [source, "shape"], [value]))
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "stack",
        [info("x", TensorProto.FLOAT, [STEPS, 1, HIDDEN])],
        [info(value, TensorProto.FLOAT, [STEPS, 1, features])],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)


@pytest.mark.parametrize(
    ("kind", "directions", "policy"),
    [
        ("LSTM", ["forward"] * LAYERS, "wavefront"),
        ("LSTM", ["forward"] * LAYERS, "list"),
        ("GRU", ["reverse"] * 2, "wavefront"),
        ("RNN", ["forward", "reverse", "reverse"], "list"),
        ("LSTM", ["bidirectional", "forward"], "wavefront"),
    ],
)
def test_layers_side_by_side_give_the_same(kind: str, directions: list[str], policy: str) -> None:
    model = stack(directions, kind)
    x = np.random.default_rng(1).standard_normal((STEPS, 1, HIDDEN)).astype(np.float32)
    with rammer_mlir.compile(model, policy=policy, num_veus=6) as executable:
        comparison = compare(OnnxRuntime(model, 1).run({"x": x}), executable.run({"x": x}))
    assert comparison.ok, str(comparison)


def depth(model: onnx.ModelProto, num_veus: int = 16) -> int:
    """Return the number of rOperators on the longest path of dependencies of a compiled model."""
    options = check_options("cpu", policy="wavefront", num_veus=num_veus)
    graph = Compilation.of_model(model, options).task_graph()
    dependencies = Dependencies(graph)
    depths: list[int] = []
    for number in range(len(graph.operators)):
        sources = dependencies.producers(number)
        depths.append(1 + max((depths[source] for source in sources), default=0))
    return max(depths)


def test_layers_follow_each_other_some_steps_behind() -> None:
    one, three = depth(stack(["forward"])), depth(stack(["forward"] * LAYERS))
    assert one >= STEPS
    assert three < 2.2 * one  # a layer starts half a sequence after the one below
    assert depth(stack(["forward", "reverse"])) >= 2 * one - 1


def test_few_veus_run_layers_one_after_the_other() -> None:
    model = stack(["forward"] * LAYERS)
    assert depth(model, num_veus=2) > 1.2 * depth(model)
