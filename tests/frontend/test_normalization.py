"""Tests that softmax and normalizations are right, and imported as few operations."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest
from node_checks import check_node, floats, run_node
from onnx import numpy_helper

from rammer_mlir.frontends.onnx.load import load
from rammer_mlir.frontends.onnx.prepare import prepare


@pytest.mark.parametrize("operator", ["Softmax", "LogSoftmax", "Hardmax"])
@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("opset", [11, 21])
def test_softmax(operator: str, axis: int, opset: int) -> None:
    check_node(operator, [floats(3, 4, 5) * 10], axis=axis, opset=opset)


@pytest.mark.parametrize("operator", ["Softmax", "Hardmax"])
def test_older_softmax_of_no_elements(operator: str) -> None:
    """Softmax of older opsets, which flattens its operand, accepts an operand without elements."""
    check_node(operator, [floats(3, 4, 0, 5)], axis=2, opset=12)


def test_softmax_is_two_reductions_and_three_elementwise_operations() -> None:
    """Softmax is imported as two reductions and three elementwise operations.

    One of the latter is a division for each row.
    """
    text = check_node("Softmax", [floats(3, 4, 5)], axis=1)
    assert text.count("linalg.generic") == 5
    assert text.count('"reduction"') == 2


@pytest.mark.parametrize("operator", ["Softmax", "LogSoftmax"])
@pytest.mark.parametrize("size", [5, 40])
def test_softmax_of_nan_and_infinities(operator: str, size: int) -> None:
    """A row with NaN or positive infinity gives NaN; other rows are not affected."""
    x = floats(4, size)
    x[0, 3], x[1, 0], x[2, :3] = np.nan, np.inf, -np.inf
    found = run_node(operator, [x])["out0"]
    assert np.isnan(found[:2]).all()
    exact = x[2:].astype(np.float64) - x[2:].max(axis=1, keepdims=True)
    exact -= np.log(np.exp(exact).sum(axis=1, keepdims=True))
    expected = exact if operator == "LogSoftmax" else np.exp(exact)
    np.testing.assert_allclose(found[2:], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("operator", ["Softmax", "LogSoftmax"])
def test_softmax_does_not_overflow(operator: str) -> None:
    x = np.array([[1e4, -1e4, 0, 80], [3e38, 0, -3e38, 1]], np.float32)
    found = run_node(operator, [x])["out0"]
    assert not np.isnan(found).any()
    top = np.array([[1, 0, 0, 0], [1, 0, 0, 0]], np.float32)
    np.testing.assert_array_equal(np.exp(found) if operator == "LogSoftmax" else found, top)


@pytest.mark.parametrize("axis", [1, -1, -2])
@pytest.mark.parametrize("shift", [False, True])
def test_layer_normalization(axis: int, shift: bool) -> None:
    shape = (3, 4, 5)[axis:]
    inputs = [floats(3, 4, 5) * 3 + 2, floats(*shape, seed=1)]
    if shift:
        inputs.append(floats(*shape, seed=2))
    check_node("LayerNormalization", inputs, outputs=3, axis=axis, epsilon=1e-3)


def test_layer_normalization_of_a_large_mean() -> None:
    """Layer normalization is accurate for a large mean.

    The variance is computed from differences from the mean, so that no cancellation occurs.
    """
    check_node("LayerNormalization", [floats(2, 64) + 5000, floats(64)], tolerance=1e-2)


@pytest.mark.parametrize("axis", [-1, -2])
def test_rms_normalization(axis: int) -> None:
    inputs = [floats(3, 4, 5), floats(*(4, 5)[axis:], seed=1)]
    check_node("RMSNormalization", inputs, opset=23, axis=axis)


@pytest.mark.parametrize("space", [(5,), (5, 6), (2, 3, 4)])
def test_instance_normalization(space: tuple[int, ...]) -> None:
    check_node("InstanceNormalization", [floats(2, 4, *space), floats(4), floats(4, seed=1)])


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_group_normalization(groups: int) -> None:
    """GroupNormalization equals its definition in NumPy, since ONNX's reference lacks it."""
    x, scale, shift = floats(2, 4, 5, 3), floats(4, seed=1), floats(4, seed=2)
    found = run_node("GroupNormalization", [x, scale, shift], num_groups=groups)["out0"]
    rows = x.reshape(2, groups, -1)
    mean, variance = rows.mean(-1, keepdims=True), rows.var(-1, keepdims=True)
    normal = ((rows - mean) / np.sqrt(variance + 1e-5)).reshape(x.shape)
    expected = normal * scale[:, None, None] + shift[:, None, None]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_mean_and_variance(dtype: type[np.generic]) -> None:
    """MeanVarianceNormalization works for all float types; ONNX defines it for f32 only."""
    x = (floats(2, 3, 4, 5) * 3 + 2).astype(dtype)
    (found,) = run_node("MeanVarianceNormalization", [x], axes=[0, -1]).values()
    wide = x.astype(np.float64)
    mean, deviation = (f(wide, axis=(0, 3), keepdims=True) for f in (np.mean, np.std))
    assert found.dtype == dtype
    np.testing.assert_allclose(found, (wide - mean) / deviation, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("shape", [(1, 4, 9), (3, 4, 5, 2), (6, 4)])
@pytest.mark.parametrize("opset", [14, 21])
def test_batch_normalization_by_its_own_statistics(shape: tuple[int, ...], opset: int) -> None:
    """BatchNormalization in training mode, by the batch's own statistics, is right.

    Models use it for weight standardization, with each filter as a channel.
    """
    statistics = [floats(4, seed=seed) for seed in (1, 2, 3)] + [abs(floats(4, seed=4))]
    check_node(
        "BatchNormalization",
        [floats(*shape) * 3 + 2, *statistics],
        outputs=3,
        opset=opset,
        training_mode=1,
        epsilon=1e-3,
        momentum=0.7,
    )


def test_standardized_weights_are_constants() -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17]> g (float[1,2,5,5] x) => (float[1,2,4,4] y)
        <int64[3] flat={1, 2, 8}, int64[4] square={2, 2, 2, 2}, float[2] s={1, 2}>
        { row = Reshape(w, flat)
          norm, m, v = BatchNormalization<training_mode=1>(row, s, s, s, s)
          filters = Reshape(norm, square)
          y = Conv(x, filters) }"""
    )
    model.graph.initializer.append(numpy_helper.from_array(floats(2, 2, 2, 2), "w"))
    assert [node.op_type for node in prepare(load(model)).graph.node] == ["Conv"]


def test_a_batch_norm_of_f16_with_statistics_of_f32() -> None:
    parameters = [floats(3, seed=n) for n in range(4)]
    parameters[3] = np.abs(parameters[3])
    x = floats(2, 3, 4).astype(np.float16)
    check_node("BatchNormalization", [x, *parameters], constants=range(1, 5), opset=15)


@pytest.mark.parametrize("p", [1, 2])
def test_a_norm_beyond_16_bits(p: int) -> None:
    """The norm of the rows exceeds the largest f16, the quotients do not."""
    x = (2000 * floats(4, 4096)).astype(np.float16)
    found = run_node("LpNormalization", [x], p=p)["out0"]
    wide = x.astype(np.float64)
    norm = np.linalg.norm(wide, p, axis=-1, keepdims=True)
    np.testing.assert_allclose(found, wide / norm, rtol=2e-3, atol=1e-6)
