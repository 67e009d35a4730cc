"""The expansions of transcendental functions against float64, in units in the last place."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from kernel_harness import Array, assembly, compile_kernel, from_bfloat16, to_bfloat16

from rammer_mlir.lowering.llvm.machine import X86_64_AVX2, X86_64_AVX512

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
    ("math.sin", np.sin, 1.0, (-100.0, 100.0)),
    ("math.cos", np.cos, 1.0, (-100.0, 100.0)),
    ("math.sqrt", np.sqrt, 0.5, (0.0, 100.0)),
    ("math.rsqrt", lambda x: 1.0 / np.sqrt(x), 1.5, (0.0, 100.0)),
]
_SPECIAL = [0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 1e-45, -1e-45, 1.1754942e-38,
            3.4028235e38, -3.4028235e38, 88.72283, 88.72285, -87.3, -103.97, 0.5, 9.01, 1e-8,
            0.99999994, 1.0000001, 1e6, 1e10, -1e10]  # fmt: skip


def _source(operation: str, kind: str, count: int) -> str:
    memref = f"memref<{count}x{kind}>"
    maps = "affine_map<(i) -> (i)>, affine_map<(i) -> (i)>"
    return f"""
func.func private @k(%id: index, %x: {memref}, %y: {memref}) {{
  linalg.generic {{indexing_maps = [{maps}], iterator_types = ["parallel"]}}
      ins(%x : {memref}) outs(%y : {memref}) {{
  ^bb0(%in: {kind}, %out: {kind}):
    %r = {operation} %in : {kind}
    linalg.yield %r : {kind}
  }}
  return
}}"""


@cache
def _inputs(low: float, high: float) -> Array:
    """Dense in the interval, spread over all magnitudes, and the special values."""
    random = np.random.default_rng(0)
    dense = random.uniform(low, high, _COUNT // 2).astype(np.float32)
    bits = random.integers(0, 1 << 32, _COUNT // 2 - len(_SPECIAL), dtype=np.uint32)
    return np.concatenate([dense, bits.view(np.float32), np.array(_SPECIAL, np.float32)])


def _ulp_errors(got: Array, expected: Array) -> Array:
    """Return the distance in units in the last place of the exact value's float32."""
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


@pytest.mark.parametrize("name", ["math.exp", "math.tanh", "math.log", "math.erf", "math.log1p"])
def test_signed_zeros(name: str) -> None:
    x = np.array([0.0, -0.0], np.float32)
    y = np.ones_like(x)
    compile_kernel(_source(name, "f32", 2))(0, x, y)
    expected = {"math.exp": [1.0, 1.0], "math.log": [-np.inf, -np.inf]}.get(name, [0.0, -0.0])
    assert y.tolist() == expected
    assert np.signbit(y).tolist() == np.signbit(expected).tolist()


@pytest.mark.parametrize("machine", [X86_64_AVX2, X86_64_AVX512])
@pytest.mark.parametrize("name", ["math.exp", "math.tanh", "math.log", "math.erf"])
def test_no_calls(name: str, machine: object) -> None:
    assert "call" not in assembly(_source(name, "f32", 1024), machine)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["exp", "tanh", "log", "atan", "cosh"])
def test_double_precision(name: str) -> None:
    reference = {"atan": np.arctan}.get(name) or getattr(np, name)
    x = np.random.default_rng(1).uniform(0.1, 3.0, 37)
    y = np.zeros_like(x)
    compile_kernel(_source(f"math.{name}", "f64", 37))(0, x, y)
    np.testing.assert_allclose(y, reference(x), rtol=1e-14)


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
