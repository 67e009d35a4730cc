"""Tests of quantization operators: scales per row, blocks, the precision of division, zeros."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from node_checks import check_node, floats, node_model
from numpy.typing import NDArray
from onnx import TensorProto

import rammer_mlir

Array = NDArray[Any]


def _integers(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).integers(0, 255, shape).astype(np.uint8)


@pytest.mark.parametrize("per_row", ["left", "result", "both"])
@pytest.mark.parametrize("batch", [(), (2,)])
def test_a_quantized_product_with_scales_per_row(per_row: str, batch: tuple[int, ...]) -> None:
    """The left factor and the result may each have a scale and a zero point per row."""
    vector, number = np.array([0.02, 0.01, 0.03], np.float32), np.float32(0.02)
    zeros, zero = np.array([113, 9, 100], np.uint8), np.uint8(100)
    a, b = _integers(3, 4), _integers(*batch, 4, 5, seed=1)
    left = (vector, zeros) if per_row != "result" else (np.array(number), np.array(zero))
    result = (10 * vector, zeros) if per_row != "left" else (np.array(10 * number), np.array(zero))
    inputs = [a, *left, b, np.array(number), np.array(zero), *result]
    model = node_model("QLinearMatMul", inputs)
    feeds = {f"in{number}": array for number, array in enumerate(inputs)}
    with rammer_mlir.compile(model, cache=False, num_veus=1) as made:
        found = made.run(feeds)["out0"]

    def column(values: Array) -> Array:
        return values.astype(np.float64).reshape(-1, 1)

    real = ((a - column(left[1])) * column(left[0])) @ ((b - np.float64(zero)) * number)
    exact = np.clip(np.rint(real / column(result[0])) + column(result[1]), 0, 255)
    # Ties in float64 may be rounded to either side in float32.
    assert np.abs(found - exact).max() <= 1
    assert (found != exact).mean() < 0.05


@pytest.mark.parametrize("operator", ["QuantizeLinear", "DequantizeLinear"])
def test_blocks_of_a_vector(operator: str) -> None:
    scales = np.array([0.1, 0.2, 0.3], np.float32)
    is_quantized = operator == "QuantizeLinear"
    x = 10 * floats(6) if is_quantized else _integers(6)
    kind = {"output_dtype": TensorProto.INT8} if is_quantized else {}
    check_node(operator, [x, scales], axis=0, block_size=2, **kind)


@pytest.mark.parametrize("precision", [TensorProto.FLOAT16, TensorProto.FLOAT])
def test_the_precision_of_a_division(precision: int) -> None:
    """Some quotients of f16 are rounded to other integers than quotients of f32."""
    x, scale = 3 * floats(600), np.array(0.03, np.float32)
    half = (x.astype(np.float16) / scale.astype(np.float16)).astype(np.float32)
    exact = np.rint(x / scale if precision == TensorProto.FLOAT else half)
    model = node_model(
        "QuantizeLinear", [x, scale], opset=23, precision=precision, output_dtype=TensorProto.INT16
    )
    with rammer_mlir.compile(model, cache=False, num_veus=1) as made:
        np.testing.assert_array_equal(made.run({"in0": x, "in1": scale})["out0"], exact)
    assert (np.rint(x / scale) != np.rint(half)).any()


def test_data_of_zeros_has_a_scale() -> None:
    check_node("DynamicQuantizeLinear", [np.zeros(5, np.float32)], outputs=3)
