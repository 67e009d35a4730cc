"""Tests that functions which GPUs compute by arithmetic, without libm, are accurate.

The reference is NumPy in float64.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from kernel_harness import kernel_of

from rammer_mlir.bindings import ir, passmanager
from rammer_mlir.lowering.cpu.kernels_to_llvm import lower_kernels
from rammer_mlir.lowering.llvm.codegen import emit_object
from rammer_mlir.lowering.llvm.expand_libm_functions import EXPANSIONS, expand_libm_functions
from rammer_mlir.lowering.llvm.jit import load_object
from rammer_mlir.lowering.llvm.machine import host_machine
from rammer_mlir.lowering.llvm.translation import to_llvm_ir

Array = np.ndarray[Any, np.dtype[Any]]

COUNT = 4096

SPECIAL = np.array(
    [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 1e-45, -1e-40, 1.1754942e-38, 1e-6, -1e-3,
     0.99999994, 1.0000001, -100.0, -1e4, 1e25, -1e25, 3.4028235e38, -3.4028235e38,
     88.73, -89.07, 89.4159, 89.42, -89.42],
    np.float32,
)  # fmt: skip

UNARY: dict[str, tuple[Callable[[Array], Array], float, float]] = {
    "math.sin": (np.sin, 3.4e38, 2.0),
    "math.cos": (np.cos, 3.4e38, 2.0),
    "math.tan": (np.tan, 3.4e38, 3.5),
    "math.sinh": (np.sinh, 89.4, 2.0),
    "math.cosh": (np.cosh, 89.4, 2.0),
    "math.asinh": (np.arcsinh, 3.4e38, 2.5),
    "math.acosh": (np.arccosh, 3.4e38, 2.5),
    "math.atanh": (np.arctanh, 0.99999994, 2.5),
    "math.atan": (np.arctan, 1e30, 2.5),
    "math.asin": (np.arcsin, 1.0, 2.5),
    "math.acos": (np.arccos, 1.0, 2.5),
}
"""By function: the reference, the largest argument, and the largest error in ulp."""


def compute(name: str, *arguments: Array) -> Array:
    """Evaluate a function's arithmetic expansion on f32 arrays, compiled for this processor."""
    kinds = ", ".join(f"%a{n}: memref<{COUNT}xf32>" for n in range(len(arguments)))
    loads = "\n".join(
        f"%x{n} = memref.load %a{n}[%i] : memref<{COUNT}xf32>" for n in range(len(arguments))
    )
    operands = ", ".join(f"%x{n}" for n in range(len(arguments)))
    text = f"""
func.func private @k(%id: index, {kinds}, %out: memref<{COUNT}xf32>) {{
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %count = arith.constant {COUNT} : index
  scf.for %i = %zero to %count step %one {{
    {loads}
    %y = {name} {operands} : f32
    memref.store %y, %out[%i] : memref<{COUNT}xf32>
  }}
  return
}}"""
    result = np.zeros(COUNT, np.float32)
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        expand_libm_functions(module)
        passmanager.PassManager.parse("builtin.module(canonicalize)").run(module.operation)
        assert not re.search(r"math\.(?!sqrt|trunc|fma)|remf", str(module))
        lower_kernels(module, host_machine())
        library = load_object(emit_object(to_llvm_ir(module), host_machine()))
    kernel_of(library, "k")(0, *arguments, result)
    return result


def ulps(found: Array, exact: Array) -> float:
    """Return the largest error of ``found`` in units in the last place of f32."""
    single = exact.astype(np.float32)
    same = (found == single) | (np.isnan(found) & np.isnan(exact))
    unit = np.spacing(np.minimum(np.abs(single), np.float32(3.4e38))).astype(np.float64)
    return float(np.max(np.where(same, 0.0, np.abs(found.astype(np.float64) - exact) / unit)))


def test_all_expansions_are_tested() -> None:
    assert set(EXPANSIONS) == {*UNARY, "math.atan2", "math.powf", "arith.remf"}


