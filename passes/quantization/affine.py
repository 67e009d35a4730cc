"""Computes parameters of affine quantization to 8 bits: ``real = (integer - zero) * scale``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.passes.quantization.ranges import Range

LOWEST, HIGHEST = -128, 127
"""The least and the largest i8."""

TINIEST = float(np.finfo(np.float32).tiny)
"""The scale of an all-zero tensor, which avoids a division by zero."""


@dataclass(frozen=True)
class Affine:
    """The quantization parameters of a tensor: ``real = (integer - zero) * scale``.

    ``scale`` is the distance between the real numbers that two adjacent integers represent,
    ``zero`` the i8 that represents 0.0.
    """

    scale: float
    zero: int


def affine_of(found: Range, *, is_symmetric: bool = False) -> Affine:
    """Return the parameters that map the range ``found``, which includes 0, to i8.

    If ``is_symmetric``, the zero point is 0.
    """
    if is_symmetric:
        return Affine(_scale(max(-found.low, found.high), HIGHEST), 0)
    scale = _scale(found.high - found.low, HIGHEST - LOWEST)
    zero = round(LOWEST - found.low / scale)
    return Affine(scale, min(max(zero, LOWEST), HIGHEST))


def _scale(extent: float, steps: int) -> float:
    """Return the scale that divides a range of length ``extent`` into ``steps`` equal steps.

    The scale is the length of a step, rounded to f32, and is at least ``TINIEST``.
    """
    return float(np.float32(max(extent / steps, TINIEST)))


@dataclass(frozen=True)
class QuantizedWeight:
    """A weight that is quantized symmetrically to i8, with a scale per channel.

    Attributes:
        values: the i8 elements, of the weight's shape.
        scales: f32, one for each channel; the dimensions are the channel dimensions of the weight.
        sums: i32, of the shape of ``scales``: the sum of each channel's ``values``.
    """

    values: NDArray[np.int8]
    scales: NDArray[np.float32]
    sums: NDArray[np.int32]


def quantize_weight(weight: NDArray[Any], channels: Sequence[int]) -> QuantizedWeight:
    """Return a weight quantized to i8, with a scale per index of the dimensions ``channels``."""
    others = tuple(dim for dim in range(weight.ndim) if dim not in channels)
    largest = np.abs(weight).max(axis=others, keepdims=True, initial=0.0).astype(np.float64)
    scales = np.maximum(largest / HIGHEST, TINIEST).astype(np.float32)
    rounded = np.rint(weight.astype(np.float64) / scales.astype(np.float64))
    values = np.clip(rounded, -HIGHEST, HIGHEST).astype(np.int8)
    sums = values.sum(axis=others, dtype=np.int32)
    return QuantizedWeight(values, scales.reshape(sums.shape), sums)
