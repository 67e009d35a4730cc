"""Fair timing of alternative implementations, interleaved on the same machine."""

from __future__ import annotations

import itertools
import operator
import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

BURST = 3
"""The number of timed runs in each turn, after an untimed warm-up run."""

MIN_ROUNDS, MAX_ROUNDS = 5, 300

Key = TypeVar("Key")


def take_turns(
    turns: Mapping[Key, Callable[[], list[float]]], budget: float, seed: int = 0
) -> dict[Key, list[float]]:
    """Time implementations in rounds of random order; return the seconds of their timed runs.

    The machine's speed drifts (frequency, other processes), so only interleaved runs are
    comparable.

    Args:
        turns: for each implementation, a function that runs it a few times and returns the seconds
            of each run. A round calls every function once.
        budget: the seconds after which no more rounds begin. At least MIN_ROUNDS and at most
            MAX_ROUNDS rounds take place, whatever the budget.
        seed: the seed of the random order.
    """
    shuffle = random.Random(seed).shuffle
    samples: dict[Key, list[float]] = {name: [] for name in turns}
    order = list(turns)
    deadline = time.perf_counter() + budget
    for number in range(MAX_ROUNDS):
        if number >= MIN_ROUNDS and time.perf_counter() > deadline:
            break
        shuffle(order)
        for name in order:
            samples[name].extend(turns[name]())
    return samples


def paired_medians(samples: Mapping[Key, Sequence[float]]) -> dict[Key, float]:
    """Return a typical time in seconds of each implementation, comparable with the others'.

    Runs of the same round are compared: an implementation's time is the median of its ratio to the
    fastest implementation, times the fastest one's median. A change of the machine's speed between
    rounds so changes no comparison. ``samples`` are the results of ``take_turns``.
    """
    medians = {name: statistics.median(times) for name, times in samples.items()}
    fastest = min(medians, key=medians.__getitem__)
    return {
        name: medians[fastest] * statistics.median(map(operator.truediv, times, samples[fastest]))
        for name, times in samples.items()
    }


def timed_burst(run: Callable[[], object]) -> list[float]:
    """Return the seconds of BURST runs after an untimed run, which refills the caches."""
    run()
    stamps = [time.perf_counter()]
    for _ in range(BURST):
        run()
        stamps.append(time.perf_counter())
    return [end - begin for begin, end in itertools.pairwise(stamps)]
