"""Tests that square roots and logarithms of complex numbers are accurate.

The numbers have parts up to the largest and down to the smallest floats.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rammer_mlir

Array = np.ndarray[Any, np.dtype[Any]]
_WIDER = {"complex64": np.complex128, "complex128": np.clongdouble}


def _inverse_root(numbers: Array) -> Array:
    return 1 / np.sqrt(numbers)


_FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "sqrt": np.sqrt, "log": np.log, "rsqrt": _inverse_root,
}  # fmt: skip


def _run(function: str, numbers: Array) -> Array:
    element = {"complex64": "f32", "complex128": "f64"}[numbers.dtype.name]
    kind = f"tensor<{len(numbers)}xcomplex<{element}>>"
    exe = rammer_mlir.compile(
        f"func.func @f(%x: {kind}) -> {kind} {{\n"
        f"  %0 = stablehlo.{function} %x : {kind}\n"
        f"  return %0 : {kind}\n}}"
    )
    (found,) = exe.run({exe.input_names[0]: numbers}).values()
    return found


def _pairs(parts: Array, dtype: str) -> Array:
    """Return all complex numbers whose real and imaginary parts are among ``parts``."""
    pairs = np.array(list(itertools.product(parts, parts)), parts.dtype)
    return pairs.view(dtype)[:, 0]


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("function", _FUNCTIONS)
def test_finite_numbers(function: str, dtype: str) -> None:
    """Each part is within 4 units in the last place, however great the other part is."""
    info = np.finfo(dtype)
    exponents = np.random.default_rng(0).uniform(-30, 30, 8)
    extremes = np.array([info.max, info.max / 2, info.tiny], info.dtype)
    sizes = np.concatenate([np.array([0, 0.5, 0.6, 0.8, 1, 1.5, 4]), extremes, 10.0**exponents])
    numbers = _pairs(np.concatenate([sizes, -sizes]).astype(info.dtype), dtype)
    numbers = numbers[numbers != 0]
    found = _run(function, numbers)
    expected = _FUNCTIONS[function](numbers.astype(_WIDER[dtype]))
    for part in ("real", "imag"):
        want = getattr(expected, part)
        unit = np.spacing(np.abs(want.astype(info.dtype))) + info.smallest_subnormal
        assert (np.abs(getattr(found, part) - want) <= 4 * unit).all()


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("function", ["sqrt", "log"])
def test_zeros_infinities_and_nan(function: str, dtype: str) -> None:
    """Results for zeros, infinities and NaN are close to NumPy's, with equal signs of zeros."""
    parts = np.array([0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan], np.finfo(dtype).dtype)
    numbers = _pairs(parts, dtype)
    found = _run(function, numbers)
    with np.errstate(all="ignore"):
        expected = _FUNCTIONS[function](numbers)
    for part in ("real", "imag"):
        got, want = getattr(found, part), getattr(expected, part)
        np.testing.assert_allclose(got, want, rtol=1e-6)
        zero = want == 0
        assert (np.signbit(got[zero]) == np.signbit(want[zero])).all()
