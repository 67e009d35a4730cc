"""Make random arrays from a seed and a scale, bitwise equal on every machine.

NumPy guarantees the raw bits that the generator PCG64 gives for a seed. An array is computed from
these bits by integer sums and by basic floating-point operations, whose rounding IEEE 754 defines.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.generic]

_LEVELS = 1 << 16
"""Number of distinct values of a random number before it is scaled, all equally likely."""


@dataclass(frozen=True)
class Seeded:
    """An array of uniformly distributed numbers of mean 0.

    A row of the array is the slice at an index of the first dimension.

    Attributes:
        seed: seed of the generator.
        shape: shape of the array.
        dtype: NumPy's name of a floating-point type.
        scales: a standard deviation for the whole array, or a standard deviation for each row.
        centered: whether every row sums to zero, as is usual for a filter after a ReLU.
    """

    seed: int
    shape: tuple[int, ...]
    dtype: str
    scales: tuple[float, ...] = (1.0,)
    centered: bool = False

    def array(self) -> Array:
        """Return the array of numbers that the seed and the scales determine."""
        size = math.prod(self.shape)
        # PCG64's raw stream is guaranteed by NumPy; its distributions may change between versions.
        raw = np.random.PCG64(self.seed).random_raw(-(-size // 4))
        drawn = np.asarray(raw, "<u8").view("<u2")[:size].astype(np.int64)
        rows = drawn.reshape(len(self.scales) if len(self.scales) > 1 else self._rows(), -1)
        middle = (_LEVELS - 1) / 2
        means = rows.sum(axis=1) / rows.shape[1] if self.centered else np.full(len(rows), middle)
        # A uniform distribution over _LEVELS steps has the deviation _LEVELS / sqrt(12).
        factors = np.array(self.scales) * (math.sqrt(12) / _LEVELS)
        values = (rows - means[:, None]) * factors[:, None]
        return values.astype(self.dtype).reshape(self.shape)

    def _rows(self) -> int:
        return self.shape[0] if self.centered else 1

    def to_json(self) -> dict[str, Any]:
        """Return the fields as a JSON object for ``of_json``."""
        return {
            "seed": self.seed, "shape": self.shape, "dtype": self.dtype,
            "scales": self.scales, "centered": self.centered,
        }  # fmt: skip

    @classmethod
    def of_json(cls, found: dict[str, Any]) -> Seeded:
        """Rebuild an array's description from the object that ``to_json`` returned."""
        return cls(
            found["seed"], tuple(found["shape"]), found["dtype"], tuple(found["scales"]),
            found["centered"],
        )  # fmt: skip


_FEWEST = 4096
"""Smallest number of elements of a weight that is replaced by a seed."""

_OFF_CENTER, _CENTERED = 0.2, 0.02
"""Largest ratios of mean to standard deviation: of a replaced weight, and of a centered row."""


def resembling(array: Array, seed: int) -> Seeded | None:
    """Return the description of a random array with the standard deviation of ``array``.

    The description has one standard deviation for the whole array. A four-dimensional array, such
    as a filter, gets one for each row (index of the first dimension) instead, if there are several
    rows, and each row has several elements that are not all equal.

    Return None in these cases: ``array`` is not of type float16 or float32; it has fewer than
    ``_FEWEST`` elements, only equal elements, or an infinite or NaN element; its mean is not near
    0.
    """
    if array.dtype.name not in ("float16", "float32") or array.size < _FEWEST:
        return None
    values = array.astype(np.float64)
    spread = float(values.std())
    if not np.isfinite(spread) or spread == 0 or abs(values.mean()) > _OFF_CENTER * spread:
        return None
    name = array.dtype.name
    if array.ndim != 4:
        return Seeded(seed, array.shape, name, _rounded([spread]))
    rows = values.reshape(array.shape[0], -1)
    spreads = rows.std(axis=1)
    centered = bool((np.abs(rows.mean(axis=1)) <= _CENTERED * spreads).all()) and rows.shape[1] > 1
    if rows.shape[1] == 1 or array.shape[0] == 1 or not spreads.all():
        return Seeded(seed, array.shape, name, _rounded([spread]))
    return Seeded(seed, array.shape, name, _rounded(spreads.tolist()), centered)


def _rounded(scales: Sequence[float]) -> tuple[float, ...]:
    return tuple(float(f"{scale:.4g}") for scale in scales)
