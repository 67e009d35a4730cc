"""Tests that a region is cut into intervals in the best of all possible ways."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.passes.regions.interval_partition import Interval, Limits, cut


def all_cuts(count: int) -> list[list[tuple[int, int]]]:
    """Return every way to cut a sequence of ``count`` operations into intervals (begin, end)."""
    return [
        list(itertools.pairwise([0, *(at for at in range(1, count) if chosen >> at & 1), count]))
        for chosen in range(0, 2**count, 2)
    ]


def price(
    intervals: list[tuple[int, int]], cost: Callable[[int, int], float | None]
) -> tuple[int, float] | None:
    """Return the number of operations without a region, and the sum of the costs of ``intervals``.

    ``cost`` returns None for an interval that exceeds the limits. An interval of a single operation
    may exceed them: the operation stays without a region. If a longer interval does, the result is
    None.
    """
    alone, total = 0, 0.0
    for begin, end in intervals:
        found = cost(begin, end)
        if found is not None:
            total += found
        elif end == begin + 1:
            alone += 1
        else:
            return None
    return alone, total


def intervals(
    count: int, cost: Callable[[int, int], float | None], longest: int = 0
) -> Sequence[Interval]:
    """Return the cut of ``count`` operations that the code under test finds.

    ``cost`` is a function of an interval's begin and end, None if the interval does not fit;
    ``longest`` is the largest length of an interval, 0 for no limit.
    """

    def costs(end: int) -> NDArray[np.float64]:
        begins = range(max(0, end - longest) if longest else 0, end)
        found = (cost(begin, end) for begin in begins)
        return np.array([math.inf if each is None else each for each in found])

    return cut(count, map(costs, range(1, count + 1)))


def test_cuts_are_as_good_as_the_best_of_all() -> None:
    """The cut that is found is the best of all cuts.

    Of equally good cuts, it is the cut whose last interval begins first.
    """
    rng = random.Random(3)
    counts = [rng.randint(1, 10) for _ in range(200)] + [11] * 20 + [12] * 20
    for count in counts:
        table = {
            (begin, end): rng.choice((None, rng.randint(1, 9), rng.randint(1, 9)))
            for begin in range(count)
            for end in range(begin + 1, count + 1)
        }

        def cost(
            begin: int, end: int, table: dict[tuple[int, int], int | None] = table
        ) -> float | None:
            return table[begin, end]

        found = intervals(count, cost)
        assert [n for each in found for n in range(each.begin, each.end)] == list(range(count))
        assert all(each.fits == (cost(each.begin, each.end) is not None) for each in found)
        priced = [(p, each) for each in all_cuts(count) if (p := price(each, cost)) is not None]
        _, best = min(priced, key=lambda pair: (pair[0], begins(pair[1])))
        assert [(each.begin, each.end) for each in found] == best


def begins(intervals: list[tuple[int, int]]) -> list[int]:
    """Return the index at which each interval begins, for the last interval first."""
    return [begin for begin, _ in reversed(intervals)]


def test_twelve_operations_against_all_cuts() -> None:
    sizes = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8]

    def cost(begin: int, end: int) -> float | None:
        return None if sum(sizes[begin:end]) > 11 else 1 + (sizes[begin] + sizes[end - 1]) / 8

    found = [(each.begin, each.end) for each in intervals(12, cost)]
    prices = [p for each in all_cuts(12) if (p := price(each, cost)) is not None]
    assert price(found, cost) == min(prices)


def test_an_operation_too_large_for_every_region_is_left_over() -> None:
    limits = Limits(operations=2, bytes=10)
    sizes = [4, 5, 20, 6, 4, 3]

    def cost(begin: int, end: int) -> float | None:
        return 1.0 if limits.hold(end - begin, sum(sizes[begin:end]), 1) else None

    assert intervals(6, cost) == [
        Interval(0, 2, fits=True),
        Interval(2, 3, fits=False),
        Interval(3, 4, fits=True),
        Interval(4, 6, fits=True),
    ]


def test_begins_that_are_left_out_do_not_fit() -> None:
    found = intervals(7, lambda begin, end: 1.0, longest=3)
    assert [each.end - each.begin for each in found] == [1, 3, 3]


def test_limits_of_zero_hold_everything() -> None:
    assert Limits().hold(10**9, 10**12, 10**6)
    assert not Limits(values=3).hold(1, 1, 4)


def test_nothing_to_cut() -> None:
    assert cut(0, []) == []
