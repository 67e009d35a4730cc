"""Times alternative implementations fairly, interleaved on the same machine."""

from __future__ import annotations

import itertools
import math
import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

BURST = 3
"""The number of timed runs in a turn of a fast program, after an untimed warm-up run."""

_SLOW = 0.02
"""Seconds of a run from which on each turn has a single timed run.

Many rounds say more about slow programs than many runs in a round: a round takes long enough to
average over short disturbances, and the machine's speed changes between rounds.
"""

_CONFIDENCE = 0.95
"""Confidence that no implementation counts as faster than another without being faster."""

MIN_ROUNDS, MAX_ROUNDS = 5, 300

Key = TypeVar("Key")


def take_rounds(
    turns: Mapping[Key, Callable[[], list[float]]],
    budget: float,
    seed: int = 0,
    least: int = MIN_ROUNDS,
) -> dict[Key, list[list[float]]]:
    """Time implementations in rounds of random order; return the seconds of each run.

    The machine's speed drifts (frequency, other processes), so only interleaved runs are
    comparable.

    Args:
        turns: for each implementation, a function that runs it a few times and returns the seconds
            of each run. A round calls every function once.
        budget: the seconds after which no more rounds begin. At least ``least`` and at most
            MAX_ROUNDS rounds take place, whatever the budget.
        seed: the seed of the random order.
        least: the minimum number of rounds.

    Returns:
        For each implementation, a list with the seconds of its runs in each round.
    """
    shuffle = random.Random(seed).shuffle
    rounds: dict[Key, list[list[float]]] = {name: [] for name in turns}
    order = list(turns)
    deadline = time.perf_counter() + budget
    for number in range(MAX_ROUNDS):
        if number >= least and time.perf_counter() > deadline:
            break
        shuffle(order)
        for name in order:
            rounds[name].append(turns[name]())
    return rounds


def take_turns(
    turns: Mapping[Key, Callable[[], list[float]]], budget: float, seed: int = 0
) -> dict[Key, list[float]]:
    """Time implementations in rounds of random order; return the seconds of each run.

    The arguments are those of ``take_rounds``. The result has one list for each implementation,
    with the runs of all rounds.
    """
    return joined_rounds(take_rounds(turns, budget, seed))


def joined_rounds(rounds: Mapping[Key, Sequence[Sequence[float]]]) -> dict[Key, list[float]]:
    """Return the seconds of all runs of each implementation, from results of ``take_rounds``."""
    return {name: [*itertools.chain(*bursts)] for name, bursts in rounds.items()}


def paired_medians(rounds: Mapping[Key, Sequence[Sequence[float]]]) -> dict[Key, float]:
    """Return a typical time in seconds of each implementation, to compare implementations.

    The implementation with the least median time is the reference. In each round, the time of an
    implementation is divided by the time of the reference. The result is the median of these
    quotients, times the median time of the reference. Changes of the machine's speed between rounds
    therefore cancel. ``rounds`` are the results of ``take_rounds``.
    """
    if not rounds:
        return {}
    bursts = {name: [*map(statistics.median, runs)] for name, runs in rounds.items()}
    medians = {name: statistics.median(times) for name, times in bursts.items()}
    reference = min(medians, key=medians.__getitem__)
    return {
        name: medians[reference]
        * statistics.median(a / b for a, b in zip(times, bursts[reference], strict=True))
        for name, times in bursts.items()
    }


def clearly_faster(
    rounds: Mapping[Key, Sequence[Sequence[float]]], reference: Key
) -> frozenset[Key]:
    """Return the implementations that are significantly faster than ``reference``.

    The decision is a one-sided sign test over the rounds: an implementation wins a round if the
    median of its runs is below that of the reference. The level of each test is 5 % divided by the
    count of tests (Bonferroni's correction). So if all implementations are equally fast, the result
    is empty with a probability of at least 95 %. ``rounds`` are the results of ``take_rounds``.
    """
    bursts = {name: [*map(statistics.median, runs)] for name, runs in rounds.items()}
    level = (1 - _CONFIDENCE) / max(1, len(bursts) - 1)
    return frozenset(
        name
        for name, times in bursts.items()
        if _chance(sum(a < b for a, b in zip(times, bursts[reference], strict=True)), len(times))
        <= level
    )


def _chance(wins: int, rounds: int) -> float:
    """Return the probability of at least ``wins`` wins in ``rounds`` fair coin tosses."""
    return sum(math.comb(rounds, count) for count in range(wins, rounds + 1)) / 2**rounds


def timed_burst(run: Callable[[], object]) -> list[float]:
    """Return the seconds of BURST runs, or of a single run of a slow program.

    An untimed warm-up run comes first. A program is slow if the warm-up run and the next run both
    exceed ``_SLOW`` seconds; a single slow run may have been interrupted by other processes.
    """
    stamps = [time.perf_counter()]
    for _ in range(1 + BURST):
        run()
        stamps.append(time.perf_counter())
        if len(stamps) == 3 and min(_durations(stamps)) > _SLOW:
            break
    return _durations(stamps)[1:]


def _durations(stamps: Sequence[float]) -> list[float]:
    return [end - begin for begin, end in itertools.pairwise(stamps)]
