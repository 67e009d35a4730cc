"""Time several implementations of the same computation, with their runs interleaved."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from rammer_mlir.support.interleaved_timing import take_turns as turns_of
from rammer_mlir.support.interleaved_timing import timed_burst


@dataclass(frozen=True)
class Latency:
    """Median, lower and upper quartile of the seconds of timed runs, and the number of the runs."""

    median: float
    low: float
    high: float
    runs: int

    @classmethod
    def of(cls, samples: list[float]) -> Latency:
        """Return the median and the quartiles of at least two samples in seconds."""
        low, median, high = statistics.quantiles(samples, n=4, method="inclusive")
        return cls(median, low, high, len(samples))

    def __str__(self) -> str:
        """Return the median and the quartiles in milliseconds as text."""
        return f"{1e3 * self.median:.3f} [{1e3 * self.low:.3f}, {1e3 * self.high:.3f}]"


def interleave(
    contenders: Mapping[str, Callable[[], object]], budget: float, seed: int = 0
) -> dict[str, Latency]:
    """Time functions in random order for ``budget`` seconds in all; return latencies by name.

    ``contenders`` maps names to functions; ``seed`` determines the order. Each function is called
    several times in a row. The first of these calls is not timed, because other functions have
    evicted this function's data from the caches.
    """
    return take_turns({n: partial(timed_burst, run) for n, run in contenders.items()}, budget, seed)


def take_turns(
    turns: Mapping[str, Callable[[], list[float]]], budget: float, seed: int = 0
) -> dict[str, Latency]:
    """Call functions in random order for ``budget`` seconds; return the latency of each by name.

    Each function in ``turns`` makes several timed runs, and returns the seconds of each run.
    ``seed`` determines the order.
    """
    found = turns_of(turns, budget, seed)
    return {name: Latency.of(values) for name, values in found.items()}
