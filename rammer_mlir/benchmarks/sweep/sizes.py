"""Draw random sizes: multiples of powers of two, primes, and arbitrary numbers."""

from __future__ import annotations

import math

import numpy as np


class Sizes:
    """A generator of the random sizes and choices from which a case is built.

    Args:
        rng: NumPy's generator of random numbers.
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
        """Draw an integer from ``low`` to ``high`` inclusive, all equally likely."""
        return int(self._rng.integers(low, high + 1))

    def size(self, low: int, high: int) -> int:
        """Draw a size from ``low`` to ``high`` inclusive, with a uniformly distributed logarithm.

        A third of the sizes are then rounded down to a multiple of a power of two: of the largest
        power that is at most a quarter of the size. A third are rounded down to a prime. A third
        stay as drawn.
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
    """Return whether ``number``, which is above 1, is a prime."""
    return all(number % divisor for divisor in range(2, math.isqrt(number) + 1))
