"""Tests of numbers that are attributes in older opsets, and inputs in newer ones.

Each number gets the element type of the operand.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from node_checks import check_node, floats
from onnx import parser

import rammer_mlir

TYPES = ["float16", "float32", "float64"]


def _numbers(dtype: str) -> Any:
    return np.random.default_rng(0).uniform(-4, 4, (3, 5)).astype(dtype)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("bounds", [{"min": 0.0, "max": 2.5}, {"min": -1.5}, {"max": 1.0}])
def test_bounds_of_clip_have_the_type_of_its_operand(dtype: str, bounds: dict[str, float]) -> None:
    check_node("Clip", [_numbers(dtype)], opset=10, **bounds)


@pytest.mark.parametrize("dtype", TYPES)
def test_the_value_of_a_padding_has_the_type_of_its_operand(dtype: str) -> None:
    check_node("Pad", [_numbers(dtype)], opset=10, pads=[0, 1, 2, 0], value=1.5)


def test_the_value_of_a_padding_of_a_result_that_inference_does_not_know() -> None:
    """Pad's value has the type of Pad's data, even if ONNX's inference does not know this type.

    ONNX's inference gives Compress no type in opset 9.
    """
    model = parser.parse_model("""<ir_version: 9, opset_import: ["": 9]>
      g (float16[4] x) => (float16[n] y) <bool[4] c = {1, 0, 1, 1}> {
      t = Compress <axis = -1> (x, c)
      y = Pad <pads = [1, 2], value = -3.0> (t) }""")
    x = np.arange(4, dtype=np.float16)
    with rammer_mlir.compile(model, cache=False) as exe:
        found = exe.run({"x": x})["y"]
    np.testing.assert_array_equal(found, np.array([-3, 0, 2, 3, -3, -3], np.float16))


def test_a_batch_norm_with_statistics_per_element() -> None:
    """ONNX's version converter refuses ``spatial=0``, which the opset 9 removed."""
    x, scale, shift, mean, variance = (
        floats(*s, seed=n) for n, s in enumerate([(2, 3, 4)] + [(3, 4)] * 4)
    )
    variance = np.square(variance)
    model = parser.parse_model("""<ir_version: 9, opset_import: ["": 7]>
      g (float[2,3,4] x, float[3,4] s, float[3,4] b, float[3,4] m, float[3,4] v)
        => (float[2,3,4] y) {
      y = BatchNormalization <spatial = 0, epsilon = 0.01> (x, s, b, m, v) }""")
    feeds = {"x": x, "s": scale, "b": shift, "m": mean, "v": variance}
    with rammer_mlir.compile(model, cache=False) as exe:
        found = exe.run(feeds)["y"]
    exact = (x - mean) / np.sqrt(variance.astype(np.float64) + 0.01) * scale + shift
    np.testing.assert_allclose(found, exact, rtol=1e-5, atol=1e-6)
