"""Fair timing of several implementations of the same thing: in turns, side by side."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

BURST = 3
"""Timed runs each time that it is an implementation's turn, after one that is not timed."""

MIN_ROUNDS, MAX_ROUNDS = 5, 300

Key = TypeVar("Key")


def take_turns(
    turns: Mapping[Key, Callable[[], list[float]]], budget: float, seed: int = 0
) -> dict[Key, list[float]]:
    """Take turns, in changing order; each returns the seconds of the runs that it timed.

    The machine's speed drifts (frequency, neighbours), so that only what ran side by side compares.
    Rounds go on for ``budget`` seconds; there are MIN_ROUNDS to MAX_ROUNDS.
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


def timed_burst(run: Callable[[], object]) -> list[float]:
    """Return the seconds of BURST runs, after one that is not timed: others emptied the caches."""
    run()
    stamps = [time.perf_counter()]
    for _ in range(BURST):
        run()
        stamps.append(time.perf_counter())
    return [end - begin for begin, end in itertools.pairwise(stamps)]
