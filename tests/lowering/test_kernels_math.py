"""Tests that the compiler's expansions of transcendental functions are accurate.

The reference is float64; errors are counted in units in the last place.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from kernel_harness import (
    Array,
    assembly,
    compile_kernel,
    from_bfloat16,
    lower_text,
    to_bfloat16,
)
from machines import X86_64_AVX2, X86_64_AVX512, X86_64_BASELINE

from rammer_mlir.lowering.llvm.machine import Machine, host_machine

_COUNT = 40000

# Function, reference on float64, largest error in ulp, interval that is sampled densely.
_FUNCTIONS: list[tuple[str, Callable[[Array], Array], float, tuple[float, float]]] = [
    ("math.exp", np.exp, 1.0, (-104.0, 89.0)),
    ("math.exp2", np.exp2, 1.0, (-150.0, 128.0)),
    ("math.expm1", np.expm1, 2.0, (-20.0, 89.0)),
    ("math.log", np.log, 1.0, (0.0, 4.0)),
    ("math.log1p", np.log1p, 2.0, (-1.0, 4.0)),
    ("math.tanh", np.tanh, 3.0, (-10.0, 10.0)),
    ("math.erf", np.vectorize(math.erf), 2.0, (-5.0, 5.0)),
    ("math.sin", np.sin, 2.0, (-100.0, 100.0)),
    ("math.cos", np.cos, 2.0, (-100.0, 100.0)),
    ("math.atan", np.arctan, 2.5, (-10.0, 10.0)),
    ("math.asin", np.arcsin, 2.5, (-1.0, 1.0)),
    ("math.acos", np.arccos, 2.5, (-1.0, 1.0)),
    ("math.sqrt", np.sqrt, 0.5, (0.0, 100.0)),
    ("math.rsqrt", lambda x: 1.0 / np.sqrt(x), 1.5, (0.0, 100.0)),
]
_SPECIAL = [0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 1e-45, -1e-45, 1.1754942e-38,
            3.4028235e38, -3.4028235e38, 88.72283, 88.72285, -87.3, -103.97, 0.5, 9.01, 1e-8,
            0.99999994, 1.0000001, 1e6, 1e10, -1e10]  # fmt: skip


def _source(operation: str, kind: str, count: int, flags: str = "") -> str:
    memref = f"memref<{count}x{kind}>"
    maps = "affine_map<(i) -> (i)>, affine_map<(i) -> (i)>"
    return f"""
