"""Tests that convolutions and transposed convolutions give ONNX Runtime's results."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from node_checks import check_node, floats, run_node

from rammer_mlir.compiler.compilation import Compilation
from rammer_mlir.compiler.options import check_options


@pytest.mark.parametrize(
    ("data", "filters", "attributes"),
    [
        ((1, 3, 8, 9), (4, 3, 3, 3), {"pads": [1, 1, 1, 1], "strides": [2, 1]}),
        ((1, 3, 8, 9), (4, 3, 1, 1), {"strides": [2, 2]}),
        ((2, 3, 5, 5), (4, 3, 5, 5), {}),
        ((2, 4, 9), (6, 2, 3), {"group": 2, "dilations": [2]}),
        ((1, 4, 7, 8), (4, 1, 3, 3), {"group": 4, "auto_pad": "SAME_UPPER"}),
        ((1, 4, 7, 8), (4, 1, 2, 2), {"group": 4, "auto_pad": "SAME_LOWER"}),
        ((1, 4, 7, 8), (8, 1, 3, 3), {"group": 4, "pads": [0, 1, 2, 3]}),
        ((1, 4, 5, 5, 5), (2, 4, 2, 2, 2), {"auto_pad": "VALID"}),
        ((1, 1, 5), (1, 1, 1), {}),
    ],
)
@pytest.mark.parametrize("bias", [False, True])
def test_conv(
    data: tuple[int, ...], filters: tuple[int, ...], attributes: dict[str, Any], bias: bool
) -> None:
    inputs = [floats(*data), floats(*filters, seed=1)]
    if bias:
        inputs.append(floats(filters[0], seed=2))
    check_node("Conv", inputs, **attributes)


def test_depthwise_loops_have_no_dimension_of_one_channel() -> None:
    text = check_node("Conv", [floats(1, 4, 6, 6), floats(4, 1, 3, 3)], group=4)
    assert text.count('"reduction"') == 2
    assert "tensor<4x3x3xf32>" in text


@pytest.mark.parametrize("batch", [1, 2])
def test_what_follows_a_grouped_convolution_is_computed_with_it(batch: int) -> None:
    model = onnx.parser.parse_model(f"""
        <ir_version: 9, opset_import: ["" : 17]>
        m (float[{batch}, 8, 6, 6] x, float[{batch}, 12, 6, 6] z, float[12, 4, 3, 3] w, float[12] b)
            => (float[{batch}, 12, 6, 6] y) {{
            c = Conv <group = 2, pads = [1, 1, 1, 1]> (x, w, b)
            s = Add (c, z)
            y = Relu (s)
        }}""")
    text = Compilation.of_model(model, check_options("cpu", policy="wavefront", num_veus=1)).emit(
        "operators"
    )
    assert text.count(b"func.func private @conv") == 1
    assert b"@elementwise" not in text


def test_conv_in_half_precision() -> None:
    inputs = [floats(1, 8, 6, 6).astype(np.float16), floats(4, 8, 3, 3).astype(np.float16)]
    check_node("Conv", inputs, tolerance=5e-2)


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"strides": [2, 3]},
        {"strides": [3, 2], "pads": [1, 2, 1, 0]},
        {"strides": [2, 2], "dilations": [2, 1]},
        {"strides": [3, 3], "dilations": [3, 2]},
        {"strides": [2, 2], "output_padding": [1, 1]},
        {"strides": [4, 5]},
        {"strides": [2, 2], "auto_pad": "SAME_UPPER"},
        {"strides": [2, 2], "auto_pad": "SAME_LOWER"},
        {"strides": [3, 2], "output_shape": [14, 13]},
    ],
)
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_conv_transpose(attributes: dict[str, Any], groups: int) -> None:
    inputs = [floats(1, 4, 5, 6), floats(4, 2, 3, 3, seed=1), floats(2 * groups, seed=2)]
    check_node("ConvTranspose", inputs, group=groups, **attributes)


@pytest.mark.parametrize(
    ("kernel", "stride", "outputs"), [(1, 3, 9), (1, 3, 8), (1, 2, 6), (2, 3, 10), (3, 2, 6)]
)
@pytest.mark.parametrize("mode", ["NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"])
def test_outputs_that_nothing_reaches_are_the_last_ones(
    kernel: int, stride: int, outputs: int, mode: str
) -> None:
    inputs = [floats(1, 1, 3), floats(1, 2, kernel, seed=1), floats(2, seed=2)]
    check_node("ConvTranspose", inputs, strides=[stride], output_shape=[outputs], auto_pad=mode)


def test_conv_transpose_in_one_and_three_dimensions() -> None:
    check_node("ConvTranspose", [floats(2, 3, 7), floats(3, 2, 4)], strides=[2])
    check_node("ConvTranspose", [floats(1, 2, 3, 3, 3), floats(2, 2, 2, 3, 2)], strides=[1, 2, 3])


def test_conv_transpose_multiplies_no_stuffed_zeros() -> None:
    """A transposed convolution of a 4x4 kernel with stride 2 is imported as four convolutions.

    Each has a 2x2 kernel, so that no inserted zeros are multiplied.
    """
    text = check_node("ConvTranspose", [floats(1, 3, 5, 5), floats(3, 2, 4, 4)], strides=[2, 2])
    assert len(_products(text)) == 4
    assert text.count("tensor<2x3x2x2xf32>") >= 4


def _products(text: str) -> list[str]:
    """Return the lines of the IR that have a reduction loop: the lines of matrix products."""
    return [line for line in text.splitlines() if "linalg.generic" in line and "reduc" in line]


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"strides": [2, 2]},
        {"strides": [3, 2], "pads": [1, 0, 2, 1]},
        {"strides": [2, 3], "dilations": [2, 1]},
        {"strides": [4, 4]},  # phases without taps
        {"strides": [2, 2], "output_padding": [1, 0]},
        {"strides": [2, 2], "output_shape": [9, 11]},
        {"strides": [2, 1], "auto_pad": "SAME_UPPER"},
        {"pads": [2, 2, 2, 2], "dilations": [2, 2]},
    ],
)
@pytest.mark.parametrize("constants", [(), (1, 2)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_few_output_channels_multiply_all_taps_at_once(
    attributes: dict[str, Any], constants: tuple[int, ...], dtype: str
) -> None:
    inputs = [floats(2, 32, 4, 5), floats(32, 3, 3, 2, seed=1), floats(3, seed=2)]
    inputs = [value.astype(dtype) for value in inputs]
    text = check_node("ConvTranspose", inputs, constants=constants, **attributes)
    assert len(_products(text)) == 1


def test_few_output_channels_in_one_and_three_dimensions() -> None:
    check_node("ConvTranspose", [floats(2, 33, 7), floats(33, 2, 4)], strides=[2])
    check_node("ConvTranspose", [floats(1, 32, 2, 3, 2), floats(32, 1, 2, 3, 2)], strides=[1, 2, 3])


@pytest.mark.parametrize(
    ("shape", "kernel", "dtype"),
    [
        ((1, 32, 6, 6), (32, 16, 3, 3), "float32"),  # many output channels
        ((1, 31, 6, 6), (31, 3, 3, 3), "float32"),  # few input channels
        ((1, 32, 3, 3), (32, 1, 9, 9), "float32"),  # many taps
        ((1, 32, 6, 6), (32, 3, 3, 3), "float16"),  # would be rounded too often
    ],
)
def test_other_transposed_convolutions_have_one_for_each_phase(
    shape: tuple[int, ...], kernel: tuple[int, ...], dtype: str
) -> None:
    inputs = [floats(*shape).astype(dtype), floats(*kernel, seed=1).astype(dtype)]
    tolerance = 2e-2 if dtype == "float16" else 1e-4
    text = check_node("ConvTranspose", inputs, tolerance=tolerance, strides=[2, 2])
    assert len(_products(text)) == 4


def test_transposed_convolutions_of_nothing() -> None:
    for shape in ((1, 32, 0, 5), (1, 32, 5, 0)):
        inputs = [np.empty(shape, np.float32), floats(32, 3, 4, 4)]
        found = run_node("ConvTranspose", inputs, strides=[2, 2])["out0"]
        expected = [1, 3, *(max(2 * (size - 1) + 4, 0) for size in shape[2:])]
        assert list(found.shape) == expected
        assert not found.any()


def test_small_inputs_are_not_padded_for_a_stride_of_one() -> None:
    """A transposed convolution of stride 1 does not pad a small input with few output channels.

    As a convolution with 8x8 outputs, it would multiply much padding around 6x6 inputs.
    """
    for size, channels, is_padded in ((6, 32, False), (6, 33, True), (30, 32, True)):
        inputs = [floats(1, 64, size, size), floats(64, channels, 3, 3, seed=1)]
        text = check_node("ConvTranspose", inputs)
        assert (f"tensor<1x{9 * channels}x{size}x{size}xf32>" not in text) == is_padded


def test_constant_kernels_are_cut_up_at_compile_time() -> None:
    """A constant kernel of a transposed convolution is cut into its parts at compile time."""
    inputs = [floats(1, 3, 5, 5), floats(3, 2, 4, 4)]
    text = check_node("ConvTranspose", inputs, constants=[1], strides=[2, 2])
    assert text.count("linalg.generic") == 4
    assert text.count("rtask.constant") == 4
