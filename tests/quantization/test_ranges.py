"""Tests that the ranges of values, their scales, and the weights in 8 bits are right.

The code under test uses NumPy alone, without the compiler.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from rammer_mlir.errors import OptionError
from rammer_mlir.passes.quantization.affine import Affine, affine_of, quantize_weight
from rammer_mlir.passes.quantization.ranges import (
    METHODS,
    Histogram,
    Range,
    check_method,
    range_of,
)

Array = NDArray[Any]


def histogram_of(*parts: Array) -> Histogram:
    found = Histogram()
    for part in parts:
        found.widen(part)
    for part in parts:
        found.count(part)
    return found


def decibels(values: Array, found: Range) -> float:
    """Return the signal-to-noise ratio in decibels of ``values`` rounded to 8 bits.

    The scale and the zero point of the rounding cover the range ``found``.
    """
    affine = affine_of(found)
    integers = np.clip(np.rint(values / affine.scale) + affine.zero, -128, 127)
    noise = (integers - affine.zero) * affine.scale - values
    return float(10 * np.log10(np.square(values).sum() / np.square(noise).sum()))


def test_all_values() -> None:
    found = range_of(histogram_of(np.array([2.0, 5.0]), np.array([-1.5])), "minmax")
    assert found == (-1.5, 5.0)
    assert range_of(histogram_of(np.array([2.0, 5.0])), "minmax") == (0.0, 5.0)
    assert range_of(histogram_of(np.array([-2.0, -5.0])), "minmax") == (-5.0, 0.0)


@pytest.mark.parametrize("method", METHODS)
def test_nothing_but_zeros(method: str) -> None:
    found = range_of(histogram_of(np.zeros(1000)), method)
    affine = affine_of(found)
    assert affine.scale > 0 and np.isfinite(affine.scale)


def test_percentiles_are_those_of_numpy() -> None:
    values = np.random.default_rng(0).gamma(2.0, 1.0, 400_000) - 1
    found = range_of(histogram_of(values), "percentile")
    low, high = np.quantile(values, [0.00005, 0.99995])
    width = 2 * np.abs(values).max() / 8192
    assert abs(found.low - low) <= 2 * width
    assert abs(found.high - high) <= 2 * width


def with_outliers(count: int = 200_000) -> Array:
    values = np.random.default_rng(1).standard_normal(count)
    values[:4] = [60.0, -55.0, 70.0, 65.0]
    return values


@pytest.mark.parametrize("method", ["percentile", "entropy"])
@pytest.mark.parametrize("is_positive", [False, True])
def test_outliers_are_clipped(method: str, is_positive: bool) -> None:
    values = np.abs(with_outliers()) if is_positive else with_outliers()
    ordinary = values[4:]
    histogram = histogram_of(values)
    widest, found = (range_of(histogram, name) for name in ("minmax", method))
    assert widest.high >= 60 and found.high < 15
    assert (found.low == 0) == is_positive
    assert decibels(ordinary, found) > decibels(ordinary, widest) + 10


@pytest.mark.parametrize("count", [500, 20_000])
def test_values_without_outliers_keep_their_range(count: int) -> None:
    values = np.random.default_rng(2).uniform(-1, 1, count)
    for method in METHODS:
        assert decibels(values, range_of(histogram_of(values), method)) > 40


def test_an_unknown_method() -> None:
    with pytest.raises(OptionError, match="a method of minmax, percentile, entropy, found 'mean'"):
        check_method("mean")


def test_zero_is_exact() -> None:
    for low, high in [(-1.0, 3.0), (0.0, 6.0), (-2.0, 0.0), (-0.001, 100.0)]:
        affine = affine_of(Range(low, high))
        assert -128 <= affine.zero <= 127
        for end in (low, high):  # rounding moves the range by half a step at most
            assert -128.51 <= end / affine.scale + affine.zero <= 127.51
    assert affine_of(Range(0.0, 255.0)) == Affine(1.0, -128)
    assert affine_of(Range(-254.0, 127.0), is_symmetric=True) == Affine(2.0, 0)


def test_weights_have_a_scale_for_each_channel() -> None:
    weight = np.random.default_rng(3).standard_normal((4, 3, 2)) * [
        [[1.0]],
        [[9.0]],
        [[0.1]],
        [[0]],
    ]
    found = quantize_weight(weight.astype(np.float32), [0])
    assert found.values.dtype == np.int8 and found.scales.shape == found.sums.shape == (4,)
    assert [int(np.abs(part).max()) for part in found.values] == [127, 127, 127, 0]
    np.testing.assert_allclose(found.scales[:3], np.abs(weight).max(axis=(1, 2))[:3] / 127, 1e-6)
    np.testing.assert_array_equal(found.sums, found.values.sum(axis=(1, 2), dtype=np.int32))
    exact = found.values * found.scales[:, None, None]
    assert np.all(np.abs(exact - weight) <= found.scales[:, None, None] * 0.5001)
