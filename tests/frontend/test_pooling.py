"""Tests that pooling is right if windows extend into the padding, or if elements are NaN."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from node_checks import check_node, floats, run_node

WINDOWS = [
    {"kernel_shape": [1], "strides": [2]},
    {"kernel_shape": [3], "strides": [3], "pads": [1, 2]},
    {"kernel_shape": [2], "strides": [3], "pads": [1, 1]},
    {"kernel_shape": [3], "strides": [2], "pads": [0, 1]},
]


@pytest.mark.parametrize("operator", ["MaxPool", "AveragePool", "LpPool"])
@pytest.mark.parametrize("opset", [18, 22])
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("size", [8, 9])
def test_windows_behind_the_data_are_left_out(
    operator: str, opset: int, window: dict[str, Any], size: int
) -> None:
    check_node(operator, [floats(1, 2, size)], opset=opset, ceil_mode=1, **window)


@pytest.mark.parametrize("operator", ["MaxPool", "AveragePool", "LpPool"])
@pytest.mark.parametrize("opset", [18, 22])
@pytest.mark.parametrize(
    "window",
    [
        {"kernel_shape": [3], "strides": [2]},
        {"kernel_shape": [4], "strides": [2], "pads": [1, 0], "auto_pad": "NOTSET"},
        {"kernel_shape": [4], "strides": [3], "auto_pad": "VALID"},
    ],
)
def test_data_smaller_than_a_window_has_no_window(
    operator: str, opset: int, window: dict[str, Any]
) -> None:
    check_node(operator, [floats(1, 2, 1)], opset=opset, ceil_mode=1, **window)


@pytest.mark.parametrize("operator", ["MaxPool", "AveragePool", "LpPool"])
@pytest.mark.parametrize("padding", ["VALID", "NOTSET"])
@pytest.mark.parametrize(("kernel", "stride"), [(4, 1), (9, 2), (9, 1)])
def test_data_much_smaller_than_a_window_has_no_window(
    operator: str, padding: str, kernel: int, stride: int
) -> None:
    """Pooling of data much smaller than the window has a result without elements.

    ONNX's shape inference computes a negative size, and would end the process.
    """
    window = {"kernel_shape": [kernel], "strides": [stride], "auto_pad": padding}
    found = run_node(operator, [floats(1, 2, 1)], opset=22, ceil_mode=1, **window)
    assert [value.shape for value in found.values()] == [(1, 2, 0)]


@pytest.mark.parametrize("operator", ["MaxPool", "AveragePool", "LpPool"])
@pytest.mark.parametrize("padding", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize("kernel", [1, 2, 3])
@pytest.mark.parametrize("size", [4, 5, 7])
def test_windows_of_same_padding_are_the_size_over_the_stride(
    operator: str, padding: str, kernel: int, size: int
) -> None:
    """With same padding, the number of windows is the size divided by the stride, rounded up.

    ONNX's shape inference counts one more window if the stride exceeds the window.
    """
    window = {"kernel_shape": [kernel], "strides": [2], "auto_pad": padding}
    found = run_node(operator, [floats(1, 2, size)], opset=22, ceil_mode=1, **window)
    rounded_down = run_node(operator, [floats(1, 2, size)], opset=22, **window)
    for one, other in zip(found.values(), rounded_down.values(), strict=True):
        assert one.shape == (1, 2, -(-size // 2))
        np.testing.assert_array_equal(one, other)


def test_positions_in_data_smaller_than_a_window_are_empty() -> None:
    check_node("MaxPool", [floats(1, 2, 1)], outputs=2, kernel_shape=[3], strides=[2], ceil_mode=1)


@pytest.mark.parametrize("window", WINDOWS)
def test_averages_with_the_border_count_it_only_as_far_as_it_is_given(
    window: dict[str, Any],
) -> None:
    details = {"opset": 19, "ceil_mode": 1, "count_include_pad": 1}
    check_node("AveragePool", [floats(1, 2, 10)], **details, **window)


def test_positions_are_those_of_the_data_where_the_border_is_as_small() -> None:
    x = np.random.default_rng(0).integers(0, 2, (2, 3, 5, 4)).astype(np.uint8)
    check_node("MaxPool", [x], outputs=2, kernel_shape=[2, 3], strides=[2, 2], pads=[1, 2, 0, 1])


@pytest.mark.parametrize("by_column", [0, 1])
def test_max_pool_gives_the_position_of_a_nan(by_column: int) -> None:
    """MaxPool of a window with a NaN gives NaN, as in PyTorch, and the position of the NaN.

    ONNX Runtime skips NaN.
    """
    image = floats(1, 1, 4, 6)
    image[0, 0, 1, 4] = np.nan
    found = run_node(
        "MaxPool", [image], outputs=2, kernel_shape=[2, 3], strides=[2, 3], storage_order=by_column
    )
    assert np.isnan(found["out0"][0, 0, 0, 1]) and np.isnan(found["out0"]).sum() == 1
    assert found["out1"][0, 0, 0, 1] == (4 * 4 + 1 if by_column else 1 * 6 + 4)


@pytest.mark.parametrize("include", [0, 1])
def test_averages_whose_counts_differ_along_two_axes(include: int) -> None:
    check_node(
        "AveragePool",
        [floats(1, 3, 6, 7, 5)],
        kernel_shape=[3, 4, 2],
        strides=[2, 1, 1],
        pads=[1, 2, 0, 1, 1, 0],
        count_include_pad=include,
    )


def test_squares_of_16_bits_do_not_overflow() -> None:
    """The sum of squares of LRN exceeds the largest f16."""
    x = np.array([300, 200, 100, 1, 1], np.float16).reshape(1, 5, 1, 1)
    check_node("LRN", [x], size=3, alpha=1e-4, tolerance=1e-3)
