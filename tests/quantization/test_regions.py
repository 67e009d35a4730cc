"""Tests that quantized regions give the results, and the noise, of the same rounding in float64.

A region whose noise would exceed the bound is not quantized.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx.reference import ReferenceEvaluator
from onnxruntime.quantization import QuantType, quantize_dynamic

from rammer_mlir.compiler.compilation import Compilation
from rammer_mlir.compiler.options import check_options
from tests.quantization.models import decibels, expected, feeds_of, model_of, quantized, samples_of

Array = NDArray[Any]

PRODUCT = "(float[6,24] x) => (float[6,10] y) { y = MatMul(x, w) }"


def product(scale: Any = 1.0) -> tuple[onnx.ModelProto, Array]:
    """Return a model of a matrix product, and the product's constant right operand.

    The columns of the right operand are multiplied by ``scale``.
    """
    weight = np.random.default_rng(1).standard_normal((24, 10)).astype(np.float32) * scale
    return model_of(PRODUCT, {"w": weight.astype(np.float32)}), weight.astype(np.float64)


def rounded(values: Array, scale: Any, zero: Any = 0) -> Array:
    """Return the numbers that ``values`` become when they are stored in signed 8 bits, as float64.

    ``scale`` and ``zero`` are the scale and the zero point of the integers.
    """
    return (np.clip(np.rint(values / scale) + zero, -128, 127) - zero) * scale


def symmetric(weight: Array, axis: int | None) -> Array:
    """Return weights rounded to 8 bits with zero point 0, as float64.

    Elements that differ only in the index of ``axis`` share a scale; if ``axis`` is None, all do.
    """
    return rounded(weight, np.abs(weight).max(axis=axis, keepdims=True) / 127)


def test_the_noise_is_that_of_the_arithmetic() -> None:
    """The reported noise of a region equals the noise of the same rounding, computed in float64.

    The input has one scale and one zero point, each column of the weight has its own scale.
    """
    model, weight = product()
    samples = samples_of(model)
    samples["x"] += 1  # so that the zero point is not in the middle
    x = samples["x"].astype(np.float64)
    low, high = x.min(), x.max()
    scale = (high - low) / 255
    found = rounded(x, scale, np.rint(-128 - low / scale)) @ symmetric(weight, 0)
    with quantized(model, samples) as exe:
        (region,) = exe.stats["quantize"]
        outputs = np.stack([exe.run(feeds_of(samples, n))["y"] for n in range(8)])
    assert region["bits"] == 8 and region["title"] == "region 'host_0' (MatMul_0)"
    assert decibels(x @ weight, found) == pytest.approx(region["decibels"], abs=0.01)
    np.testing.assert_allclose(outputs, found, rtol=1e-5, atol=1e-4)


CONVOLUTIONS = {
    "plain": ("Conv(x, w)", (6, 4, 3, 2), {}),
    "strides and pads": (
        "Conv<strides=[2,1],pads=[1,0,1,1]>(x, w)",
        (6, 4, 3, 2),
        {"strides": (2, 1), "pads": (1, 0, 1, 1)},
    ),
    "groups": ("Conv<group=2,pads=[1,1,1,1]>(x, w)", (6, 2, 3, 3), {"pads": (1, 1, 1, 1)}),
    "depthwise": ("Conv<group=4,dilations=[2,2]>(x, w)", (8, 1, 3, 3), {"dilations": (2, 2)}),
}


def convolution(
    x: Array,
    weight: Array,
    strides: Any = (1, 1),
    pads: Any = (0, 0, 0, 0),
    dilations: Any = (1, 1),
) -> Array:
    """Return a convolution in float64; the weight's shape determines the number of groups."""
    top, left, bottom, right = pads
    x = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
    extents = [(size - 1) * d + 1 for size, d in zip(weight.shape[2:], dilations, strict=True)]
    windows = np.lib.stride_tricks.sliding_window_view(x, extents, (2, 3))
    windows = windows[:, :, :: strides[0], :: strides[1], :: dilations[0], :: dilations[1]]
    groups = x.shape[1] // weight.shape[1]
    parts = [
        np.einsum("nchwkl,fckl->nfhw", part, filters)
        for part, filters in zip(
            np.split(windows, groups, 1), np.split(weight, groups, 0), strict=True
        )
    ]
    return np.concatenate(parts, 1)


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_the_noise_of_a_convolution_is_that_of_the_arithmetic(name: str) -> None:
    """The reported noise of a convolution equals the noise of the same rounding in float64.

    Each filter has its own scale, and padding has the value of the input's zero point.
    """
    step, shape, options = CONVOLUTIONS[name]
    rng = np.random.default_rng(6)
    weight = rng.standard_normal(shape) * np.geomspace(1, 20, shape[0])[:, None, None, None]
    weight = weight.astype(np.float32)
    model = model_of(f"(float[2,4,9,8] x) => (float[n,f,h,w] y) {{ y = {step} }}", {"w": weight})
    samples = samples_of(model)
    samples["x"] += np.float32(0.7)  # so that the zero point is not in the middle
    x = samples["x"].astype(np.float64)
    low, high = x.min(), x.max()
    scale = (high - low) / 255
    data = rounded(x, scale, np.rint(-128 - low / scale))
    wide = weight.astype(np.float64)
    filters = rounded(wide, np.abs(wide).max(axis=(1, 2, 3), keepdims=True) / 127)
    exact, found = (
        np.stack([convolution(sample, kernel, **options) for sample in samples])
        for samples, kernel in ((x, wide), (data, filters))
    )
    with quantized(model, samples, quantize_bound=20) as exe:
        (region,) = exe.stats["quantize"]
        outputs = np.stack([exe.run(feeds_of(samples, n))["y"] for n in range(8)])
    assert region["bits"] == 8
    assert decibels(exact, found) == pytest.approx(region["decibels"], abs=0.01)
    np.testing.assert_allclose(outputs, found, rtol=1e-4, atol=1e-3)
    coarse = rounded(wide, np.abs(wide).max() / 127)
    single = np.stack([convolution(sample, coarse, **options) for sample in data])
    assert decibels(exact, single) < region["decibels"] - 0.5


