"""Softmax and the normalisations: numbers, and how many operations they become."""

from __future__ import annotations

import numpy as np
import pytest
from node_checks import check_node, floats, run_node


@pytest.mark.parametrize("operator", ["Softmax", "LogSoftmax", "Hardmax"])
@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("opset", [11, 21])
def test_softmax(operator: str, axis: int, opset: int) -> None:
    check_node(operator, [floats(3, 4, 5) * 10], axis=axis, opset=opset)


@pytest.mark.parametrize("operator", ["Softmax", "Hardmax"])
def test_older_softmax_of_no_elements(operator: str) -> None:
    """Its rows are flattened, and get the operand's shape back."""
    check_node(operator, [floats(3, 4, 0, 5)], axis=2, opset=12)


def test_softmax_is_two_reductions_and_two_elementwise_operations() -> None:
    text = check_node("Softmax", [floats(3, 4, 5)], axis=1)
    assert text.count("linalg.generic") == 4
    assert text.count('"reduction"') == 2


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
    """The variance is that of differences from the mean, or nothing would be left of it."""
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
    """ONNX's reference has no GroupNormalization of its own: the definition is written out."""
    x, scale, shift = floats(2, 4, 5, 3), floats(4, seed=1), floats(4, seed=2)
    found = run_node("GroupNormalization", [x, scale, shift], num_groups=groups)["out0"]
    rows = x.reshape(2, groups, -1)
    mean, variance = rows.mean(-1, keepdims=True), rows.var(-1, keepdims=True)
    normal = ((rows - mean) / np.sqrt(variance + 1e-5)).reshape(x.shape)
    expected = normal * scale[:, None, None] + shift[:, None, None]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
