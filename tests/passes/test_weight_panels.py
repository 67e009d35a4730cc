"""Tests that products and convolutions are right if no panel divides their output channels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import helper, numpy_helper

import rammer_mlir
from rammer_mlir.passes.ir.boxes import PANEL_WIDTHS, WIDEST_PANEL
from rammer_mlir.passes.tiling.choice import CONTIGUOUS_MINIMUM
from rammer_mlir.runtime.executable import Executable

Array = NDArray[Any]


def _random(shape: Sequence[int], kind: str = "float32") -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(tuple(shape)).astype(kind)


def _model(
    nodes: Sequence[onnx.NodeProto], x: Array, weights: Mapping[str, Array]
) -> onnx.ModelProto:
    """Return a model of given nodes with input ``x``, output ``y`` and constant weights."""
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", kind, x.shape)],
        [helper.make_tensor_value_info("y", kind, None)],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def _run(model: onnx.ModelProto, x: Array, veus: int = 2) -> Array:
    with rammer_mlir.compile(model, num_veus=veus, cache=False) as executable:
        return executable.run({"x": x})["y"]


def _close(found: Array, expected: Array) -> None:
    tolerance = 1e-12 if found.dtype == np.float64 else 1e-5
    scale = np.abs(expected).max()
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * scale)


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize(
    ("rows", "depth", "width"),
    [(1, 70, 33), (5, 64, 94), (16, 31, 1001), (29, 900, 131), (200, 48, 75), (40, 120, 2049)],
)
def test_products_with_bias_and_maximum(rows: int, depth: int, width: int, kind: str) -> None:
    x, weight, bias = (_random(s, kind) for s in ((rows, depth), (width, depth), (width,)))
    nodes = [
        helper.make_node("Gemm", ["x", "w", "b"], ["p"], transB=1),
        helper.make_node("Relu", ["p"], ["y"]),
    ]
    found = _run(_model(nodes, x, {"w": weight, "b": bias}), x)
    exact = x.astype(np.float64) @ weight.T.astype(np.float64) + bias
    _close(found, np.maximum(exact, 0))


@pytest.mark.parametrize("width", [37, 64])
def test_batched_weights(width: int) -> None:
    x, weight = _random((3, 9, 50)), _random((3, 50, width))
    found = _run(_model([helper.make_node("MatMul", ["x", "w"], ["y"])], x, {"w": weight}), x)
    _close(found, x.astype(np.float64) @ weight.astype(np.float64))


def test_half_precision() -> None:
    x, weight = _random((7, 40), "float16"), _random((40, 45), "float16")
    found = _run(_model([helper.make_node("MatMul", ["x", "w"], ["y"])], x, {"w": weight}), x)
    exact = x.astype(np.float64) @ weight.astype(np.float64)
    np.testing.assert_allclose(found.astype(np.float64), exact, rtol=2e-3, atol=2e-2)


def test_integers() -> None:
    rng = np.random.default_rng(0)
    x, weight = (rng.integers(0, 255, shape).astype(np.uint8) for shape in ((9, 40), (40, 67)))
    nodes = [
        helper.make_node("MatMulInteger", ["x", "w"], ["p"]),
        helper.make_node("Cast", ["p"], ["y"], to=onnx.TensorProto.FLOAT),
    ]
    model = _model(nodes, x, {"w": weight})
    model.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    np.testing.assert_array_equal(_run(model, x), x.astype(np.float64) @ weight.astype(np.float64))


def test_rows_are_normalised_in_the_same_operator() -> None:
    x, weight = _random((6, 40)), _random((40, 99))
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("Softmax", ["p"], ["y"], axis=-1),
    ]
    powers = np.exp(x.astype(np.float64) @ weight.astype(np.float64))
    found = _run(_model(nodes, x, {"w": weight}), x)
    _close(found, powers / powers.sum(axis=-1, keepdims=True))


def _convolved(x: Array, weight: Array, group: int, stride: int, pad: int) -> Array:
    """Return the reference: a convolution of one image, computed in float64 tap by tap."""
    padded = np.pad(x[0].astype(np.float64), ((0, 0), (pad, pad), (pad, pad)))
    filters, channels, taps, _ = weight.shape
    size = (padded.shape[1] - taps) // stride + 1
    total = np.zeros((group, filters // group, size, size))
    kernels = weight.astype(np.float64).reshape(group, filters // group, channels, taps, taps)
    for row in range(taps):
        for column in range(taps):
            window = padded[:, row:, column:][:, ::stride, ::stride][:, :size, :size]
            parts = window.reshape(group, channels, size, size)
            total += np.einsum("gfc,gchw->gfhw", kernels[..., row, column], parts)
    return total.reshape(1, filters, size, size)


@pytest.mark.parametrize(
    ("channels", "filters", "taps", "stride", "group", "size"),
    [
        (16, 33, 3, 1, 1, 14),
        (20, 94, 3, 2, 1, 15),
        (64, 47, 1, 1, 1, 28),
        (8, 70, 3, 1, 2, 9),
        (3, 35, 7, 2, 1, 30),
        (96, 200, 1, 1, 1, 7),
    ],
)
def test_convolutions(
    channels: int, filters: int, taps: int, stride: int, group: int, size: int
) -> None:
    x = _random((1, channels, size, size))
    weight = _random((filters, channels // group, taps, taps))
    node = helper.make_node(
        "Conv", ["x", "w"], ["y"], strides=[stride] * 2, group=group, pads=[taps // 2] * 4
    )
    found = _run(_model([node], x, {"w": weight}), x)
    _close(found, _convolved(x, weight, group, stride, taps // 2))


def test_weights_grow_by_less_than_a_panel_and_are_packed_once() -> None:
    x, weight = _random((4, 64)), _random((64, 33))
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("Transpose", ["w"], ["t"], perm=[1, 0]),
        helper.make_node("MatMul", ["p", "t"], ["q"]),
        helper.make_node("MatMul", ["q", "w"], ["r"]),
        helper.make_node("Sum", ["p", "r"], ["y"]),
    ]
    model = _model(nodes, x, {"w": weight})
    with rammer_mlir.compile(model, num_veus=1, cache=False) as executable:
        wide, kernel = x.astype(np.float64), weight.astype(np.float64)
        first = wide @ kernel
        _close(executable.run({"x": x})["y"], first + first @ kernel.T @ kernel)
        assert isinstance(executable, Executable)
        constants = executable.image.constants.nbytes
    panels = 4 * 64 * 2 * 32
    transposed = 4 * 33 * 2 * 32
    assert constants <= panels + transposed + 1024


def test_tiles_along_contiguous_memory_are_whole_panels() -> None:
    assert CONTIGUOUS_MINIMUM % WIDEST_PANEL == 0
    assert all(WIDEST_PANEL % width == 0 for width in PANEL_WIDTHS)


@pytest.mark.parametrize("rows", [1, 8])
@pytest.mark.parametrize("boundary", ["parallelism", "inputs=0"])
def test_a_bias_that_is_also_gathered(rows: int, boundary: str) -> None:
    """A tensor that a fused body indexes keeps its dimensions where its loop is split."""
    x, weight, bias = (_random(s) for s in ((rows, 48), (48, 64), (64,)))
    places = np.random.default_rng(rows).integers(0, 64, 64)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("Add", ["p", "b"], ["q"]),
        helper.make_node("Gather", ["b", "i"], ["g"]),
        helper.make_node("Mul", ["q", "g"], ["y"]),
    ]
    model = _model(nodes, x, {"w": weight})
    model.graph.input.extend(
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(each.dtype), [64])
        for name, each in (("b", bias), ("i", places))
    )
    with rammer_mlir.compile(model, boundary=boundary, cache=False) as executable:
        found = executable.run({"x": x, "b": bias, "i": places})["y"]
    _close(found, (x @ weight + bias) * bias[places])