def test_weights_have_a_scale_for_each_channel() -> None:
    model, weight = product(np.geomspace(1, 300, 10))
    samples = samples_of(model)
    x = samples["x"].astype(np.float64)
    with quantized(model, samples) as exe:
        assert exe.stats["quantize"][0]["bits"] == 8
        found = np.stack([exe.run(feeds_of(samples, n))["y"] for n in range(8)])
    exact, single = x @ weight, x @ symmetric(weight, None)
    first = [decibels(exact[..., :2], each[..., :2]) for each in (found, single)]
    assert first[0] > 35 > 20 > first[1]


def outliers() -> dict[str, Array]:
    x = np.random.default_rng(2).standard_normal((400, 6, 24)).astype(np.float32)
    x[3, 1, 4], x[300, 0, 9] = 900.0, -800.0
    return {"x": x}


def test_the_bound_is_kept() -> None:
    """A region stays f32 if its signal-to-noise ratio would be below the bound.

    Two outliers make a scale so coarse that no bits are left for the other values.
    """
    model, _ = product()
    samples, normal = outliers(), samples_of(model)
    # Their own energy would hide the noise of all others.
    weight = np.zeros((24, 10), np.float32)
    weight[0] = 1
    blind = model_of(PRODUCT, {"w": weight})
    with quantized(blind, samples) as exe:
        (region,) = exe.stats["quantize"]
        assert region["bits"] == 32 and region["decibels"] < 25
        assert region["reason"] == "expected at least 25 dB"
        assert f"{region['decibels']:.1f} dB, stays f32, expected at least 25 dB" in exe.summary
        np.testing.assert_array_equal(exe.run(feeds_of(samples, 9))["y"], samples["x"][9] @ weight)
    for bound, bits in ((30, 8), (60, 32)):
        with quantized(model, normal, quantize_bound=bound) as exe:
            assert [each["bits"] for each in exe.stats["quantize"]] == [bits]


@pytest.mark.parametrize("method", ["percentile", "entropy"])
def test_methods_that_clip_outliers(method: str) -> None:
    weight = np.zeros((24, 10), np.float32)
    weight[0] = 1
    model = model_of(PRODUCT, {"w": weight})
    samples, found = outliers(), dict[str, float]()
    for name in ("minmax", method):
        with quantized(model, samples, quantize_method=name, quantize_bound=-100) as exe:
            found[name] = exe.stats["quantize"][0]["decibels"]
    assert found[method] > found["minmax"] + 10


