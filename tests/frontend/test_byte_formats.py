"""Tests that conversions to and from types of at most 8 bits agree with ml_dtypes and ONNX."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

import rammer_mlir
from rammer_mlir.errors import RammerError

Array = NDArray[Any]

FLOATS = {
    "float8_e4m3fn": 8,
    "float8_e4m3fnuz": 8,
    "float8_e5m2": 8,
    "float8_e5m2fnuz": 8,
    "float8_e8m0fnu": 8,
    "float6_e2m3fn": 6,
    "float6_e3m2fn": 6,
    "float4_e2m1fn": 4,
}
INTEGERS = {"int4": 4, "uint4": 4, "int2": 2, "uint2": 2}


def dtype_of(name: str) -> np.dtype[Any]:
    return np.dtype(getattr(ml_dtypes, name))


def all_codes(name: str) -> Array:
    """Return an array that has each bit pattern of the element type ``name`` once.

    ``name`` is a type of ml_dtypes of at most 8 bits, such as "int4".
    """
    return np.arange(1 << {**FLOATS, **INTEGERS}[name], dtype=np.uint8).view(dtype_of(name))


def numbers(dtype: type[np.generic]) -> Array:
    """Return numbers that are difficult to round to small types.

    They are numbers near those of small types, ties, numbers out of range, NaN, infinities, and
    random bits.
    """
    rng = np.random.default_rng(0)
    with np.errstate(all="ignore"):
        near = [
            all_codes(name).astype(np.float64) * factor
            for name in FLOATS
            for factor in (1, 1 + 2.0**-40, 1 - 2.0**-40, 1.0625, -1.03125, 1.25, 0.5)
        ]
        special = [0.0, -0.0, np.nan, np.inf, -np.inf, 464, 465, 61439, 61440, 2.0**-127, 1e-45]
        bits = rng.integers(0, 2**32, 2000, dtype=np.uint32).view(np.float32).astype(np.float64)
        return np.concatenate([*near, special, bits]).astype(dtype)


def converted(x: Array, target: np.dtype[Any], **attributes: Any) -> Array:
    """Return the result of a compiled Cast of ``x`` to type ``target``."""
    kinds = [helper.np_dtype_to_tensor_dtype(dtype) for dtype in (x.dtype, target)]
    node = helper.make_node("Cast", ["x"], ["y"], to=kinds[1], **attributes)
    graph = helper.make_graph(
        [node],
        "cast",
        [helper.make_tensor_value_info("x", kinds[0], x.shape)],
        [helper.make_tensor_value_info("y", kinds[1], x.shape)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 28)])
    with rammer_mlir.compile(model, num_veus=1, cache=False) as executable:
        return executable.run({"x": x})["y"]


def test_a_cast_to_the_type_of_another_tensor_keeps_its_attributes() -> None:
    kind = TensorProto.FLOAT8E4M3FN
    nodes = [helper.make_node("CastLike", ["x", "like"], ["y"], saturate=0)]
    graph = helper.make_graph(
        nodes,
        "like",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, (1,)),
            helper.make_tensor_value_info("like", kind, (0,)),
        ],
        [helper.make_tensor_value_info("y", kind, (1,))],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 28)])
    like = np.zeros(0, dtype_of("float8_e4m3fn"))
    with rammer_mlir.compile(model, num_veus=1, cache=False) as executable:
        found = executable.run({"x": np.array([1e6], np.float32), "like": like})["y"]
    assert np.isnan(found.astype(np.float32)).all()


def assert_same(found: Array, expected: Array) -> None:
    """Check that arrays have equal types and elements, with NaN equal to NaN.

    For float8 types, zeros must also have equal signs.
    """
    assert found.dtype == expected.dtype
    left, right = (np.asarray(a, np.float64) for a in (found, expected))
    np.testing.assert_array_equal(left, right)
    kept = ~np.isnan(left)
    if expected.dtype.name.startswith("float8"):  # else, ml_dtypes makes NaN a zero of a sign
        np.testing.assert_array_equal(np.signbit(left)[kept], np.signbit(right)[kept])


@pytest.mark.parametrize("name", [*FLOATS, *INTEGERS])
def test_every_code_is_read(name: str) -> None:
    codes = all_codes(name)
    assert_same(converted(codes, np.dtype(np.float32)), codes.astype(np.float32))


@pytest.mark.parametrize("name", [name for name in FLOATS if name != "float8_e8m0fnu"])
@pytest.mark.parametrize("source", [np.float16, np.float32, np.float64])
def test_floats_are_rounded_as_numpy_does(name: str, source: type[np.generic]) -> None:
    x, target = numbers(source), dtype_of(name)
    with np.errstate(all="ignore"):
        assert_same(converted(x, target, saturate=0), x.astype(target))
        if name.startswith("float8"):
            assert_same(converted(x, target), numpy_helper.saturate_cast(x, target))


@pytest.mark.parametrize("rounding", ["up", "down", "nearest"])
@pytest.mark.parametrize("saturate", [0, 1])
def test_powers_of_two_are_rounded_as_asked(rounding: str, saturate: int) -> None:
    x, target = numbers(np.float32), dtype_of("float8_e8m0fnu")
    found = converted(x, target, saturate=saturate, round_mode=rounding)
    assert_same(found, numpy_helper.to_float8e8m0(x, bool(saturate), rounding).view(target))


@pytest.mark.parametrize("name", INTEGERS)
@pytest.mark.parametrize("other", [np.int8, np.uint8, np.int64, np.float32])
def test_narrow_integers_wrap_around(name: str, other: type[np.generic]) -> None:
    x = np.arange(-40, 40).astype(np.int8).astype(other)
    assert_same(converted(x, dtype_of(name)), x.astype(dtype_of(name)))
    codes = all_codes(name)
    assert_same(converted(codes, np.dtype(other)), codes.astype(other))


def model_of(nodes: list[Any], kind: int, constants: Sequence[Any] = ()) -> Any:
    graph = helper.make_graph(
        nodes,
        "bytes",
        [helper.make_tensor_value_info("x", kind, (2, 3))],
        [helper.make_empty_tensor_value_info("y")],
        constants,
    )
    graph.output[0].type.tensor_type.elem_type = kind
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 28)])


@pytest.mark.parametrize("name", ["int4", "uint2", "float8_e4m3fn", "float4_e2m1fn"])
def test_elements_are_moved_as_they_are(name: str) -> None:
    kind = helper.np_dtype_to_tensor_dtype(dtype_of(name))
    value = numpy_helper.from_array(np.array(1).astype(dtype_of(name)), "value")
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[1, 0]),
        helper.make_node("Pad", ["t", "pads", "value"], ["y"]),
    ]
    pads = numpy_helper.from_array(np.array([0, 1, 1, 0], np.int64), "pads")
    x = np.arange(6).astype(np.float32).astype(dtype_of(name)).reshape(2, 3)
    model = model_of(nodes, kind, [pads, value])
    with rammer_mlir.compile(model, num_veus=1, cache=False) as executable:
        found = executable.run({"x": x})["y"]
    expected = np.pad(x.T.view(np.uint8), ((0, 1), (1, 0)), constant_values=code_of_one(name))
    np.testing.assert_array_equal(found.view(np.uint8), expected)


def code_of_one(name: str) -> int:
    return int(np.array(1).astype(dtype_of(name)).view(np.uint8))


def test_arithmetic_on_bytes_is_refused_by_name() -> None:
    """Arithmetic on float8 is refused with the node's name, even where ONNX allows it."""
    kind, scale = TensorProto.FLOAT8E5M2, numpy_helper.from_array(np.array(1, np.float32), "s")
    zero = numpy_helper.from_array(np.zeros((), dtype_of("float8_e5m2")), "z")
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"]),
        helper.make_node("QLinearMatMul", ["x", "s", "z", "t", "s", "z", "s", "z"], ["y"], "m"),
    ]
    with pytest.raises(RammerError, match=r"'m' \(QLinearMatMul\): arithmetic on float8_e5m2"):
        rammer_mlir.compile(model_of(nodes, kind, [scale, zero]), cache=False)
    nodes = [helper.make_node("Add", ["x", "x"], ["y"], "sum")]
    with pytest.raises(RammerError, match="'sum'"):
        rammer_mlir.compile(model_of(nodes, kind), cache=False)


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2", "float8_e5m2fnuz"])
def test_codes_without_a_number_are_told(name: str) -> None:
    kind, codes = helper.np_dtype_to_tensor_dtype(dtype_of(name)), all_codes(name)
    graph = helper.make_graph(
        [helper.make_node("IsNaN", ["x"], ["n"]), helper.make_node("IsInf", ["x"], ["i"])],
        "codes",
        [helper.make_tensor_value_info("x", kind, codes.shape)],
        [helper.make_tensor_value_info(n, TensorProto.BOOL, codes.shape) for n in ("n", "i")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 28)])
    with rammer_mlir.compile(model, num_veus=1, cache=False) as executable:
        found = executable.run({"x": codes})
    np.testing.assert_array_equal(found["n"], np.isnan(codes.astype(np.float32)))
    np.testing.assert_array_equal(found["i"], np.isinf(codes.astype(np.float32)))


