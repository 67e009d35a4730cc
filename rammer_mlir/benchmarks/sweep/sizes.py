"""Random sizes: friendly to vectors and caches, odd, or prime."""

from __future__ import annotations

import math

import numpy as np


class Sizes:
    """Draws the numbers of a case.

    Args:
        rng: source of randomness.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        """Draw all sizes from ``rng``."""
        self._rng = rng

    def chance(self, probability: float) -> bool:
        """Draw a bool that is True with ``probability``."""
        return bool(self._rng.random() < probability)

    def one_of(self, *values: int) -> int:
        """Draw one of the values, all equally likely."""
        return values[int(self._rng.integers(len(values)))]

    def named(self, *names: str) -> str:
        """Draw one of the names, all equally likely."""
        return names[int(self._rng.integers(len(names)))]

    def between(self, low: int, high: int) -> int:
        """Return a number from ``low`` to ``high``, each equally likely."""
        return int(self._rng.integers(low, high + 1))

    def size(self, low: int, high: int) -> int:
        """Return a size from ``low`` to ``high``, whose logarithm is uniformly distributed.

        A third is rounded to a multiple of the largest power of two within a quarter of it, a third
        is any number, and a third the closest prime below.
        """
        drawn = round(math.exp(self._rng.uniform(math.log(low), math.log(high))))
        kind = self.between(0, 2)
        if kind == 0:
            step = 1 << max(0, (drawn // 4).bit_length() - 1)
            drawn = drawn // step * step
        elif kind == 1:
            drawn = next((n for n in range(drawn, 1, -1) if is_prime(n)), drawn)
        return min(max(drawn, low), high)


def is_prime(number: int) -> bool:
    """Return whether a number above 1 has no divisor but 1 and itself."""
    return all(number % divisor for divisor in range(2, math.isqrt(number) + 1))