@pytest.mark.parametrize("name", UNARY)
def test_unary(name: str) -> None:
    """Functions of one argument are accurate for small and large arguments of both signs.

    Special numbers give NumPy's results, with the same signs of zeros.
    """
    reference, largest, limit = UNARY[name]
    rng = np.random.default_rng(1)
    exponents = rng.uniform(-100, np.log2(largest), COUNT)
    x = (np.exp2(exponents) * rng.choice([-1, 1], COUNT)).astype(np.float32)
    x = np.clip(x, -largest, largest)
    x[: COUNT // 2] = rng.uniform(-min(largest, 8), min(largest, 8), COUNT // 2)
    x[: len(SPECIAL)] = SPECIAL
    found = compute(name, x)
    with np.errstate(all="ignore"):
        exact = reference(x.astype(np.float64))
        assert ulps(found, exact) <= limit
    numbers = ~np.isnan(exact)
    np.testing.assert_array_equal(np.signbit(found)[numbers], np.signbit(exact)[numbers])


def test_atan2() -> None:
    """atan2 is accurate in all quadrants, and handles zeros and infinities as C does."""
    rng = np.random.default_rng(2)
    y, x = rng.standard_normal((2, COUNT)).astype(np.float32)
    special = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf], np.float32)
    y[:36], x[:36] = np.repeat(special, 6), np.tile(special, 6)
    found, exact = compute("math.atan2", y, x), np.arctan2(y.astype(np.float64), x)
    assert ulps(found, exact) <= 3.0
    np.testing.assert_array_equal(np.signbit(found), np.signbit(exact))


def test_powf() -> None:
    """Powers are accurate, and negative bases, zeros, infinities and NaN give NumPy's results."""
    rng = np.random.default_rng(3)
    x = np.exp(rng.uniform(-20, 20, COUNT)).astype(np.float32)
    y = rng.uniform(-6, 6, COUNT).astype(np.float32)
    bases = np.array([0.0, -0.0, 1.0, -1.0, -2.5, np.inf, -np.inf, np.nan, 2.0], np.float32)
    powers = np.array([0.0, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 0.5, -0.5, 127.0], np.float32)
    powers = np.concatenate([powers, np.array([np.inf, -np.inf, np.nan], np.float32)])
    bases = np.concatenate([bases, np.array([0.5, -0.5, 1e-40], np.float32)])
    pairs = len(bases) * len(powers)
    x[:pairs], y[:pairs] = np.repeat(bases, len(powers)), np.tile(powers, len(bases))
    with np.errstate(all="ignore"):
        exact = np.power(x.astype(np.float64), y.astype(np.float64))
        single = exact.astype(np.float32)
    found = compute("math.powf", x, y)
    ordinary = np.isfinite(single) & (np.abs(single) > 1e-37)
    np.testing.assert_array_equal(found[~np.isfinite(single)], single[~np.isfinite(single)])
    np.testing.assert_array_equal(found[:pairs][single[:pairs] == 0], 0)
    assert ulps(found[ordinary], exact[ordinary]) <= 1.0


def test_remf() -> None:
    """The remainder equals C's fmod bit by bit, up to the largest ratio of two f32 numbers."""
    rng = np.random.default_rng(4)
    x, y = np.ldexp(rng.uniform(-1, 1, (2, COUNT)), rng.integers(-148, 128, (2, COUNT)))
    x[: COUNT // 2] = y[: COUNT // 2] * rng.integers(-(1 << 20), 1 << 20, COUNT // 2)
    with np.errstate(over="ignore"):
        x, y = x.astype(np.float32), y.astype(np.float32)
    special = np.array([0.0, -0.0, 1.0, -3.0, 1e-45, 3.4e38, np.inf, -np.inf, np.nan], np.float32)
    x[:81], y[:81] = np.repeat(special, 9), np.tile(special, 9)
    with np.errstate(all="ignore"):
        exact = np.fmod(x, y)
    found = compute("arith.remf", x, y)
    numbers = ~np.isnan(exact)
    np.testing.assert_array_equal(np.isnan(found), ~numbers)
    assert found[numbers].tobytes() == exact[numbers].tobytes()
