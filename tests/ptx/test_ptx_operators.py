"""Tests that single operators compiled to PTX give ONNX Runtime's outputs in the interpreter.

Each operator is an rKernel with the instructions that its kind should use.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from ptx_models import Interpreted, check_runs

from rammer_mlir.benchmarks.contenders.onnx_runtime import OnnxRuntime

RNG = np.random.default_rng(7)


def one_node(
    kind: str, x: Any, weights: tuple[Any, ...] = (), shape: Any = None, **attributes: Any
) -> tuple[onnx.ModelProto, dict[str, Any]]:
    """Return a model of one node, and its inputs by name.

    Args:
        kind: ONNX operator.
        x: the input.
        weights: constants, the node's other inputs.
        shape: shape of the output.
        attributes: attributes of the node.
    """
    element = helper.np_dtype_to_tensor_dtype(x.dtype)
    names = [f"w{n}" for n in range(len(weights))]
    graph = helper.make_graph(
        [helper.make_node(kind, ["x", *names], ["y"], kind.lower(), **attributes)],
        "one_node",
        [helper.make_tensor_value_info("x", element, x.shape)],
        [helper.make_tensor_value_info("y", element, shape)],
        [numpy_helper.from_array(w, name) for w, name in zip(weights, names, strict=True)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return model, {"x": x}


def floats(*shape: int) -> Any:
    """Return an array of normally distributed floats of a shape."""
    return RNG.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize(
    ("target", "instruction"),
    [
        ("nvvm:sm_75", "st.shared.v4.b32"),
        ("nvvm:sm_80", "cp.async.cg.shared.global"),
        ("nvvm:sm_90", "cp.async.wait_group"),
    ],
)
@pytest.mark.parametrize("sizes", [(64, 96, 64), (33, 50, 31)])
def test_products(sizes: tuple[int, int, int], target: str, instruction: str) -> None:
    m, k, n = sizes
    model, feeds = one_node("MatMul", floats(m, k), (floats(k, n),), [m, n])
    ptx = check_runs(model, feeds, target=target, num_veus=2)
    assert instruction in ptx or m % 2
    assert "fma.rn.f32" in ptx


def narrow_error(element: Any, target: str) -> tuple[float, str]:
    """Return the largest error of a compiled matrix product, compared with float64, and its PTX.

    The operands are random, of the 16-bit type ``element``.
    """
    x, w = (floats(*shape).astype(element) for shape in ((48, 96), (96, 40)))
    model, feeds = one_node("MatMul", x, (w,), [48, 40])
    interpreted = Interpreted(model, target, 2)
    (found,) = interpreted.executable().run(feeds).values()
    difference = np.asarray(found).astype(np.float64) - x.astype(np.float64) @ w.astype(np.float64)
    return float(np.abs(difference).max()), interpreted.ptx


@pytest.mark.parametrize("target", ["nvvm:sm_80", "nvvm:sm_90"])
@pytest.mark.parametrize(
    ("element", "name", "bound"), [(np.float16, "f16", 0.02), (ml_dtypes.bfloat16, "bf16", 0.16)]
)
def test_narrow_products_on_matrix_units(
    element: Any, name: str, bound: float, target: str
) -> None:
    """Products of 16-bit floats on matrix units accumulate their sums in f32.

    The error stays below ``bound``, which allows only for rounding the result.
    """
    error, ptx = narrow_error(element, target)
    assert f"mma.sync.aligned.m16n8k16.row.col.f32.{name}.{name}.f32" in ptx
    assert "ldmatrix" in ptx
    assert error < bound


@pytest.mark.parametrize("kind", ["Conv", "Softmax", "ReduceMean", "Transpose", "Tanh"])
def test_narrow_operators(kind: str) -> None:
    """Operators on f16 agree with the same operators on f32, within the error of f16."""
    x = floats(1, 16, 9, 11).astype(np.float16)
    options: dict[str, tuple[tuple[Any, ...], list[int], dict[str, Any]]] = {
        "Conv": ((floats(24, 16, 3, 3).astype(np.float16),), [1, 24, 9, 11], {"pads": [1] * 4}),
        "Softmax": ((), [1, 16, 9, 11], {"axis": -1}),
        "ReduceMean": ((), [1, 9, 11], {"axes": [1], "keepdims": 0}),
        "Transpose": ((), [1, 11, 16, 9], {"perm": [0, 3, 1, 2]}),
        "Tanh": ((), [1, 16, 9, 11], {}),
    }
    weights, shape, attributes = options[kind]
    model, feeds = one_node(kind, x, weights, shape, **attributes)
    whole = tuple(weight.astype(np.float32) for weight in weights)
    reference, wide = one_node(kind, x.astype(np.float32), whole, shape, **attributes)
    (expected,) = OnnxRuntime(reference).run(wide).values()
    (found,) = Interpreted(model, "nvvm:sm_80", 2).executable().run(feeds).values()
    difference = np.asarray(found, np.float64) - np.asarray(expected, np.float64)
    assert np.abs(difference).max() < 2e-3 * max(1.0, float(np.abs(np.asarray(expected)).max()))


def test_products_of_tf32() -> None:
    """Products of tf32 round each element to 11 significant bits, ties away from zero."""
    x, w = floats(64, 96), floats(96, 64)
    model, feeds = one_node("MatMul", x, (w,), [64, 64])
    interpreted = Interpreted(model, "nvvm:sm_80+tf32", 2)
    assert "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32" in interpreted.ptx
    (output,) = interpreted.executable().run(feeds).values()
    found = np.asarray(output, np.float64)
    rounded = [np.ldexp(rounded_to_11_bits(a), e) for a, e in (np.frexp(v) for v in (x, w))]
    expected = rounded[0].astype(np.float64) @ rounded[1].astype(np.float64)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    assert np.abs(found - x.astype(np.float64) @ w).max() > 1e-4


def rounded_to_11_bits(fractions: Any) -> Any:
    """Round numbers between 1/2 and 1 to 11 bits, ties away from zero."""
    scaled = np.abs(fractions.astype(np.float64)) * 2048
    return np.sign(fractions) * np.floor(scaled + 0.5) / 2048


@pytest.mark.parametrize(
    ("channels", "image", "kernel", "strides"),
    [(8, 14, 3, 1), (3, 17, 5, 2), (16, 8, 1, 1)],
)
def test_convolutions(channels: int, image: int, kernel: int, strides: int) -> None:
    x, w = floats(1, channels, image, image), floats(24, channels, kernel, kernel)
    pads = kernel // 2
    model, feeds = one_node(
        "Conv", x, (w, floats(24)), [1, 24, "h", "w"], pads=[pads] * 4, strides=[strides] * 2
    )
    ptx = check_runs(model, feeds, target="nvvm:sm_80", num_veus=3)
    assert ("cp.async" in ptx) == (kernel > 1)


def test_a_grouped_convolution() -> None:
    x, w = floats(1, 12, 10, 10), floats(12, 1, 3, 3)
    model, feeds = one_node("Conv", x, (w,), [1, 12, 10, 10], pads=[1] * 4, group=12)
    check_runs(model, feeds)


@pytest.mark.parametrize("shape", [(4, 300), (70, 33), (1, 2000)])
@pytest.mark.parametrize("kind", ["Softmax", "LogSoftmax"])
def test_softmax(kind: str, shape: tuple[int, int]) -> None:
    model, feeds = one_node(kind, 3 * floats(*shape), (), shape, axis=-1)
    check_runs(model, feeds)


@pytest.mark.parametrize("axis", [0, 1])
def test_reductions(axis: int) -> None:
    """Means over the rows and over the columns of a matrix are right."""
    x = floats(150, 130)
    model, feeds = one_node("ReduceMean", x, (), [280 - x.shape[axis]], axes=[axis], keepdims=0)
    check_runs(model, feeds)


@pytest.mark.parametrize(
    ("kind", "element", "shuffles"),
    [("ReduceMax", np.int8, 5), ("ReduceMin", np.uint8, 5), ("ReduceMax", np.float16, 5),
     ("ReduceMin", ml_dtypes.bfloat16, 5), ("ReduceMax", np.int64, 10),
     ("ReduceMin", np.float64, 10)],
)  # fmt: skip
def test_reductions_of_other_widths(kind: str, element: Any, shuffles: int) -> None:
    """Reductions exchange narrow values between lanes in 32-bit registers.

    Values of 64 bits are exchanged in halves, with twice as many shuffles.
    """
    x = (40 * floats(3, 200)).astype(element)
    model, feeds = one_node(kind, x, (), [3], axes=[1], keepdims=0)
    interpreted = Interpreted(model, num_veus=2)
    assert interpreted.ptx.count("shfl.sync") == shuffles
    (found,) = interpreted.executable().run(feeds).values()
    expected = x.max(1) if kind == "ReduceMax" else x.min(1)
    np.testing.assert_array_equal(np.asarray(found), expected)


def test_layer_normalization() -> None:
    x = floats(6, 200)
    model, feeds = one_node("LayerNormalization", x, (floats(200), floats(200)), x.shape)
    check_runs(model, feeds)


@pytest.mark.parametrize("sizes", [(40, 70), (64, 64), (3, 130)])
def test_transpositions(sizes: tuple[int, int]) -> None:
    model, feeds = one_node("Transpose", floats(2, *sizes), (), [2, *sizes[::-1]], perm=[0, 2, 1])
    check_runs(model, feeds)


@pytest.mark.parametrize("kind", ["Tanh", "Sigmoid", "Exp", "Erf", "Sqrt", "Reciprocal", "Sin"])
def test_functions(kind: str) -> None:
    x = np.abs(floats(7, 31)) + np.float32(0.1) if kind == "Sqrt" else 2 * floats(7, 31)
    model, feeds = one_node(kind, x, (), x.shape)
    check_runs(model, feeds, num_veus=1)


@pytest.mark.parametrize("element", [np.int32, np.int64, np.uint8, np.int8])
@pytest.mark.parametrize("kind", ["Add", "Mul", "Div", "Sub"])
def test_integers(kind: str, element: Any) -> None:
    """Integer arithmetic wraps modulo 2^n; quotients are rounded towards zero."""
    info = np.iinfo(element)
    x = RNG.integers(info.min, info.max, (5, 37), element, endpoint=True)
    w = RNG.integers(info.min, info.max, (5, 37), element, endpoint=True)
    w[w == 0] = 3
    w[w == -1] = 5
    model, feeds = one_node(kind, x, (w,), x.shape)
    check_runs(model, feeds, num_veus=1)


@pytest.mark.parametrize("element", [np.int32, np.int64, np.uint8, np.float32, np.bool_])
@pytest.mark.parametrize("to", [TensorProto.INT32, TensorProto.INT64, TensorProto.FLOAT])
def test_conversions(element: Any, to: int) -> None:
    x = (20 * floats(3, 41)).astype(element)
    model, feeds = one_node("Cast", x, (), x.shape, to=to)
    model.graph.output[0].type.tensor_type.elem_type = to
    check_runs(model, feeds, num_veus=1)


@pytest.mark.parametrize("to", [TensorProto.INT8, TensorProto.INT32, TensorProto.UINT32])
def test_conversions_out_of_range(to: int) -> None:
    """Instructions saturate numbers out of range; the results are those of x86 nevertheless."""
    numbers = [-1.5, 300.0, 3e9, 2.0**33, -(2.0**33), np.inf, -np.inf, np.nan]
    x = np.resize(np.array(numbers, np.float32), (3, 41))
    model, feeds = one_node("Cast", x, (), x.shape, to=to)
    model.graph.output[0].type.tensor_type.elem_type = to
    check_runs(model, feeds, num_veus=1)


def test_quantization() -> None:
    x, scale, zero = 9 * floats(3, 41), np.array(0.05, np.float32), np.array(3, np.int8)
    model, feeds = one_node("QuantizeLinear", x, (scale, zero), x.shape)
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.INT8
    check_runs(model, feeds, num_veus=1)


def test_largest_elements_of_rows() -> None:
    """TopK, whose comparison tests for NaN, has no function that needs a library."""
    x = floats(4, 40)
    graph = helper.make_graph(
        [helper.make_node("TopK", ["x", "k"], ["values", "places"])],
        "largest",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info("values", TensorProto.FLOAT, [4, 5]),
         helper.make_tensor_value_info("places", TensorProto.INT64, [4, 5])],
        [numpy_helper.from_array(np.array([5]), "k")],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    check_runs(model, {"x": x})