def test_ranges_of_each_run() -> None:
    model, _ = product()
    samples = samples_of(model)
    larger = {"x": samples["x"][0] * 50}
    exact = expected(model, larger)["y"]
    with (
        quantized(model, samples) as static,
        quantized(model, samples, quantize_dynamic=True) as exe,
    ):
        assert decibels(exact, static.run(larger)["y"]) < 5
        assert decibels(exact, exe.run(larger)["y"]) > 35
        assert not exe.run({"x": np.zeros((6, 24), np.float32)})["y"].any()


def test_onnx_runtimes_dynamic_quantization_is_the_same(tmp_path: Path) -> None:
    model, _ = product(np.geomspace(1, 5, 10))
    samples = samples_of(model)
    path = tmp_path / "theirs.onnx"
    quantize_dynamic(model, path, per_channel=True, weight_type=QuantType.QInt8)
    theirs = onnx.load(path)
    assert "MatMulInteger" in [node.op_type for node in theirs.graph.node]
    # ONNX Runtime itself adds pairs of products in 16 bits, which overflow, on x86-64 without VNNI.
    evaluator = ReferenceEvaluator(theirs)
    with quantized(model, samples, quantize_dynamic=True) as exe:
        for number in range(8):
            feeds = feeds_of(samples, number)
            (wanted,) = np.asarray(evaluator.run(None, feeds))
            np.testing.assert_allclose(exe.run(feeds)["y"], wanted, rtol=1e-5, atol=1e-4)


def layers(count: int) -> onnx.ModelProto:
    """Return a model of successive products of equal shapes; their weights' magnitudes differ."""
    rng = np.random.default_rng(3)
    names = ["x", *(f"v{n}" for n in range(count - 1)), "y"]
    steps = [f"{names[n + 1]} = MatMul({names[n]}, m{n})" for n in range(count)]
    weights = {
        f"m{n}": rng.standard_normal((16, 16)).astype(np.float32) * (n + 1) / 4
        for n in range(count)
    }
    return model_of(f"(float[6,16] x) => (float[6,16] y) {{ {'  '.join(steps)} }}", weights)


@pytest.mark.parametrize("options", [{}, {"quantize_dynamic": True}])
def test_equal_layers_share_an_rkernel(options: dict[str, Any]) -> None:
    found: list[int] = []
    for count in (3, 5):
        model = layers(count)
        given = check_options("cpu", quantize=8, calibration=samples_of(model), **options)
        compilation = Compilation.of_model(model, given)
        text = compilation.emit("operators").decode()
        assert text.count("xi8> {rtask.constant") == count
        found.append(text.count("func.func private"))
    assert found[0] == found[1]


def test_halves() -> None:
    model, weight = product()
    samples = samples_of(model)
    x = samples["x"].astype(np.float16).astype(np.float64)
    with quantized(model, samples, bits=16) as exe:
        assert exe.stats["quantize"][0]["bits"] == 16
        found = np.stack([exe.run(feeds_of(samples, n))["y"] for n in range(8)])
    np.testing.assert_allclose(found, x @ weight.astype(np.float16), rtol=1e-5, atol=1e-4)


def test_values_that_halves_do_not_hold() -> None:
    """Values that are too large for f16 are rounded to bf16, not to infinity.

    A bf16 number has 8 bits of precision.
    """
    model, weight = product()
    samples = {"x": samples_of(model)["x"] * 1e6}
    with quantized(model, samples, bits=16) as exe:
        found = exe.run(feeds_of(samples))["y"]
    assert 40 < decibels(samples["x"][0] @ weight, found) < 60


def test_numbers_that_are_not_finite() -> None:
    model = model_of("(float[6,8] x) => (float[6,5] y) { l = Log(x)  y = MatMul(l, w85) }")
    samples = samples_of(model)
    with quantized(model, samples) as exe:
        (region,) = exe.stats["quantize"]
    assert region["bits"] == 32 and region["reason"] == "it reads NaN or infinite numbers"


