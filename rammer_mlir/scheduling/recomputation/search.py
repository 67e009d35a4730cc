"""Chooses values to free between two uses and to recompute, so that memory stays within a limit.

An interval between two uses of a value is a gap. The search for the cheapest set of gaps is
exhaustive or greedy. A lower bound on the cost of all sets is computed, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, product
from math import inf, prod

from rammer_mlir.scheduling.recomputation.live_range_gaps import Gap, Repeated, find_gaps, leave
from rammer_mlir.scheduling.recomputation.operator_sequence import Steps

MOST_SETS = 1 << 13
"""Maximum number of sets of gaps for an exhaustive search."""

_MOST_WORK = 1 << 17
"""Maximum number of steps that an exhaustive search evaluates in total."""

_MOST_TRIALS = 24
"""Maximum number of gaps at steps of peak memory that the greedy search evaluates per choice."""

_LENGTHS = (1, 2, 4, 8, 16, 64)
"""Limits on the steps that are recomputed for a value; the greedy search runs with each."""


@dataclass(frozen=True)
class Recomputation:
    """A choice of gaps: values are freed at the beginning of a gap, and recomputed at its end.

    A gap is an interval between two uses of a value.

    Attributes:
        gaps: the chosen gaps.
        repeated: the sequence of operators, including the operators that are executed again.
        cost: total cost of the operators that are executed again, in the unit of ``Step.cost``.
        least_cost: lower bound on the cost of all choices within the memory limit; infinite if no
            choice is within the limit.
        is_optimal: True if no other choice is better, False if there may be a better choice.
            Choices within the memory limit are better than all others, and are compared by cost.
            Choices above the limit are compared by memory peak.
    """

    gaps: tuple[Gap, ...]
    repeated: Repeated
    cost: float
    least_cost: float
    is_optimal: bool

    @property
    def peak(self) -> int:
        """The maximum, over all steps and recomputed steps, of the bytes of live intermediates."""
        return self.repeated.steps.peak


def search(steps: Steps, limit: int, *, most_sets: int = MOST_SETS) -> Recomputation:
    """Return the cheapest set of gaps that keeps at most ``limit`` bytes in use at any step.

    A value is freed at the start of a gap between two of its uses, and recomputed at the end. If no
    set that the search tries meets ``limit``, return the set with the lowest peak. The search is
    exhaustive if there are at most ``most_sets`` sets (fewer if there are many steps); otherwise it
    is greedy, and may miss the cheapest set.
    """
    if steps.peak <= limit:
        return Recomputation((), leave(steps, ()), 0.0, 0.0, is_optimal=True)
    places = _places(steps)
    # An unreachable limit is replaced by the least possible peak.
    aim = max(limit, steps.least_peak)
    most_sets = min(most_sets, _MOST_WORK // len(steps.steps))
    if prod(len(variants) + 1 for variants in places) <= most_sets:
        found = min((_tried(steps, gaps) for gaps in _sets(places)), key=lambda t: t.rank(aim))
        least = found.cost if found.peak <= limit else inf
        return Recomputation(found.gaps, found.repeated, found.cost, least, is_optimal=True)
    greedy = (_greedy(steps, _shortened(places, length), aim) for length in _LENGTHS)
    found = min((_dropped(steps, trial, aim) for trial in greedy), key=lambda t: t.rank(aim))
    return Recomputation(
        found.gaps, found.repeated, found.cost, least_cost(steps, limit), is_optimal=False
    )


def least_cost(steps: Steps, limit: int) -> float:
    """Return a lower bound on the cost of any choice of gaps with at most ``limit`` bytes in use.

    At a step with more than ``limit`` bytes in use, values that are live but unused have to be
    freed until at most ``limit`` bytes are in use. A fractional knapsack gives a lower bound on the
    cost of freeing them. The result is the largest bound of all steps; infinite if the values that
    a single step reads and writes exceed ``limit``, or if freeing all unused values is not enough.
    """
    if steps.least_peak > limit:
        return inf
    found = 0.0
    gaps = [variants[0] for variants in _places(steps)]
    for number, live in enumerate(steps.live_bytes):
        if live > limit:
            found = max(found, _knapsack(steps, gaps, number, live - limit))
    return found


def _knapsack(steps: Steps, gaps: Sequence[Gap], number: int, excess: float) -> float:
    offers: list[tuple[float, int]] = []
    for gap in gaps:
        size = steps.values[gap.value].num_bytes
        if gap.spans(number) and size:
            step = steps.steps[steps.producers[gap.value]]
            # Recomputing a step yields all its results, so each bears a share of the cost.
            offers.append((step.cost / len(step.writes) / size, size))
    cost = 0.0
    for price, size in sorted(offers):
        if excess <= 0:
            break
        cost += price * min(size, excess)
        excess -= size
    return inf if excess > 0 else cost


@dataclass(frozen=True)
class _Trial:
    gaps: tuple[Gap, ...]
    repeated: Repeated
    cost: float

    @property
    def peak(self) -> int:
        return self.repeated.steps.peak

    def rank(self, limit: int) -> tuple[float, float, float, int]:
        """Return a sort key for trials (sets of gaps); the best trial has the smallest key.

        Trials that need at most ``limit`` bytes come first, sorted by cost. Trials that need more
        bytes follow, sorted by peak memory.
        """
        fits = self.peak <= limit
        return (not fits, self.cost if fits else self.peak, self.peak, len(self.gaps))


def _tried(steps: Steps, gaps: tuple[Gap, ...]) -> _Trial:
    repeated = leave(steps, gaps)
    return _Trial(gaps, repeated, repeated.steps.cost - steps.cost)


def _places(steps: Steps) -> list[list[Gap]]:
    return [list(variants) for _, variants in groupby(find_gaps(steps), key=lambda g: g.place)]


def _sets(places: Sequence[Sequence[Gap]]) -> Iterator[tuple[Gap, ...]]:
    for chosen in product(*([None, *variants] for variants in places)):
        yield tuple(gap for gap in chosen if gap is not None)


def _shortened(places: Sequence[Sequence[Gap]], length: int) -> list[list[Gap]]:
    """Return one or two gaps for each place, to limit the trials of the greedy search.

    A place is a pair of a value and the use at which its gap ends. The gaps of a place differ in
    the steps that recompute the value, and the length of a gap is the number of these steps. Return
    the shortest gap and, if another gap has at most ``length`` steps, the longest of these gaps.
    """
    return [
        [variants[0], *[gap for gap in variants[1:] if len(gap.again) <= length][-1:]]
        for variants in places
    ]


def _greedy(steps: Steps, places: Sequence[Sequence[Gap]], limit: int) -> _Trial:
    """Choose gaps one after the other until at most ``limit`` bytes are in use at any step.

    Each iteration tries gaps that span a step of peak memory, and adds the gap that saves the most
    bytes above ``limit`` per cost. The search ends early if no gap saves bytes; the result then
    exceeds the limit. ``places`` has the alternative gaps of each place, a pair of a value and the
    use at which the gaps end.
    """
    best = _tried(steps, ())
    while best.peak > limit:
        top = _peak_steps(best.repeated)
        taken = {gap.place for gap in best.gaps}
        near = [
            gap
            for variants in places
            if variants[0].place not in taken and any(variants[0].spans(n) for n in top)
            for gap in variants
        ]
        near.sort(key=lambda gap: _price(steps, gap))
        trials = [_tried(steps, (*best.gaps, gap)) for gap in near[:_MOST_TRIALS]]
        better = [t for t in trials if _excess(t, limit) < _excess(best, limit)]
        if not better:
            break
        old = best
        best = max(
            better,
            key=lambda t: (_excess(old, limit) - _excess(t, limit)) / max(t.cost - old.cost, 1e-9),
        )
    return best


def _excess(trial: _Trial, limit: int) -> int:
    """Return a measure of the memory above ``limit``, which the greedy search minimizes.

    The excess of a step is the number of bytes in use above ``limit``. The result is the sum of the
    excesses of the original steps, plus the largest excess of any original or recomputed step of
    ``trial``.
    """
    repeated = trial.repeated
    return sum(
        max(0, live - limit)
        for live, again in zip(repeated.steps.live_bytes, repeated.is_again, strict=True)
        if not again
    ) + max(0, trial.peak - limit)


def _peak_steps(repeated: Repeated) -> list[int]:
    """Return the steps at which the memory in use is highest, as indices in the original sequence.

    For a recomputed step, return the index of the next original step.
    """
    live, peak = repeated.steps.live_bytes, repeated.steps.peak
    found: list[int] = []
    following = len(live)
    for number in reversed(range(len(live))):
        if not repeated.is_again[number]:
            following = repeated.origins[number]
        if live[number] == peak:
            found.append(following)
    return found


def _price(steps: Steps, gap: Gap) -> float:
    repeated = [steps.steps[number] for number in gap.again]
    size = sum(steps.values[value].num_bytes for step in repeated for value in step.writes)
    return sum(step.cost for step in repeated) / max(size, 1)


def _dropped(steps: Steps, trial: _Trial, limit: int) -> _Trial:
    """Return ``trial``, a set of gaps, without unnecessary gaps.

    A gap is unnecessary if at most ``limit`` bytes are in use without the gap, at no higher cost.
    Gaps of high cost per byte are removed first. A trial that exceeds ``limit`` is returned
    unchanged.
    """
    if trial.peak > limit:
        return trial
    for gap in sorted(trial.gaps, key=lambda gap: -_price(steps, gap)):
        fewer = _tried(steps, tuple(other for other in trial.gaps if other != gap))
        if fewer.peak <= limit and fewer.cost <= trial.cost:
            trial = fewer
    return trial
