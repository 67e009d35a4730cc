"""Draw random weights from a seed, scaled so that activations keep a variance of about 1."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from rammer_mlir.benchmarks.models.moments import Moments

Floats = npt.NDArray[np.float32]


def uniform(rng: np.random.Generator, shape: Sequence[int], std: float) -> Floats:
    """Draw f32 values from a uniform distribution of mean 0 and standard deviation ``std``."""
    values = rng.random(tuple(shape), dtype=np.float32)
    values -= np.float32(0.5)
    values *= np.float32(std * math.sqrt(12.0))
    return values


def is_centered(shape: Sequence[int]) -> bool:
    """Return whether each filter of a weight [outputs, inputs, taps...] is drawn to sum to zero.

    Activations after a ReLU have a positive mean. A filter whose sum is not zero turns this mean
    into a constant, layer after layer, until the output hardly depends on the input (compare Qiao
    et al., "Weight Standardization", 2019). Depthwise filters are not centered: their taps read
    nearly equal values, which a centered filter would cancel.
    """
    return shape[1] > 1


def filters(rng: np.random.Generator, shape: Sequence[int], source: Moments) -> Floats:
    """Draw a weight [outputs, inputs, taps...] so that an operator's result has a variance near 1.

    ``source`` has the mean and the variance of the operator's input (see Glorot and Bengio, 2010).
    """
    fan_in = math.prod(shape[1:])
    center = is_centered(shape)
    square = source.variance if center else source.variance + source.mean**2
    values = uniform(rng, shape, 1 / math.sqrt(fan_in * max(square, 1e-6)))
    if center:
        rows = values.reshape(shape[0], -1)
        rows -= rows.mean(axis=1, keepdims=True)
    return values


def bias(rng: np.random.Generator, length: int) -> Floats:
    """Draw ``length`` biases of mean 0 and standard deviation 0.1."""
    return uniform(rng, [length], 0.1)


def scale(rng: np.random.Generator, length: int) -> Floats:
    """Draw ``length`` scales of mean 1 and standard deviation 0.1."""
    return 1 + uniform(rng, [length], 0.1)


def statistics(rng: np.random.Generator, length: int, source: Moments) -> tuple[Floats, Floats]:
    """Draw the running means and variances of a batch normalization of ``length`` channels.

    The values are close to the mean and the variance of the normalization's input, ``source``.
    """
    mean = np.float32(source.mean) + uniform(rng, [length], 0.1 * source.std)
    variance = np.float32(source.variance) * (1 + uniform(rng, [length], 0.1))
    return mean.astype(np.float32), variance.astype(np.float32)
