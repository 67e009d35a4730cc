"""Tests that programs that recompute values give the same results, at the least cost.

An interpreter computes the results; the costs are compared with all choices and a known bound.
"""

from __future__ import annotations

import random
from itertools import combinations
from math import inf, isqrt

import pytest

from rammer_mlir.scheduling.recomputation.live_range_gaps import Gap, Repeated, find_gaps, leave
from rammer_mlir.scheduling.recomputation.operator_sequence import Step, Steps, Value
from rammer_mlir.scheduling.recomputation.search import least_cost, search


def random_steps(seed: int, length: int) -> Steps:
    """Return random steps that each read one or two earlier values; value 0 is an input."""
    rng = random.Random(seed)
    values = [Value(rng.choice((8, 64)), is_counted=False)]
    made: list[Step] = []
    for _ in range(length):
        near = range(max(0, len(values) - 3), len(values))
        reads = {rng.choice(near), rng.choice(range(len(values)))}
        written = [len(values)]
        values.append(Value(rng.choice((1, 2, 4, 8)), is_counted=rng.random() < 0.9))
        if rng.random() < 0.2:
            written.append(len(values))
            values.append(Value(rng.choice((1, 4))))
        cost, again = float(rng.randrange(1, 6)), rng.random() < 0.9
        made.append(Step(tuple(sorted(reads)), tuple(written), cost, is_repeatable=again))
    return Steps(tuple(made), tuple(values))


def training(length: int) -> Steps:
    """Return the steps of a network of ``length`` layers, forward and then backward.

    A backward step reads the value that its layer computed.
    """
    values = [Value(1, is_counted=False)] + [Value(1)] * (2 * length)
    forward = [Step((n,), (n + 1,)) for n in range(length)]
    backward = [
        Step((length - n, length + n), (length + n + 1,), is_repeatable=False)
        for n in range(length)
    ]
    return Steps((*forward, *backward), tuple(values))


def results(repeated: Repeated, original: Steps) -> list[dict[int, object]]:
    """Execute a program with repeated steps on symbolic terms, and return the resulting terms.

    For each step of ``original``, the result has the terms of the values that it writes, by value
    index. Equal terms mean that the repeated program computes the same values as the original.
    """
    memory: dict[int, object] = {}
    found: list[dict[int, object]] = []
    for step, origin, again in zip(
        repeated.steps.steps, repeated.origins, repeated.is_again, strict=True
    ):
        inputs = tuple(memory.get(v, ("input", v)) for v in step.reads)
        for place, value in enumerate(step.writes):
            memory[value] = (origin, place, inputs)
        if not again:
            found.append(
                {
                    v: memory[w]
                    for v, w in zip(original.steps[origin].writes, step.writes, strict=True)
                }
            )
    return found


def naive_peak(steps: Steps) -> int:
    """Return the largest number of bytes of values that are in use at the same step.

    Every value is checked at each step; it is in use from its first to its last access.
    """
    most = 0
    for now in range(len(steps.steps)):
        live = 0
        for number, value in enumerate(steps.values):
            touching = [n for n, s in enumerate(steps.steps) if number in (*s.reads, *s.writes)]
            if value.is_counted and touching and touching[0] <= now <= touching[-1]:
                live += value.num_bytes
        most = max(most, live)
    return most


@pytest.mark.parametrize("seed", range(40))
def test_steps_read_what_they_read_before(seed: int) -> None:
    steps = random_steps(seed, 9)
    expected = results(leave(steps, ()), steps)
    gaps = list(find_gaps(steps))
    rng = random.Random(seed)
    for _ in range(8):
        chosen: dict[tuple[int, int], Gap] = {g.place: g for g in gaps if rng.random() < 0.5}
        left = leave(steps, list(chosen.values()))
        assert results(left, steps) == expected
        assert naive_peak(left.steps) == left.steps.peak


@pytest.mark.parametrize("seed", range(40))
def test_the_search_finds_the_cheapest_of_all_choices(seed: int) -> None:
    steps = random_steps(seed, 7)
    gaps = list(find_gaps(steps))
    found: list[tuple[int, float]] = []
    for count in range(min(len(gaps), 6) + 1):
        for some in combinations(gaps, count):
            if len({gap.place for gap in some}) == len(some):
                left = leave(steps, some).steps
                found.append((naive_peak(left), left.cost - steps.cost))
    lowest = min(peak for peak, _ in found)
    for limit in range(max(lowest - 1, 0), steps.peak + 1):
        fitting = [cost for peak, cost in found if peak <= limit]
        best = search(steps, limit)
        assert best.is_optimal
        if fitting:
            assert (best.peak <= limit, best.cost) == (True, min(fitting))
        else:
            assert best.peak == lowest and best.least_cost == inf
        greedy = search(steps, limit, most_sets=0)
        assert least_cost(steps, limit) <= min(fitting, default=inf)
        if greedy.peak <= limit:
            assert greedy.cost >= best.cost


@pytest.mark.parametrize("length", [9, 16, 36])
def test_a_chain_needs_no_more_than_checkpoints_of_it(length: int) -> None:
    """Recomputation in a chain of n layers needs at most about ``2 sqrt(n)`` values (Chen et al.).

    These are the value of every sqrt(n)-th layer, and the values that are recomputed between two
    such layers.
    """
    steps = training(length)
    assert steps.peak >= length
    limit = 2 * isqrt(length) + 3
    found = search(steps, limit)
    assert found.peak <= limit
    assert found.least_cost <= found.cost
    assert results(found.repeated, steps) == results(leave(steps, ()), steps)


def test_nothing_is_repeated_where_all_fits() -> None:
    steps = training(6)
    found = search(steps, steps.peak)
    assert (found.gaps, found.cost, found.least_cost) == ((), 0.0, 0.0)


def test_what_may_not_be_repeated_is_kept() -> None:
    steps = training(6)
    kept = Steps(
        tuple(Step(s.reads, s.writes, s.cost, is_repeatable=False) for s in steps.steps),
        steps.values,
    )
    assert list(find_gaps(kept)) == []
    assert search(kept, 1).least_cost == inf
