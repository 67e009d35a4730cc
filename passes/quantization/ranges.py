"""Chooses the range of a tensor's values to quantize, from a histogram of the values.

The range is that of the extremes, that of percentiles, or the one whose quantization diverges least
from the histogram.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.errors import OptionError

Floats = NDArray[np.floating[Any]]
Counts = NDArray[np.float64]

_SIDE_BINS = 4096
"""The number of a histogram's bins on each side of zero.

Data with a maximum of 1,000 standard deviations still has 4 bins per deviation.
"""

_KEPT = 0.9999
"""The share of the values that the method ``percentile`` keeps; both tails are clipped equally."""

_LEVELS, _SIDE_LEVELS = 255, 128
"""Number of 8-bit levels for values of one sign, and on each side of zero for both signs."""

_CANDIDATES = 128
"""The number of limits that the method ``entropy`` compares."""

_FEWEST_BINS, _ENOUGH = 512, 16
"""The method ``entropy``: minimum number of bins, and minimum average of values per bin.

While there are more bins and the average is lower, adjacent bins are merged. With few values, the
shape of a distribution is indistinguishable from noise.
"""

_SMALLEST = 1e-12
"""Replacement of probability zero, which keeps a divergence finite."""


class Range(NamedTuple):
    """A range of values, ``low`` to ``high``, that is mapped to integers.

    Other values are clipped.
    """

    low: float
    high: float


@dataclass
class Histogram:
    """The extremes of a tensor over all samples, and a histogram of its values.

    The extremes have to be complete before values are counted.

    Attributes:
        low, high: the extremes.
        counts: the counts of bins of equal width between ``-largest`` and ``largest``.
    """

    low: float = inf
    high: float = -inf
    counts: Counts = field(default_factory=lambda: np.zeros(2 * _SIDE_BINS))

    def widen(self, values: Floats) -> None:
        """Lower ``low`` and raise ``high`` so that they include all elements of ``values``."""
        if values.size:
            self.low = min(self.low, float(values.min()))
            self.high = max(self.high, float(values.max()))

    def count(self, values: Floats) -> None:
        """Count ``values``, which must be within the extremes, in their bins."""
        limits = (-self.largest, self.largest)
        self.counts += np.histogram(values, 2 * _SIDE_BINS, limits)[0]

    @property
    def largest(self) -> float:
        """The largest absolute value; 1 if all values are zero."""
        return max(-self.low, self.high, 0.0) or 1.0

    @property
    def extremes(self) -> Range:
        """The smallest and the largest value, extended to include 0."""
        return Range(min(self.low, 0.0), max(self.high, 0.0))


def _percentile(histogram: Histogram) -> Range:
    """Return the range that keeps 99.99 % of the values, and clips equal shares at both ends.

    ``_KEPT`` is the kept share.
    """
    share = np.cumsum(histogram.counts) / max(1.0, histogram.counts.sum())
    edges = np.linspace(-histogram.largest, histogram.largest, share.size + 1)
    cut = (1 - _KEPT) / 2
    first, last = np.searchsorted(share, cut, "right"), np.searchsorted(share, 1 - cut)
    found = Range(float(edges[first]), float(edges[min(last, share.size - 1) + 1]))
    return _within(found, histogram.extremes)


def _entropy(histogram: Histogram) -> Range:
    """Return the range whose 8-bit quantization diverges least from the histogram.

    The measure is the Kullback-Leibler divergence (Migacz, 2017).
    """
    counts = _absolute(histogram)
    one_sided = histogram.low >= 0 or histogram.high <= 0
    levels = _LEVELS if one_sided else _SIDE_LEVELS
    step = counts.size // _CANDIDATES
    limits = range(-(-levels // step) * step, counts.size + 1, step)
    best = min(limits, key=lambda bins: _divergence(counts, bins, levels))
    limit = histogram.largest * best / counts.size
    return _within(Range(-limit, limit), histogram.extremes)


def _absolute(histogram: Histogram) -> Counts:
    """Return a histogram of absolute values, with equally wide bins from 0 to the largest.

    While there are more than 512 bins and fewer than 16 values per bin on average, adjacent bins
    are merged in pairs.
    """
    sides = histogram.counts.reshape(2, _SIDE_BINS)
    counts = sides[0][::-1] + sides[1]
    while counts.size > _FEWEST_BINS and counts.sum() < _ENOUGH * counts.size:
        counts = counts.reshape(-1, 2).sum(axis=1)
    return counts


def _divergence(counts: Counts, bins: int, levels: int) -> float:
    """Return the Kullback-Leibler divergence between a histogram and its quantization.

    Args:
        counts: the histogram of absolute values.
        bins: the number of leading bins to keep; larger values are clipped to the last kept bin.
        levels: the number of quantized levels for the kept bins.
    """
    clipped = counts[:bins].copy()
    steps = np.arange(bins) * levels // bins
    filled = counts[:bins] > 0
    totals = np.bincount(steps, counts[:bins], levels)
    shares = np.bincount(steps, filled, levels)
    coarse = np.where(filled, totals[steps] / np.maximum(1, shares[steps]), 0.0)
    clipped[-1] += counts[bins:].sum()
    p, q = clipped / max(1.0, clipped.sum()), coarse / max(1.0, coarse.sum())
    used = p > 0
    return float(np.sum(p[used] * np.log(p[used] / np.maximum(q[used], _SMALLEST))))


def _within(found: Range, extremes: Range) -> Range:
    """Return the intersection of two ranges; the intersection is extended to include 0."""
    low, high = max(found.low, extremes.low), min(found.high, extremes.high)
    return Range(min(low, 0.0), max(high, 0.0))


_METHODS: Mapping[str, Callable[[Histogram], Range]] = {
    "minmax": lambda histogram: histogram.extremes,
    "percentile": _percentile,
    "entropy": _entropy,
}

METHODS = tuple(_METHODS)
"""Names of the methods that choose a range."""

EXTREMES_ONLY = "minmax"
"""The method that needs no histogram."""


def range_of(histogram: Histogram, method: str) -> Range:
    """Return the range of values to map to 8 bits by a method of ``METHODS``.

    The range always includes 0.
    """
    return _METHODS[method](histogram)


def check_method(method: str) -> None:
    """Check that a method of choosing ranges exists.

    Raises:
        OptionError: if the method is unknown; the message lists the known methods.
    """
    if method not in _METHODS:
        raise OptionError(f"quantize: expected a method of {', '.join(METHODS)}, found '{method}'")