def test_integers_are_in_the_program() -> None:
    model, _ = product()
    options = check_options("cpu", quantize=8, calibration=samples_of(model))
    text = Compilation.of_model(model, options).emit("regions").decode()
    assert "tensor<24x10xi8> {rtask.constant" in text
    assert "-> tensor<6x10xi32>" in text and "arith.muli" in text


def test_a_convolution_of_a_constant_image() -> None:
    """The range of an image that is a constant follows from its elements, not from samples."""
    text = """(float[4,3,3,3] f) => (float[1,4,9,9] y) {
        y = Conv<pads=[1,1,1,1]>(w1_3_9_9, f) }"""
    model = model_of(text)
    samples = samples_of(model)
    with quantized(model, samples) as made:
        feeds = feeds_of(samples)
        assert decibels(expected(model, feeds)["y"], made.run(feeds)["y"]) > 30


def dense(terms: int) -> onnx.ModelProto:
    """Return a model that multiplies ``terms`` numbers by weights of 1, and sums the products."""
    text = f"(float[1,{terms}] x) => (float[1,1] y) {{ y = MatMul(x, w) }}"
    return model_of(text, {"w": np.ones((terms, 1), np.float32)})


def inner(terms: int) -> onnx.ModelProto:
    """Return a model of the inner product of two inputs of ``terms`` numbers."""
    return model_of(
        f"(float[1,{terms}] x, float[{terms},1] z) => (float[1,1] y) {{ y = MatMul(x, z) }}"
    )


LONGEST = {"a weight": (dense, 66_311, 1.0), "two activations": (inner, 131_071, -2.0)}
"""By name: a model, the most products whose sum fits in i32, and the number of the largest sum."""


@pytest.mark.parametrize("name", LONGEST)
@pytest.mark.parametrize("is_dynamic", [False, True])
def test_the_longest_sums_do_not_overflow(name: str, is_dynamic: bool) -> None:
    """The largest possible sum is right; a region whose sums have one more product stays f32."""
    make, terms, number = LONGEST[name]
    for length, bits in ((terms, 8), (terms + 1, 32)):
        model = make(length)
        samples = {k: np.abs(x) / np.abs(x).max() for k, x in samples_of(model, 1).items()}
        feeds = {k: np.full_like(x[0], number) for k, x in samples.items()}
        with quantized(model, samples, quantize_dynamic=is_dynamic) as exe:
            (region,) = exe.stats["quantize"]
            found = exe.run(feeds)["y"].item()
        assert region["bits"] == bits
        clipped = 128 / 127 if number < 0 and bits == 8 and not is_dynamic else number
        assert found == pytest.approx(length * clipped ** (2 if number < 0 else 1), rel=1e-5)
    assert region["reason"] == f"sums of {terms + 1} products may exceed 32 bits"


@pytest.mark.parametrize("bits", [8, 16])
def test_samples_that_measure_nothing(bits: int) -> None:
    """A region stays f32 if its factors or its results are zero in all samples."""
    model, weight = product()
    samples = {"x": np.zeros((2, 6, 24), np.float32)}
    with quantized(model, samples, bits) as exe:
        (region,) = exe.stats["quantize"]
        found = exe.run({"x": np.ones((6, 24), np.float32)})["y"]
    assert region["bits"] == 32 and region["decibels"] is None
    zero = "its results for the samples are all zero, or not finite"
    assert region["reason"] == (
        "it multiplies numbers that are zero in all samples" if bits == 8 else zero
    )
    np.testing.assert_allclose(found, np.ones((6, 24)) @ weight, rtol=1e-4, atol=1e-4)
    halves = model_of("(float[1,2] x) => (float[1,1] y) { y = MatMul(x, w) }", {
        "w": np.array([[1], [-1]], np.float32)
    })  # fmt: skip
    with quantized(halves, {"x": np.ones((2, 1, 2), np.float32)}, bits) as exe:
        (region,) = exe.stats["quantize"]
    assert region["reason"] == zero


@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.filterwarnings("error")
def test_samples_whose_results_are_infinite(bits: int) -> None:
    """A region whose results exceed f32 stays f32, without a warning of NumPy."""
    model, _ = product(1e25)
    with quantized(model, {"x": samples_of(model)["x"] * np.float32(1e20)}, bits) as exe:
        (region,) = exe.stats["quantize"]
    assert region["bits"] == 32 and region["decibels"] is None
