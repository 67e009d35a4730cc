"""Tests that LSTM, GRU and RNN give ONNX Runtime's results.

They are imported as cells of elementary operators.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import rammer_mlir
from rammer_mlir.benchmarks.comparison import compare
from rammer_mlir.benchmarks.contenders.onnx_runtime import OnnxRuntime
from rammer_mlir.errors import ModelError
from rammer_mlir.frontends.onnx import recurrent_loops
from rammer_mlir.hosted_models.model import HostedModel

STEPS, BATCH, FEATURES, HIDDEN = 4, 2, 3, 5
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def recurrent(
    kind: str,
    direction: str = "forward",
    *,
    bias: bool = True,
    states: bool = False,
    peepholes: bool = False,
    **attributes: Any,
) -> onnx.ModelProto:
    """Return a model of one recurrent operator with random weights.

    Args:
        kind: "LSTM", "GRU" or "RNN".
        direction: "forward", "reverse" or "bidirectional".
        bias: whether the operator has a bias.
        states: whether the operator has initial states.
        peepholes: whether the operator has peephole weights.
        attributes: other attributes of the node.
    """
    generator = np.random.default_rng(7)
    directions = 2 if direction == "bidirectional" else 1
    rows = GATES[kind] * HIDDEN

    def weight(name: str, *shape: int) -> onnx.TensorProto:
        values = generator.standard_normal(shape).astype(np.float32) * 0.5
        return numpy_helper.from_array(values, name)

    weights = [weight("w", directions, rows, FEATURES), weight("r", directions, rows, HIDDEN)]
    names = ["x", "w", "r", "", "", "", "", ""]
    if bias:
        weights.append(weight("b", directions, 2 * rows))
        names[3] = "b"
    if states:
        weights.append(weight("h0", directions, BATCH, HIDDEN))
        names[5] = "h0"
    if states and kind == "LSTM":
        weights.append(weight("c0", directions, BATCH, HIDDEN))
        names[6] = "c0"
    if peepholes:
        weights.append(weight("p", directions, 3 * HIDDEN))
        names[7] = "p"
    while not names[-1]:
        names.pop()
    outputs = ["y", "yh", "yc"][: 3 if kind == "LSTM" else 2]
    node = helper.make_node(
        kind, names, outputs, "cells", hidden_size=HIDDEN, direction=direction, **attributes
    )
    graph = helper.make_graph(
        [node],
        "test",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [STEPS, BATCH, FEATURES])],
        [
            helper.make_tensor_value_info(
                name, TensorProto.FLOAT, ["s", "d", "n", "h"] if name == "y" else ["d", "n", "h"]
            )
            for name in outputs
        ],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)


def check(model: onnx.ModelProto) -> None:
    """Check that all outputs of a model equal ONNX Runtime's."""
    x = np.random.default_rng(1).standard_normal((STEPS, BATCH, FEATURES)).astype(np.float32)
    with rammer_mlir.compile(model, num_veus=2) as executable:
        comparison = compare(OnnxRuntime(model, 1).run({"x": x}), executable.run({"x": x}))
    assert comparison.ok, str(comparison)


LONG = [
    ("LSTM", "bidirectional", {"peepholes": True, "states": True, "clip": 0.4}),
    ("GRU", "bidirectional", {"activations": ["Sigmoid", "Tanh", "HardSigmoid", "Softsign"]}),
    ("GRU", "forward", {"linear_before_reset": 1, "states": True}),
    ("RNN", "reverse", {"bias": False}),
]


@pytest.mark.parametrize(("kind", "direction", "details"), LONG)
@pytest.mark.parametrize("lengths", [None, [50, 100]])
def test_long_layers_are_repeated(
    kind: str,
    direction: str,
    details: dict[str, Any],
    lengths: list[int] | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recurrent_loops, "MOST_NODES", 100)
    model = recurrent(kind, direction, **details)
    if lengths is not None:
        model = with_lengths(model, lengths, constant=False)
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 100
    feeds = {"x": np.random.default_rng(1).standard_normal((100, BATCH, FEATURES), np.float32)}
    feeds |= {value.name: np.array(lengths, np.int32) for value in model.graph.input[1:]}
    with rammer_mlir.compile(model) as executable:
        assert isinstance(executable, HostedModel)
        comparison = compare(OnnxRuntime(model, 1).run(feeds), executable.run(feeds))
    assert comparison.ok, str(comparison)


