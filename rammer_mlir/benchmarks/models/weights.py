"""Draw random weights from a seed, scaled so that activations keep a variance of about 1."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from rammer_mlir.benchmarks.models.moments import Moments

Floats = npt.NDArray[np.float32]


def uniform(rng: np.random.Generator, shape: Sequence[int], std: float) -> Floats:
    """Draw f32 values of mean 0 and the given standard deviation from a uniform distribution."""
    values = rng.random(tuple(shape), dtype=np.float32)
    values -= np.float32(0.5)
    values *= np.float32(std * math.sqrt(12.0))
    return values


def is_centred(shape: Sequence[int]) -> bool:
    """Return whether filters of the shape [outputs, inputs, taps...] are drawn to sum to zero.

    Rectified activations have a positive mean. Filters that see this mean convert it to a constant,
    layer after layer, until the output hardly depends on the input (compare Qiao et al., "Weight
    Standardization", 2019). Depthwise filters are not centred: their taps see nearly equal values,
    which a centred filter would cancel.
    """
    return shape[1] > 1


def filters(rng: np.random.Generator, shape: Sequence[int], source: Moments) -> Floats:
    """Draw filters [outputs, inputs, taps...] whose results have a variance of about 1.

    ``source`` has the mean and the variance of the operand (see Glorot and Bengio, 2010).
    """
    fan_in = math.prod(shape[1:])
    centre = is_centred(shape)
    square = source.variance if centre else source.variance + source.mean**2
    values = uniform(rng, shape, 1 / math.sqrt(fan_in * max(square, 1e-6)))
    if centre:
        rows = values.reshape(shape[0], -1)
        rows -= rows.mean(axis=1, keepdims=True)
    return values


def bias(rng: np.random.Generator, length: int) -> Floats:
    """Draw ``length`` biases of standard deviation 0.1."""
    return uniform(rng, [length], 0.1)


def scale(rng: np.random.Generator, length: int) -> Floats:
    """Draw ``length`` scales around 1 of standard deviation 0.1."""
    return 1 + uniform(rng, [length], 0.1)


def statistics(rng: np.random.Generator, length: int, source: Moments) -> tuple[Floats, Floats]:
    """Draw a batch norm's running mean and variance, close to those of its operand, ``source``."""
    mean = np.float32(source.mean) + uniform(rng, [length], 0.1 * source.std)
    variance = np.float32(source.variance) * (1 + uniform(rng, [length], 0.1))
    return mean.astype(np.float32), variance.astype(np.float32)