func.func private @k(%id: index, %x: {memref}, %y: {memref}) {{
  linalg.generic {{indexing_maps = [{maps}], iterator_types = ["parallel"]}}
      ins(%x : {memref}) outs(%y : {memref}) {{
  ^bb0(%in: {kind}, %out: {kind}):
    %r = {operation} %in {flags} : {kind}
    linalg.yield %r : {kind}
  }}
  return
}}"""


@cache
def _inputs(low: float, high: float) -> Array:
    """Return numbers dense in an interval, numbers of all magnitudes, and special values."""
    random = np.random.default_rng(0)
    dense = random.uniform(low, high, _COUNT // 2).astype(np.float32)
    bits = random.integers(0, 1 << 32, _COUNT // 2 - len(_SPECIAL), dtype=np.uint32)
    return np.concatenate([dense, bits.view(np.float32), np.array(_SPECIAL, np.float32)])


def _ulp_errors(got: Array, expected: Array) -> Array:
    """Return the errors of ``got`` in units in the last place of ``expected`` as float32."""
    rounded = np.abs(expected).astype(np.float32)
    spacing = np.spacing(np.minimum(rounded, np.float32(3.4e38))).astype(np.float64)
    same = (got == expected.astype(np.float32)) | (np.isnan(got) & np.isnan(expected))
    return np.where(same, 0.0, np.abs(got.astype(np.float64) - expected) / spacing)


@pytest.mark.parametrize(("name", "reference", "limit", "interval"), _FUNCTIONS)
def test_accuracy(
    name: str, reference: Callable[[Array], Array], limit: float, interval: tuple[float, float]
) -> None:
    x = _inputs(*interval)
    y = np.zeros_like(x)
    compile_kernel(_source(name, "f32", len(x)))(0, x, y)
    with np.errstate(all="ignore"):
        expected = reference(x.astype(np.float64))
        errors = _ulp_errors(y, expected)
    worst = int(np.nanargmax(np.where(np.isnan(errors), np.inf, errors)))
    assert errors[worst] <= limit, f"{name}({x[worst]!r}) = {y[worst]!r}, not {expected[worst]!r}"


def test_accuracy_of_approximate_exponentials() -> None:
    """Approximate exponentials have errors of at most 1 ulp; below x = -86.9 they may be 0."""
    x = _inputs(-104.0, 89.0)
    y = np.ones_like(x)
    compile_kernel(_source("math.exp", "f32", len(x), "fastmath<afn>"))(0, x, y)
    with np.errstate(all="ignore"):
        expected = np.exp(x.astype(np.float64))
        errors = _ulp_errors(y, expected)
    errors = np.where((x < -86.9) & (y == 0), 0.0, errors)
    worst = int(np.nanargmax(np.where(np.isnan(errors), np.inf, errors)))
    assert errors[worst] <= 1.0, f"exp({x[worst]!r}) = {y[worst]!r}, not {expected[worst]!r}"
    assert y[x == -np.inf].tolist() == [0.0]


_SIGNED = [
    "math.exp", "math.tanh", "math.log", "math.erf", "math.log1p", "math.sin", "math.atan",
    "math.asin",
]  # fmt: skip


@pytest.mark.parametrize("name", _SIGNED)
@pytest.mark.parametrize("count", [2, 64])  # scalars, and vectors
def test_signed_zeros(name: str, count: int) -> None:
    x = np.array([0.0, -0.0] * (count // 2), np.float32)
    y = np.ones_like(x)
    compile_kernel(_source(name, "f32", count))(0, x, y)
    expected = {"math.exp": [1.0, 1.0], "math.log": [-np.inf, -np.inf]}.get(name, [0.0, -0.0])
    expected *= count // 2
    assert y.tolist() == expected
    assert np.signbit(y).tolist() == np.signbit(expected).tolist()


@pytest.mark.parametrize("name", ["math.tanh", "math.erf", "math.sin", "math.atan", "math.asin"])
def test_odd_functions(name: str) -> None:
    low, high = (-1.0, 1.0) if name == "math.asin" else (-12.0, 12.0)
    x = _inputs(low, high)
    kernel = compile_kernel(_source(name, "f32", len(x)))
    y, mirrored = np.zeros_like(x), np.zeros_like(x)
    kernel(0, x, y)
    kernel(0, -x, mirrored)
    np.testing.assert_array_equal(mirrored, -y)


@pytest.mark.parametrize("machine", [X86_64_AVX2, X86_64_AVX512])
@pytest.mark.parametrize(
    "name", ["math.exp", "math.tanh", "math.log", "math.erf", "math.atan", "math.asin", "math.acos"]
)
def test_no_calls(name: str, machine: Machine) -> None:
    assert "call" not in assembly(_source(name, "f32", 1024), machine)


@pytest.mark.parametrize("name", ["exp", "tanh", "log", "atan", "cosh"])
def test_double_precision(name: str) -> None:
    reference = {"atan": np.arctan}.get(name) or getattr(np, name)
    x = np.random.default_rng(1).uniform(0.1, 3.0, 37)
    y = np.zeros_like(x)
    compile_kernel(_source(f"math.{name}", "f64", 37))(0, x, y)
    np.testing.assert_allclose(y, reference(x), rtol=1e-14)


@pytest.mark.parametrize("name", ["expm1", "log1p"])
def test_double_precision_near_zero(name: str) -> None:
    """expm1 and log1p in f64 are accurate near zero, at infinities and at poles.

    Near zero, exp(x) - 1 and log(1 + x) would lose all digits.
    """
    random = np.random.default_rng(1)
    x = np.concatenate([
        random.uniform(-0.99, 3.0, 40), 10.0 ** random.uniform(-300, -1, 40),
        -(10.0 ** random.uniform(-300, -1, 40)), [700.0, 1e300, math.inf, math.nan, 0.0, -0.0],
        [-1.0, -2.0, -700.0, -math.inf],
    ])  # fmt: skip
    y = np.zeros_like(x)
    compile_kernel(_source(f"math.{name}", "f64", len(x)))(0, x, y)
    with np.errstate(all="ignore"):
        exact = getattr(np, name)(x)
    np.testing.assert_allclose(y, exact, rtol=4e-15)
    assert np.signbit(y[exact == 0]).tolist() == np.signbit(exact[exact == 0]).tolist()


@pytest.mark.parametrize("name", ["exp", "tanh", "log", "sqrt"])
def test_narrow_types(name: str) -> None:
    x = np.random.default_rng(2).uniform(0.1, 3.0, 100).astype(np.float32)
    half = x.astype(np.float16)
    result = np.zeros_like(half)
    compile_kernel(_source(f"math.{name}", "f16", 100))(0, half, result)
    exact = getattr(np, name)(half.astype(np.float64))
    np.testing.assert_allclose(result, exact, rtol=1e-3, atol=1e-3)
    brain = to_bfloat16(x)
    rounded = np.zeros_like(brain)
    compile_kernel(_source(f"math.{name}", "bf16", 100))(0, brain, rounded)
    exact = getattr(np, name)(from_bfloat16(brain).astype(np.float64))
    np.testing.assert_allclose(from_bfloat16(rounded), exact, rtol=5e-3, atol=5e-3)


def _elementwise(body: str, kinds: list[str], count: int) -> str:
    """Return a kernel that computes ``body`` for each element.

    ``body`` computes %r from %b0, %b1, ...; ``kinds`` has the element types of the inputs, and of
    the result at the end.
    """
    memrefs = [f"memref<{count}x{kind}>" for kind in kinds]
    arguments = ", ".join(f"%a{k}: {memref}" for k, memref in enumerate(memrefs))
    maps = ", ".join(["affine_map<(i) -> (i)>"] * len(kinds))
    names = ", ".join(f"%a{k}" for k in range(len(kinds) - 1))
    return f"""