def test_a_long_layer_with_its_batch_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long layer with the batch first, run as a loop, equals the same layer unrolled.

    ONNX Runtime does not support this layout.
    """
    model = recurrent("LSTM", "bidirectional", states=True, layout=1)
    for tensor in model.graph.initializer:
        if tensor.name in ("h0", "c0"):
            value = numpy_helper.to_array(tensor).transpose(1, 0, 2)
            tensor.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(value), tensor.name))
    for dim, size in zip(model.graph.input[0].type.tensor_type.shape.dim, (2, 70, 3), strict=True):
        dim.dim_value = size
    feeds = {"x": np.random.default_rng(1).standard_normal((2, 70, FEATURES), np.float32)}
    with rammer_mlir.compile(model) as executable:
        cells = executable.run(feeds)
    monkeypatch.setattr(recurrent_loops, "MOST_NODES", 100)
    with rammer_mlir.compile(model) as executable:
        assert isinstance(executable, HostedModel)
        comparison = compare(cells, executable.run(feeds))
    assert comparison.ok, str(comparison)


@pytest.mark.parametrize(
    ("kind", "direction"),
    list(itertools.product(("LSTM", "GRU", "RNN"), ("forward", "reverse", "bidirectional"))),
)
def test_directions(kind: str, direction: str) -> None:
    check(recurrent(kind, direction, states=True))


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_without_bias_and_with_clip(kind: str) -> None:
    check(recurrent(kind, bias=False))
    if kind != "LSTM":  # ONNX Runtime does not clip the cell state; the specification does
        check(recurrent(kind, clip=0.4))


def test_peepholes() -> None:
    check(recurrent("LSTM", "bidirectional", peepholes=True, states=True))


def test_reset_after_the_recurrent_product() -> None:
    check(recurrent("GRU", "bidirectional", linear_before_reset=1, states=True))


def test_other_activations() -> None:
    check(recurrent("RNN", activations=["Relu"]))
    check(recurrent("LSTM", activations=["HardSigmoid", "Tanh", "Softsign"]))
    check(recurrent("GRU", activations=["sigmoid", "tanh"]))


@pytest.mark.parametrize(
    ("kind", "direction"),
    list(itertools.product(("LSTM", "GRU", "RNN"), ("forward", "reverse", "bidirectional"))),
)
@pytest.mark.parametrize("lengths", [[STEPS - 2, STEPS], [1, 2], [STEPS, STEPS]])
@pytest.mark.parametrize("constant", [True, False])
def test_sequences_shorter_than_the_input(
    kind: str, direction: str, lengths: list[int], constant: bool
) -> None:
    model = with_lengths(recurrent(kind, direction, states=True), lengths, constant=constant)
    x = np.random.default_rng(1).standard_normal((STEPS, BATCH, FEATURES)).astype(np.float32)
    feeds: dict[str, Any] = {"x": x}
    if not constant:
        feeds["lengths"] = np.array(lengths, np.int32)
    with rammer_mlir.compile(model, num_veus=2) as executable:
        comparison = compare(OnnxRuntime(model, 1).run(feeds), executable.run(feeds))
    assert comparison.ok, str(comparison)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize(("steps", "batch"), [(0, BATCH), (STEPS, 0)])
@pytest.mark.parametrize("layout", [0, 1])
def test_inputs_without_elements(kind: str, steps: int, batch: int, layout: int) -> None:
    """With no steps or an empty batch, the final states are the initial states."""
    model = recurrent(kind, "bidirectional", layout=layout)
    given = [batch, steps, FEATURES] if layout else [steps, batch, FEATURES]
    states = [batch, 2, HIDDEN] if layout else [2, batch, HIDDEN]
    del model.graph.input[:]
    for name, shape in (("x", given), ("h0", states)):
        model.graph.input.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
    model.graph.node[0].input.extend(["", "h0"])
    h0 = np.random.default_rng(0).standard_normal(states).astype(np.float32)
    with rammer_mlir.compile(model) as executable:
        found = executable.run({"x": np.zeros(given, np.float32), "h0": h0})
    assert list(found["y"].shape) == ([batch, steps, *states[1:]] if layout else [steps, *states])
    np.testing.assert_array_equal(found["yh"], h0)
    if kind == "LSTM":
        np.testing.assert_array_equal(found["yc"], np.zeros(states))


@pytest.mark.parametrize("lengths", [[STEPS + 1, 1], [-1, 1]])
def test_constant_lengths_that_do_not_fit_are_refused(lengths: list[int]) -> None:
    model = with_lengths(recurrent("LSTM"), lengths, constant=True)
    with pytest.raises(ModelError, match=rf"'cells' \(LSTM\): expected sequence_lens .* {STEPS}"):
        rammer_mlir.compile(model)


def with_lengths(model: onnx.ModelProto, lengths: list[int], *, constant: bool) -> onnx.ModelProto:
    """Add sequence lengths to a model of ``recurrent``, as a constant or as an input `lengths`."""
    graph = model.graph
    if constant:
        graph.initializer.append(numpy_helper.from_array(np.array(lengths, np.int32), "lengths"))
    else:
        graph.input.append(
            helper.make_tensor_value_info("lengths", TensorProto.INT32, [len(lengths)])
        )
    names = graph.node[0].input
    names.extend([""] * (5 - len(names)))
    names[4] = "lengths"
    return model
