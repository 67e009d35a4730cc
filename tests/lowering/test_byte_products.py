"""Tests that products and convolutions of 8-bit integers are exact.

That holds for signed and unsigned integers, and with all kinds of zero points, shapes and
processors.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import rammer_mlir
from rammer_mlir.compiler.compilation import Compilation
from rammer_mlir.compiler.options import check_options
from rammer_mlir.lowering.llvm.machine import MULTIPLY_WORDS, VNNI, Machine, host_machine
from rammer_mlir.lowering.llvm.named_machines import named_machine

Array = NDArray[Any]

KINDS = {"u8": np.uint8, "s8": np.int8}
TARGETS = ("cpu", "cpu:x86-64", "cpu:x86-64-v2", "cpu:x86-64-v3", "cpu:x86-64-v4")


def bytes_of(shape: tuple[int, ...], kind: str, seed: int) -> Array:
    """Return random numbers over the whole range of ``kind``, a type of 8 bits."""
    limits = np.iinfo(KINDS[kind])
    random = np.random.default_rng(seed)
    return random.integers(limits.min, limits.max + 1, shape).astype(KINDS[kind])


def model_of(
    nodes: list[onnx.NodeProto], x: Array, result: tuple[int, ...], constants: dict[str, Array]
) -> onnx.ModelProto:
    """Return a model of ``nodes`` with an input ``x`` of bytes and an output ``y`` of int32."""
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", kind, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.INT32, result)],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def product_of(
    shape: tuple[int, int, int], kinds: tuple[str, str], zeros: str
) -> tuple[onnx.ModelProto, Array, Array]:
    """Return a model of MatMulInteger, its input and the exact product.

    Args:
        shape: numbers of rows, of terms of each sum, and of columns.
        kinds: types of the left and of the right operand, of 8 bits.
        zeros: "none", "scalar" or "each": no zero points, one for each operand, or one for each row
            and each column.
    """
    rows, inner, columns = shape
    x, w = bytes_of((rows, inner), kinds[0], 1), bytes_of((inner, columns), kinds[1], 2)
    sizes = (
        {"none": None, "scalar": (), "each": (rows,)}[zeros],
        {"each": (columns,)}.get(zeros, ()),
    )
    points = [
        np.zeros((), KINDS[kind]) if size is None else bytes_of(size, kind, 3 + number)
        for number, (kind, size) in enumerate(zip(kinds, sizes, strict=True))
    ]
    names = ["x", "w"] if zeros == "none" else ["x", "w", "p", "q"]
    model = model_of(
        [helper.make_node("MatMulInteger", names, ["y"])],
        x,
        (rows, columns),
        {"w": w} | ({} if zeros == "none" else {"p": points[0], "q": points[1]}),
    )
    if zeros == "none":
        points = [np.zeros((), KINDS[kind]) for kind in kinds]
    left = x.astype(np.int64) - points[0].reshape(-1, 1).astype(np.int64)
    exact = left @ (w.astype(np.int64) - points[1].astype(np.int64))
    return model, x, exact


@pytest.mark.parametrize("data", KINDS)
@pytest.mark.parametrize("weights", KINDS)
@pytest.mark.parametrize("zeros", ["none", "scalar", "each"])
@pytest.mark.parametrize("shape", [(5, 64, 48), (1, 37, 19), (33, 10, 100)])
def test_products(data: str, weights: str, zeros: str, shape: tuple[int, int, int]) -> None:
    model, x, exact = product_of(shape, (data, weights), zeros)
    with rammer_mlir.compile(model, cache=False) as exe:
        np.testing.assert_array_equal(exe.run({"x": x})["y"], exact)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", [(7, 64, 80), (1, 20, 33), (3, 5, 4)])
def test_products_on_other_processors(target: str, shape: tuple[int, int, int]) -> None:
    """Sums of products of extreme unsigned and signed bytes are exact on every x86-64 level.

    Processors without VNNI multiply 16-bit integers.
    """
    if target != "cpu" and not named_machine(target.removeprefix("cpu:")).is_this:
        pytest.skip(f"{target}: this processor lacks its instructions")
    rows, inner, columns = shape
    x = np.full((rows, inner), 255, np.uint8)
    w = np.full((inner, columns), -128, np.int8)
    w[:, ::2] = 127
    node = helper.make_node("MatMulInteger", ["x", "w"], ["y"])
    model = model_of([node], x, (rows, columns), {"w": w})
    with rammer_mlir.compile(model, target=target, cache=False) as exe:
        np.testing.assert_array_equal(exe.run({"x": x})["y"], x.astype(np.int64) @ w)


def convolution_of(
    channels: tuple[int, int], group: int, kind: str, window: int, zero: int
) -> tuple[onnx.ModelProto, Array]:
    inputs, outputs = channels
    x = bytes_of((2, inputs, 9, 7), kind, 5)
    w = bytes_of((outputs, inputs // group, window, window), "s8", 6)
    pad = window // 2
    node = helper.make_node(
        "ConvInteger",
        ["x", "w", "p"],
        ["y"],
        kernel_shape=[window, window],
        pads=[pad] * 4,
        group=group,
        strides=[2, 1],
    )
    constants = {"w": w, "p": np.array(zero, KINDS[kind])}
    return model_of([node], x, (2, outputs, (9 + 2 * pad - window) // 2 + 1, 7), constants), x


@pytest.mark.parametrize("channels", [(16, 32), (33, 65), (20, 24), (3, 16), (48, 8)])
@pytest.mark.parametrize(("kind", "zero"), [("u8", 0), ("u8", 200), ("s8", -7)])
@pytest.mark.parametrize("window", [1, 3])
def test_convolutions(channels: tuple[int, int], kind: str, zero: int, window: int) -> None:
    model, x = convolution_of(channels, 1, kind, window, zero)
    (exact,) = ReferenceEvaluator(model).run(None, {"x": x})
    with rammer_mlir.compile(model, cache=False) as exe:
        np.testing.assert_array_equal(exe.run({"x": x})["y"], exact)


@pytest.mark.parametrize(("channels", "group"), [((32, 32), 32), ((32, 64), 2), ((24, 48), 3)])
@pytest.mark.parametrize("has_zeros", [False, True])
def test_grouped_convolutions(channels: tuple[int, int], group: int, has_zeros: bool) -> None:
    """Grouped convolutions are exact, with and without a zero point for each output channel."""
    model, x = convolution_of(channels, group, "u8", 3, 100)
    if has_zeros:
        model.graph.node[0].input.append("q")
        zeros = numpy_helper.from_array(bytes_of((channels[1],), "s8", 9), "q")
        model.graph.initializer.append(zeros)
    (exact,) = ReferenceEvaluator(model).run(None, {"x": x})
    with rammer_mlir.compile(model, cache=False) as exe:
        np.testing.assert_array_equal(exe.run({"x": x})["y"], exact)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("channels", [16, 24, 33])
def test_a_zero_point_of_the_run_pads_the_image(channels: int, kind: str) -> None:
    x, w = bytes_of((1, channels, 6, 5), kind, 7), bytes_of((20, channels, 3, 3), "s8", 8)
    nodes = [
        helper.make_node("ReduceMax", ["x"], ["p"], keepdims=0),
        helper.make_node("ConvInteger", ["x", "w", "p"], ["y"], pads=[1, 0, 1, 2]),
    ]
    model = model_of(nodes, x, (1, 20, 6, 5), {"w": w})
    (exact,) = ReferenceEvaluator(model).run(None, {"x": x})
    with rammer_mlir.compile(model, cache=False) as exe:
        np.testing.assert_array_equal(exe.run({"x": x})["y"], exact)


def test_layers_stay_in_blocks() -> None:
    """Between quantized layers no copy changes the layout of the image."""
    w = [bytes_of((32, 32, 3, 3), "s8", seed) for seed in (1, 2)]
    scale, zero = np.array(1e-3, np.float32), np.array(9, np.uint8)
    nodes = [
        helper.make_node(
            "QLinearConv", [a, "s", "z", f"w{n}", "s", "q", "t", "z"], [b], pads=[1, 1, 1, 1]
        )
        for n, (a, b) in enumerate((("x", "h"), ("h", "r")))
    ]
    nodes.append(helper.make_node("Cast", ["r"], ["y"], to=TensorProto.INT32))
    x = bytes_of((1, 32, 10, 10), "u8", 3)
    constants = {
        "w0": w[0], "w1": w[1], "s": scale, "t": np.array(2e-3, np.float32), "z": zero,
        "q": np.array(0, np.int8),
    }  # fmt: skip
    model = model_of(nodes, x, (1, 32, 10, 10), constants)
    (wanted,) = np.asarray(ReferenceEvaluator(model).run(None, {"x": x}))
    with rammer_mlir.compile(model, cache=False) as exe:
        # Sums times factors are rounded to f32 in another order: one step is allowed.
        assert np.abs(exe.run({"x": x})["y"] - wanted).max() <= 1
    if host_machine().byte_products:
        text = Compilation.of_model(model, check_options("cpu")).emit("operators").decode()
        layers = [line for line in text.splitlines() if "@conv_" in line and "=" in line]
        assert len(layers) == 2
        assert all("tensor<1x2x12x12x4x4xi8>" in line for line in layers), layers


def test_the_instructions_of_processors() -> None:
    def instruction(features: str, bits: int, triple: str = "x86_64-unknown-linux-gnu") -> str:
        return Machine(triple, "", features, bits).byte_products

    assert instruction("+avx512vnni,+avx512vl", 512) == VNNI
    assert instruction("+avxvnni,-avx512vnni", 256) == VNNI
    assert instruction("+avxvnni,-avx512vnni", 512) == MULTIPLY_WORDS
    assert instruction("-avxvnni", 128) == MULTIPLY_WORDS
    assert instruction("+neon", 128, "aarch64-unknown-linux-gnu") == ""


def dequantized(
    shape: tuple[int, ...], kind: str, points: int, seed: int
) -> tuple[Array, Array, Array]:
    """Return random bytes, their scales and their zero points.

    There are ``points`` scales and ``points`` zero points; if ``points`` is 1, both are scalars.
    """
    random = np.random.default_rng(seed)
    size = () if points == 1 else (points,)
    scale = random.uniform(0.01, 0.02, size).astype(np.float32)
    zero = random.integers(*(0, 256) if kind == "u8" else (-128, 128), size)
    return bytes_of(shape, kind, seed), scale, zero.astype(KINDS[kind])


@pytest.mark.parametrize(("data", "weights"), [("u8", "s8"), ("s8", "s8"), ("u8", "u8")])
@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("case", ["Gemm", "MatMul", "Conv", "Conv1x1"])
def test_dequantized_factors(case: str, data: str, weights: str, per_channel: bool) -> None:
    """Products of dequantized tensors, followed by a Relu, are computed as products of integers."""
    cases: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any], int]] = {
        "Gemm": ((9, 64), (48, 64), {"transB": 1}, 0),
        "MatMul": ((2, 9, 64), (64, 48), {}, 1),
        "Conv": ((1, 32, 7, 9), (48, 32, 3, 3), {"pads": [1, 1, 1, 1]}, 0),
        "Conv1x1": ((1, 32, 7, 9), (48, 32, 1, 1), {"strides": [2, 2]}, 0),
    }
    x_shape, w_shape, attributes, axis = cases[case]
    x, s, z = dequantized(x_shape, data, 1, 1)
    w, t, q = dequantized(w_shape, weights, 48 if per_channel else 1, 2)
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "s", "z"], ["a"]),
        helper.make_node("DequantizeLinear", ["w", "t", "q"], ["b"], axis=axis),
        helper.make_node(case.removesuffix("1x1"), ["a", "b"], ["r"], **attributes),
        helper.make_node("Relu", ["r"], ["y"]),
    ]
    model = model_of(nodes, x, (), {"w": w, "s": s, "z": z, "t": t, "q": q})
    (wanted,) = np.asarray(ReferenceEvaluator(model).run(None, {"x": x}))
    model.graph.output[0].CopyFrom(
        helper.make_tensor_value_info("y", TensorProto.FLOAT, wanted.shape)
    )
    with rammer_mlir.compile(model, cache=False) as exe:
        np.testing.assert_allclose(exe.run({"x": x})["y"], wanted, rtol=1e-4, atol=1e-3)
    text = Compilation.of_model(model, check_options("cpu")).emit("operators").decode()
    assert "arith.muli" in text and "arith.extui" in text


def test_a_long_sum_of_dequantized_factors_stays_in_floats() -> None:
    """A sum of products is computed in floats if its length may overflow an i32.

    At most 2^31 / (255 * 128) terms are safe.
    """
    x, s, z = dequantized((1, 66_000), "u8", 1, 1)
    w, t, q = dequantized((66_000, 8), "s8", 1, 2)
    x[:], w[:], z, q = 255, -128, np.zeros_like(z), np.zeros_like(q)
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "s", "z"], ["a"]),
        helper.make_node("DequantizeLinear", ["w", "t", "q"], ["b"]),
        helper.make_node("MatMul", ["a", "b"], ["y"]),
    ]
    model = model_of(nodes, x, (1, 8), {"w": w, "s": s, "z": z, "t": t, "q": q})
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT
    exact = (x.astype(np.float64) * float(s)) @ (w.astype(np.float64) * float(t))
    with rammer_mlir.compile(model, cache=False) as exe:
        np.testing.assert_allclose(exe.run({"x": x})["y"], exact, rtol=1e-4)
