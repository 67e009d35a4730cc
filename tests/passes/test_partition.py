"""Tests that trees and graphs of operations are divided into the cheapest units.

The units are compared with those of an exhaustive search.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Collection, Iterator, Sequence
from math import inf

import pytest

from rammer_mlir.passes.fusion.partition import Partition
from rammer_mlir.passes.fusion.tree_cuts import Seconds, Unit, cheapest_cuts

TOO_MANY = 5
"""Least number of operations of a unit that is illegal because of its size."""


def prices(seed: int, heavy: Collection[int]) -> Seconds:
    """Return a function that gives a random price for each unit.

    The price is infinite for units of five or more operations, and for units with two of the
    ``heavy`` operations.
    """

    def seconds(unit: Unit) -> float:
        if len(unit) >= TOO_MANY or len(unit & set(heavy)) > 1:
            return inf
        draw = random.Random(f"{seed} {sorted(unit)}")
        return draw.uniform(0.5, 1.5) * len(unit) ** 0.6

    return seconds


def random_tree(draw: random.Random, count: int) -> dict[int, set[int]]:
    """Return a random tree: for each operation, the operations that it reads.

    The last operation is the root.
    """
    sources: dict[int, set[int]] = {number: set() for number in range(count)}
    for number in range(count - 1):
        sources[draw.randrange(number + 1, count)].add(number)
    return sources


def all_units(sources: dict[int, set[int]]) -> Iterator[list[Unit]]:
    """Yield every division of a tree into units, one for each subset of its edges that is cut.

    ``sources`` has the operations that each operation reads. The operations that the remaining
    edges connect are a unit.
    """
    edges = [(source, number) for number, found in sources.items() for source in found]
    for kept in itertools.product((False, True), repeat=len(edges)):
        unit_of = {number: {number} for number in sources}
        for (a, b), is_kept in zip(edges, kept, strict=True):
            if is_kept:
                merged = unit_of[a] | unit_of[b]
                unit_of.update(dict.fromkeys(merged, merged))
        yield list({Unit(unit) for unit in unit_of.values()})


@pytest.mark.parametrize("seed", range(60))
def test_a_tree_is_cut_as_by_brute_force(seed: int) -> None:
    draw = random.Random(seed)
    count = draw.randrange(1, 10)
    sources = random_tree(draw, count)
    seconds = prices(seed, draw.sample(range(count), count // 3))
    found = cheapest_cuts(range(count), sources, seconds)
    assert sorted(n for unit in found for n in unit) == list(range(count))
    best = min(sum(map(seconds, units)) for units in all_units(sources))
    assert sum(map(seconds, found)) == pytest.approx(best)


def test_fewer_states_are_the_cheapest_ones() -> None:
    """A search that keeps only the three cheapest partial solutions still finds the best solution.

    For a chain of equal operations, that is a single unit of all operations.
    """
    sources = {number: {number - 1} if number else set[int]() for number in range(12)}
    found = cheapest_cuts(range(12), sources, lambda unit: len(unit) ** 0.5, most=3)
    assert found == (Unit(range(12)),)


def random_graph(draw: random.Random, count: int) -> list[set[int]]:
    """Return a random graph: for each operation, up to three earlier operations that it reads."""
    return [
        set(draw.sample(range(number), min(number, draw.randrange(0, 4))))
        for number in range(count)
    ]


def readers_of(sources: Sequence[Collection[int]]) -> list[set[int]]:
    """Return for each operation the operations that read it."""
    found: list[set[int]] = [set() for _ in sources]
    for number, read in enumerate(sources):
        for source in read:
            found[source].add(number)
    return found


def waits(sources: Sequence[Collection[int]], units: Collection[Unit]) -> bool:
    """Return whether some units depend on each other in a cycle, so that none can run first.

    ``sources`` has the operations that each operation reads.
    """
    unit_of = {number: unit for unit in units for number in unit}
    left = set(units)
    while left:
        ready = {
            unit
            for unit in left
            if not any(unit_of[s] in left - {unit} for n in unit for s in sources[n])
        }
        if not ready:
            return True
        left -= ready
    return False


@pytest.mark.parametrize("seed", range(200))
def test_units_never_wait_for_each_other_and_cost_no_more_than_single_ones(seed: int) -> None:
    draw = random.Random(seed)
    sources = random_graph(draw, draw.randrange(4, 24))
    seconds = prices(seed, draw.sample(range(len(sources)), len(sources) // 4))
    partition = Partition(sources, readers_of(sources), seconds)
    everything = range(len(sources))
    alone = partition.price(everything)
    partition.merge(everything)
    merged = partition.price(everything)
    assert not waits(sources, partition.units(everything))
    partition.improve(everything)
    assert not waits(sources, partition.units(everything))
    assert partition.price(everything) <= merged + 1e-9 <= alone + 2e-9
    assert sorted(n for unit in partition.units(everything) for n in unit) == list(everything)


@pytest.mark.parametrize("seed", range(100))
def test_a_wait_is_found_for_every_pair(seed: int) -> None:
    draw = random.Random(seed)
    sources = random_graph(draw, 9)
    for a, b in itertools.combinations(range(9), 2):
        partition = Partition(sources, readers_of(sources), lambda unit: 1.0)
        units = [Unit([a, b]), *(Unit([n]) for n in range(9) if n not in (a, b))]
        assert partition.try_put([Unit([a, b])]) is not waits(sources, units)
        assert (partition.unit_of(a) == partition.unit_of(b)) is not waits(sources, units)


@pytest.mark.parametrize("seed", range(100))
def test_a_wait_is_found_among_many_units(seed: int) -> None:
    draw = random.Random(seed)
    sources = random_graph(draw, 12)
    numbers = draw.sample(range(12), 12)
    units = [Unit(numbers[n : n + 2]) for n in range(0, 8, 2)]
    units += [Unit([n]) for n in numbers[8:]]
    partition = Partition(sources, readers_of(sources), lambda unit: 1.0)
    assert partition.try_put(units) is not waits(sources, units)


def test_a_move_leaves_what_merging_got_wrong() -> None:
    """Moves of operations between units improve a partition that greedy merging has made.

    Merging takes the largest gain first, so that an operation may be in the wrong unit.
    """
    price = {Unit([0]): 3.0, Unit([1]): 3.0, Unit([2]): 3.0}
    price |= {Unit([0, 1]): 2.0, Unit([1, 2]): 2.5, Unit([2, 3]): 9.0, Unit([3]): 3.0}
    price |= {Unit([0, 1, 2]): 9.0, Unit([1, 2, 3]): 0.5, Unit([0, 1, 2, 3]): 9.0}
    sources: list[set[int]] = [set(), {0}, {1}, {2}]
    partition = Partition(sources, readers_of(sources), lambda unit: price.get(unit, inf))
    partition.put([Unit([0, 1]), Unit([2, 3])])
    partition.improve(range(4))
    assert partition.units(range(4)) == [Unit([0]), Unit([1, 2, 3])]
