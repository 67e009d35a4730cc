"""Fair timing of several implementations of the same thing."""

from __future__ import annotations

import itertools
import random
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

BURST = 3
"""Timed runs each time that it is an implementation's turn, after one that is not timed."""
MIN_ROUNDS = 5
MAX_ROUNDS = 300


@dataclass(frozen=True)
class Latency:
    """Wall-clock time of one run, in seconds: median and quartiles over all timed runs."""

    median: float
    low: float
    high: float
    runs: int

    @classmethod
    def of(cls, samples: list[float]) -> Latency:
        """Summarise at least two samples."""
        low, median, high = statistics.quantiles(samples, n=4, method="inclusive")
        return cls(median, low, high, len(samples))

    def __str__(self) -> str:
        """Give the median and the quartiles around it, in milliseconds."""
        return f"{1e3 * self.median:.3f} [{1e3 * self.low:.3f}, {1e3 * self.high:.3f}]"


def interleave(
    contenders: Mapping[str, Callable[[], object]], budget: float, seed: int = 0
) -> dict[str, Latency]:
    """Time every contender in the same stretch of time, in turns of changing order.

    Each turn begins with a run that is not timed, since the others have emptied the caches.
    """
    return take_turns({n: partial(_turn, run) for n, run in contenders.items()}, budget, seed)


def take_turns(
    turns: Mapping[str, Callable[[], list[float]]], budget: float, seed: int = 0
) -> dict[str, Latency]:
    """Take turns, in changing order; each returns the seconds of the runs that it timed.

    The machine's speed drifts (frequency, neighbours), so that only what ran side by side compares.
    Rounds go on for ``budget`` seconds, within MIN_ROUNDS and MAX_ROUNDS.
    """
    shuffle = random.Random(seed).shuffle
    samples: dict[str, list[float]] = {name: [] for name in turns}
    order = list(turns)
    deadline = time.perf_counter() + budget
    for number in range(MAX_ROUNDS):
        if number >= MIN_ROUNDS and time.perf_counter() > deadline:
            break
        shuffle(order)
        for name in order:
            samples[name].extend(turns[name]())
    return {name: Latency.of(values) for name, values in samples.items()}


def _turn(run: Callable[[], object]) -> list[float]:
    run()
    stamps = [time.perf_counter()]
    for _ in range(BURST):
        run()
        stamps.append(time.perf_counter())
    return [end - start for start, end in itertools.pairwise(stamps)]