func.func private @k(%id: index, {arguments}) {{
  linalg.generic {{indexing_maps = [{maps}], iterator_types = ["parallel"]}}
      ins({names} : {", ".join(memrefs[:-1])}) outs(%a{len(kinds) - 1} : {memrefs[-1]}) {{
  ^bb0({", ".join(f"%b{k}: {kind}" for k, kind in enumerate(kinds))}):
    {body}
    linalg.yield %r : {kinds[-1]}
  }}
  return
}}"""


def _power_of_the_other(a: Array, b: Array) -> Array:
    return np.power(b, a)


def _ceil_divide(a: Array, b: Array) -> Array:
    return -(-a // b)


def _second(_a: Array, b: Array) -> Array:
    return b


@pytest.mark.parametrize(
    ("body", "kinds", "reference"),
    [
        ("%r = math.powf %b0, %b1 : f32", ["f32", "f32", "f32"], np.power),
        ("%r = math.atan2 %b0, %b1 : f32", ["f32", "f32", "f32"], np.arctan2),
        ("%r = arith.remf %b0, %b1 : f32", ["f32", "f32", "f32"], np.fmod),
        ("%r = math.fpowi %b0, %b1 : f32, i32", ["f32", "i32", "f32"], np.power),
        ("%r = math.ipowi %b1, %b0 : i32", ["i32", "i32", "i32"], _power_of_the_other),
        ("%r = math.clampf %b0 to [%b1, %b1] : f32", ["f32", "f32", "f32"], _second),
        ("%r = arith.ceildivsi %b0, %b1 : i64", ["i64", "i64", "i64"], _ceil_divide),
    ],
)
def test_binary_functions(
    body: str, kinds: list[str], reference: Callable[[Array, Array], Array]
) -> None:
    types = {"f32": np.float32, "i32": np.int32, "i64": np.int64}
    random = np.random.default_rng(4)
    x, y = (random.uniform(1, 6, 37).astype(types[kind]) for kind in kinds[:2])
    z = np.zeros(37, types[kinds[2]])
    compile_kernel(_elementwise(body, kinds, 37))(0, x, y, z)
    np.testing.assert_allclose(z, reference(x, y), rtol=1e-6)


_NUMBERS = np.array(
    [0.0, -0.0, 1.0, -1.0, -2.5, 3.0, 0.5, -0.5, 127.0, np.inf, -np.inf, np.nan, 1e-40, 3e38],
    np.float32,
)


@pytest.mark.parametrize(
    ("name", "reference", "limit"), [("powf", np.power, 1.0), ("atan2", np.arctan2, 3.0)]
)
def test_special_and_ordinary_pairs(
    name: str, reference: Callable[[Array, Array], Array], limit: float
) -> None:
    """Powers and atan2 are accurate for all pairs of special numbers and for ordinary pairs.

    The ordinary pairs fill vectors, which are computed without libm.
    """
    random = np.random.default_rng(5)
    ordinary = np.exp(random.uniform(-20, 20, 4096)).astype(np.float32)
    x = np.concatenate([np.repeat(_NUMBERS, len(_NUMBERS)), ordinary])
    y = np.concatenate([np.tile(_NUMBERS, len(_NUMBERS)), random.uniform(-6, 6, 4096)])
    y, z = y.astype(np.float32), np.zeros(len(x), np.float32)
    body = f"%r = math.{name} %b0, %b1 : f32"
    compile_kernel(_elementwise(body, ["f32", "f32", "f32"], len(x)))(0, x, y, z)
    with np.errstate(all="ignore"):
        exact = reference(x.astype(np.float64), y.astype(np.float64))
        errors = _ulp_errors(z, exact)
    normal = ~np.isfinite(exact) | (np.abs(exact) > 1e-37) | (exact == 0)
    worst = int(np.nanargmax(np.where(normal, errors, 0.0)))
    assert errors[worst] <= limit, f"{name}({x[worst]!r}, {y[worst]!r}) = {z[worst]!r}"
    assert np.array_equal(np.isnan(z), np.isnan(exact))


@pytest.mark.parametrize(("name", "test"), [("isinf", np.isinf), ("isnan", np.isnan)])
def test_predicates(name: str, test: Callable[[Array], Array]) -> None:
    x, y = np.array(_SPECIAL, np.float32), np.zeros(len(_SPECIAL), np.bool_)
    compile_kernel(_elementwise(f"%r = math.{name} %b0 : f32", ["f32", "i1"], len(x)))(0, x, y)
    np.testing.assert_array_equal(y, test(x))


@pytest.mark.parametrize(
    ("body", "kinds"),
    [
        ("%r = arith.truncf %b0 : f64 to f16", ["f64", "f16"]),
        ("%r = arith.extf %b0 : f16 to f64", ["f16", "f64"]),
        ("%r = arith.sitofp %b0 : i32 to f16", ["i32", "f16"]),
        ("%r = arith.fptosi %b0 : f16 to i32", ["f16", "i32"]),
        ("%r = arith.uitofp %b0 : i8 to f32", ["i8", "f32"]),
    ],
)
@pytest.mark.parametrize("machine", [None, X86_64_BASELINE])
def test_conversions(body: str, kinds: list[str], machine: Machine | None) -> None:
    types = {"f64": np.float64, "f32": np.float32, "f16": np.float16, "i32": np.int32,
             "i8": np.uint8}  # fmt: skip
    if machine is not None and not host_machine().triple.startswith("x86_64"):
        pytest.skip("runs code for x86-64")
    x = np.random.default_rng(5).uniform(0, 200, 37).astype(types[kinds[0]])
    y = np.zeros(37, types[kinds[1]])
    compile_kernel(_elementwise(body, kinds, 37), machine=machine)(0, x, y)
    np.testing.assert_array_equal(y, x.astype(types[kinds[1]]))


@pytest.mark.parametrize("count", [1, 37])
def test_clamped_nan_becomes_an_integer(count: int) -> None:
    """A clamped float is not checked again before its conversion; NaN becomes the lower limit."""
    body = """%low = arith.constant -5.0 : f32
    %high = arith.constant 6.0 : f32
    %least = arith.maximumf %b0, %low : f32
    %most = arith.minimumf %least, %high : f32
    %r = arith.fptosi %most : f32 to i8"""
    source = _elementwise(body, ["f32", "i8"], count)
    assert "llvm.fabs" not in lower_text(source)
    kernel = compile_kernel(source)
    for number, expected in [(np.nan, -5), (np.inf, 6), (-np.inf, -5), (-4.7, -4), (100, 6)]:
        y = np.zeros(count, np.int8)
        kernel(0, np.full(count, number, np.float32), y)
        np.testing.assert_array_equal(y, np.full(count, expected, np.int8))


def test_half_precision_without_instructions() -> None:
    """Conversions between f16 and f32 are right on a machine without f16 instructions.

    All f16 numbers are extended. The f32 numbers that are rounded are all f16 numbers, the
    midpoints between them, and the neighbors of the midpoints.
    """
    if not host_machine().triple.startswith("x86_64"):
        pytest.skip("runs code for x86-64")
    half = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16).view(np.float16)
    wide = np.zeros(1 << 16, np.float32)
    source = _elementwise("%r = arith.extf %b0 : f16 to f32", ["f16", "f32"], 1 << 16)
    compile_kernel(source, machine=X86_64_BASELINE)(0, half, wide)
    np.testing.assert_array_equal(wide, half.astype(np.float32))
    finite = np.sort(wide[np.isfinite(wide)])
    middle = (finite[1:] + finite[:-1]) / 2
    beyond = np.array([65519.9, 65520, 1e30, 1e-30, np.inf, -np.inf, np.nan], np.float32)
    x = np.concatenate([finite, middle, np.nextafter(middle, np.float32(np.inf)),
                        np.nextafter(middle, -np.float32(np.inf)), beyond])  # fmt: skip
    y = np.zeros(len(x), np.float16)
    source = _elementwise("%r = arith.truncf %b0 : f32 to f16", ["f32", "f16"], len(x))
    compile_kernel(source, machine=X86_64_BASELINE)(0, x, y)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(y, x.astype(np.float16))
