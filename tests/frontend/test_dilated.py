"""Tests that dilated convolutions do not multiply taps that are always in the padding.

A tap is a position in the kernel.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

import rammer_mlir
from rammer_mlir.frontends.onnx.dilated import Axis, Segment, decompose_dilated
from rammer_mlir.frontends.onnx.model import separate_weights
from rammer_mlir.frontends.onnx.tensor_data import TensorData

Array = NDArray[Any]


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize(
    ("size", "dilation", "low"), [(8, 6, 6), (8, 12, 12), (9, 4, 3), (5, 2, 2)]
)
def test_segments_hold_each_result_once_with_the_taps_it_meets(
    size: int, dilation: int, low: int, stride: int
) -> None:
    out = (size + 2 * low - 2 * dilation - 1) // stride + 1
    axis = Axis(size, out, 3, stride, dilation, low)
    met = {
        (result, tap)
        for segment in axis.segments()
        for result in range(segment.begin, segment.end)
        for tap in range(segment.first, segment.last)
    }
    assert met == {
        (result, tap)
        for result in range(out)
        for tap in range(3)
        if 0 <= axis.position(result, tap) < size
    }


def test_results_of_padding_alone_stay_with_their_taps() -> None:
    assert Axis(3, 9, 1, 1, 1, 3).options() == [[Segment(0, 9, 0, 1)]]


def _run(model: onnx.ModelProto, x: Array) -> Array:
    with rammer_mlir.compile(model, num_veus=2, cache=False) as executable:
        return executable.run({"x": x})["y"]


def _expected(model: onnx.ModelProto, x: Array) -> Array:
    session = onnxruntime.InferenceSession(model.SerializeToString())
    return np.asarray(session.run(None, {"x": x})[0])


def _model(
    channels: int, filters: int, size: int, stride: int, **attributes: Any
) -> tuple[onnx.ModelProto, Array]:
    rng = np.random.default_rng(size)
    weight = rng.standard_normal((filters, channels, 3, 3)).astype(np.float32)
    bias = rng.standard_normal(filters).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], strides=[stride] * 2, **attributes),
        helper.make_node("Relu", ["c"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, channels, size, size])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(weight, "w"), numpy_helper.from_array(bias, "b")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return model, rng.standard_normal((1, channels, size, size)).astype(np.float32)


@pytest.mark.parametrize(
    ("size", "stride", "attributes"),
    [
        (8, 1, {"dilations": [12, 12], "pads": [12] * 4}),
        (20, 1, {"dilations": [14, 14], "pads": [14] * 4}),
        (20, 1, {"dilations": [15, 2], "pads": [15, 2, 15, 2]}),
        (24, 1, {"dilations": [9, 9], "pads": [9, 0, 3, 12]}),
        (12, 1, {"dilations": [2, 2], "pads": [2] * 4}),
    ],
)
def test_numbers(size: int, stride: int, attributes: dict[str, object]) -> None:
    model, x = _model(40, 64, size, stride, **attributes)
    np.testing.assert_allclose(_run(model, x), _expected(model, x), rtol=0, atol=1e-4)


@pytest.mark.parametrize(("mode", "low"), [("SAME_UPPER", 11), ("SAME_LOWER", 12)])
def test_automatic_padding(mode: str, low: int) -> None:
    pads = [low, low, 23 - low, 23 - low]
    model, x = _model(40, 64, 20, 2, dilations=[12, 12], auto_pad=mode)
    explicit, _ = _model(40, 64, 20, 2, dilations=[12, 12], pads=pads)
    np.testing.assert_allclose(_run(model, x), _expected(explicit, x), rtol=0, atol=1e-4)


@pytest.mark.parametrize(
    ("size", "dilation", "parts", "taps"),
    [(8, 12, 1, (1, 1)), (8, 2, 1, (3, 3)), (32, 1, 1, (3, 3)), (32, 24, 9, (2, 2))],
)
def test_taps_that_meet_padding_alone_are_cut_off(
    size: int, dilation: int, parts: int, taps: tuple[int, int]
) -> None:
    proto, _ = _model(256, 64, size, 1, dilations=[dilation] * 2, pads=[dilation] * 4)
    del proto.graph.node[1]
    proto.graph.output[0].CopyFrom(
        helper.make_tensor_value_info("c", TensorProto.FLOAT, [1, 64, size, size])
    )
    model = separate_weights(proto, "m", TensorData("m", ()))
    kernel = model.weights["w"]
    decompose_dilated(model)
    convolutions = [node for node in model.graph.node if node.op_type == "Conv"]
    assert len(convolutions) == parts
    cut = model.constants()[convolutions[0].input[1]]
    assert cut.shape == (*kernel.shape[:2], *taps)
