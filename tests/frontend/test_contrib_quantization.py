"""Tests that quantized contrib operators give ONNX Runtime's results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from contrib_checks import Array, check_contrib, seven_bits
from node_checks import floats

SHAPE = (2, 3, 6, 6)


def quantized(kind: type[Any], *shape: int, seed: int = 0) -> Array:
    """Return random integers of type ``kind`` over its whole range."""
    limits = np.iinfo(kind)
    return np.random.default_rng(seed).integers(limits.min, limits.max, shape, kind, endpoint=True)


def scale(value: float, kind: type[Any], zero: int = 3) -> list[Array]:
    return [np.array(value, np.float32), np.array(zero, kind)]


@pytest.mark.parametrize("kind", [np.uint8, np.int8])
@pytest.mark.parametrize("operator", ["QLinearAdd", "QLinearMul"])
def test_elementwise_operators(operator: str, kind: type[Any]) -> None:
    inputs = [
        quantized(kind, *SHAPE), *scale(0.03, kind),
        quantized(kind, 3, 1, 1, seed=1), *scale(0.02, kind, 5),
        *scale(0.05, kind, 7),
    ]  # fmt: skip
    check_contrib(operator, inputs, constants=[1, 2, 4, 5, 6, 7], results=[kind], steps=1)


@pytest.mark.parametrize("kind", [np.uint8, np.int8])
@pytest.mark.parametrize(
    ("operator", "details", "factor"),
    [
        ("QLinearSigmoid", {}, 1 / 256),
        ("QLinearLeakyRelu", {"alpha": 0.2}, 0.03),
        ("QLinearSoftmax", {"axis": 1, "opset": 13}, 1 / 256),
        ("QLinearSoftmax", {"axis": 1, "opset": 11}, 1 / 256),
        ("QLinearGlobalAveragePool", {}, 0.01),
        ("QLinearGlobalAveragePool", {"channels_last": 1}, 0.01),
        (
            "QLinearAveragePool",
            {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]},
            0.02,
        ),
        (
            "QLinearAveragePool",
            {"kernel_shape": [2, 2], "channels_last": 1, "count_include_pad": 1},
            0.02,
        ),
    ],
)
def test_functions_of_one_tensor(
    operator: str, details: dict[str, Any], factor: float, kind: type[Any]
) -> None:
    inputs = [quantized(kind, *SHAPE), *scale(0.03, kind), *scale(factor, kind, 2)]
    check_contrib(operator, inputs, constants=[1, 2, 3, 4], results=[kind], steps=1, **details)


def test_concatenation() -> None:
    kind = np.uint8
    parts = [quantized(kind, 2, 3, 4), *scale(0.03, kind), quantized(kind, 2, 5, 4, seed=1)]
    check_contrib(
        "QLinearConcat",
        [*scale(0.04, kind, 7), *parts, *scale(0.05, kind, 9)],
        constants=[0, 1, 3, 4, 6, 7],
        results=[kind],
        steps=1,
        axis=1,
    )


@pytest.mark.parametrize("kind", [np.uint8, np.int8, np.uint16, np.int16, np.int32])
def test_dequantization(kind: type[Any]) -> None:
    x = quantized(kind, 2, 3, 4)
    zero = 0 if kind == np.int32 else 5
    check_contrib("DequantizeLinear", [x, *scale(0.03, kind, zero)])
    scales, zeros = np.array([0.1, 0.2, 0.3], np.float32), np.full(3, zero, kind)
    check_contrib("DequantizeLinear", [x, scales, zeros], axis=1)


@pytest.mark.parametrize(("kind", "opset"), [(np.uint8, 17), (np.int8, 17), (np.uint16, 21)])
def test_quantization(kind: type[Any], opset: int) -> None:
    x = floats(2, 3, 4)
    check_contrib("QuantizeLinear", [x, *scale(0.03, kind)], results=[kind], version=opset)
    scales, zeros = np.array([0.1, 0.2, 0.3], np.float32), np.array([1, 2, 3], kind)
    check_contrib("QuantizeLinear", [x, scales, zeros], results=[kind], version=opset, axis=1)


@pytest.mark.parametrize("is_wide", [False, True])
@pytest.mark.parametrize("kind", [np.uint8, np.int8])
def test_products(kind: type[Any], is_wide: bool) -> None:
    weights, bias = seven_bits(quantized(kind, 6, 4, seed=1)), floats(4, seed=2)
    scales = np.array([0.1, 0.2, 0.3, 0.4], np.float32) if is_wide else np.array(0.1, np.float32)
    zeros = np.array([1, 2, 3, 4], kind) if is_wide else np.array(3, kind)
    x = floats(2, 3, 6)
    check_contrib("DynamicQuantizeMatMul", [x, weights, scales, zeros, bias], tolerance=1e-4)
    check_contrib("DynamicQuantizeMatMul", [x, weights, scales], tolerance=1e-4)
    first = [quantized(np.uint8, 2, 3, 6), weights, np.array(0.3, np.float32), scales]
    check_contrib(
        "MatMulIntegerToFloat", [*first, np.array(5, np.uint8), zeros, bias], tolerance=1e-4
    )
    check_contrib("MatMulIntegerToFloat", first, tolerance=1e-4)


@pytest.mark.parametrize("is_quantized", [False, True])
@pytest.mark.parametrize("turned", [(0, 0), (1, 1)])
def test_gemm(is_quantized: bool, turned: tuple[int, int]) -> None:
    left, right = ((5, 7), (7, 4)) if turned == (0, 0) else ((7, 5), (4, 7))
    inputs = [
        quantized(np.uint8, *left), *scale(0.03, np.uint8, 120),
        seven_bits(quantized(np.int8, *right, seed=1)), *scale(0.02, np.int8),
        quantized(np.int32, 4, seed=2) // 2**20,
        *(scale(0.5, np.uint8, 100) if is_quantized else []),
    ]  # fmt: skip
    check_contrib(
        "QGemm",
        inputs,
        constants=[1, 2, 3, 4, 5, 6, *([7, 8] if is_quantized else [])],
        results=[np.uint8 if is_quantized else np.float32],
        steps=1,
        transA=turned[0],
        transB=turned[1],
        alpha=0.5,
    )