@pytest.mark.parametrize("name", ["int4", "float8_e4m3fn"])
def test_quantized_weights_are_stored_and_loaded(name: str, tmp_path: Path) -> None:
    """Weights of 4 or 8 bits, quantized in blocks of 16, are right after saving and loading.

    They are large enough to be stored outside of the graph.
    """
    rng = np.random.default_rng(0)
    weights = rng.integers(-8, 8, (64, 48)).astype(np.float32).astype(dtype_of(name))
    scales = (rng.random((4, 48)) + 0.5).astype(np.float32)
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s"], ["v"], axis=0, block_size=16),
        helper.make_node("MatMul", ["x", "v"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "weights",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (3, 64))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (3, 48))],
        [numpy_helper.from_array(weights, "w"), numpy_helper.from_array(scales, "s")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 28)])
    x = rng.standard_normal((3, 64)).astype(np.float32)
    expected = x @ (weights.astype(np.float32) * np.repeat(scales, 16, axis=0))
    with rammer_mlir.compile(model, cache=False, num_veus=2) as executable:
        executable.save(tmp_path / "model.rammer")
    with rammer_mlir.load(tmp_path / "model.rammer") as executable:
        found: Array = executable.run({"x": x})["y"]
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    with rammer_mlir.compile(model, target="nvvm:sm_90", emulate=True, num_veus=2) as executable:
        found = executable.run({"x": x})["y"]
        np.testing.assert_allclose(found, expected, rtol=1e-2, atol=1e-1)
