"""Divides a graph of operators into units and blocks for the search of schedules (IOS section 5).

A unit is a set of operators that a schedule places as a whole. A block is a contiguous range of
units in sequential order. Searching blocks separately loses little where few values are live
between them.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Sequence
from itertools import pairwise

Sources = Sequence[Sequence[int]]
"""For each operator, in a topological order, the operators whose results it reads."""

Block = tuple[int, int]
"""A range of units: the index of the first unit, and the index of the last unit plus one."""


def fill_units(sources: Sources, fills: Collection[int]) -> list[list[int]]:
    """Return the units of a graph: each has one operator, and the fill operators that join it.

    A fill operator only initializes a buffer, such as the padding of an image, and reads nothing. A
    fill operator joins the first of these operators that exists:

    - an operator, other than a fill operator, from which all readers of the fill operator read too;
      if there are several, the latest in topological order
    - the reader of the fill operator, if there is only one reader

    Otherwise, the fill operator is a separate unit. A unit with an operator that is not a fill
    operator depends only on the operators from which this operator reads.

    Args:
        sources: for each operator, in topological order, the indices of the operators whose results
            it reads.
        fills: the indices of the fill operators.
    """
    readers = _readers(sources)
    units = {number: [number] for number in range(len(sources))}
    for number in sorted(fills):
        if not readers[number]:
            continue
        partners = set.intersection(*(set(sources[reader]) for reader in readers[number]))
        host = max((p for p in partners if p not in fills), default=None)
        if host is None and len(readers[number]) == 1:
            host = readers[number][0]
        if host is not None:
            units[host] = [*units.pop(number), *units[host]]
    return list(units.values())


def chain_units(sources: Sources, units: Sequence[Sequence[int]]) -> list[list[int]]:
    """Return the units, with each chain of units merged into a single unit.

    In a chain, each unit is the only reader of its predecessor and reads no other unit.
    ``sources`` has for each operator the indices of the operators whose results it reads, and
    ``units`` has the operators of each unit.
    """
    between = unit_sources(sources, units)
    readers = _readers(between)
    chains: dict[int, list[int]] = {}
    for number, unit in enumerate(units):
        before = between[number]
        is_next = len(before) == 1 and len(readers[before[0]]) == 1
        chains[number] = [*chains.pop(before[0]), *unit] if is_next else list(unit)
    return list(chains.values())


def unit_sources(sources: Sources, units: Sequence[Sequence[int]]) -> list[list[int]]:
    """Return for each unit the indices of the other units whose results it reads.

    ``sources`` has for each operator the indices of the operators whose results it reads, and
    ``units`` has the operators of each unit.
    """
    unit_of = {number: index for index, unit in enumerate(units) for number in unit}
    return [
        sorted({unit_of[s] for n in unit for s in sources[n] if s in unit_of} - {index})
        for index, unit in enumerate(units)
    ]


def crossing_values(sources: Sources) -> list[int]:
    """Return, for each operator except the last, the number of values live after the operator.

    A value is live if an operator after this one reads it. Values that the same later operators
    read, such as parts of a concatenation, count as a single value.
    """
    # Random 64-bit names: xors of different sets of readers are different, almost surely.
    names = [random.Random(number).getrandbits(64) for number in range(len(sources))]
    remaining = [0] * len(sources)  # The xor of the names of a result's readers to come.
    for number, found in enumerate(sources):
        for source in found:
            remaining[source] ^= names[number]
    live: Counter[int] = Counter()
    found_values: list[int] = []
    for number, found in enumerate(sources):
        for source in found:
            live[remaining[source]] -= 1
            if not live[remaining[source]]:
                del live[remaining[source]]
            remaining[source] ^= names[number]
            if remaining[source]:
                live[remaining[source]] += 1
        if remaining[number]:
            live[remaining[number]] += 1
        found_values.append(len(live))
    return found_values[:-1]


def cut_at_single_values(sources: Sources) -> list[Block]:
    """Cut a sequence of units into blocks, after each unit whose result is the only live value.

    The sequence is not cut where the only live value is the result of an earlier unit: that value
    has readers on both sides, which may run concurrently. ``sources`` has the indices of the units
    that each unit reads from.
    """
    crossing = crossing_values(sources)
    read = {source for found in sources for source in found}
    places = [p for p, values in enumerate(crossing, 1) if values == 1 and p - 1 in read]
    return list(pairwise([0, *places, len(sources)])) if sources else []


def cut_long(sources: Sources, longest: int) -> list[Block]:
    """Cut a sequence of units into blocks of at most ``longest`` units.

    ``sources`` has the indices of the units that each unit reads from. The cuts are where the
    fewest values are live.
    """
    crossing = crossing_values(sources)

    def cut(first: int, end: int) -> list[Block]:
        if end - first <= max(1, longest):
            return [(first, end)]
        places = [first, *_narrow(crossing, first, end, longest), end]
        return [block for part in pairwise(places) for block in cut(*part)]

    return cut(0, len(sources)) if sources else []


def _narrow(crossing: Sequence[int], first: int, end: int, longest: int) -> list[int]:
    """Return the units before which to cut a range of units into smaller ranges.

    The cuts are where the fewest values are live, at least ``longest // 4`` units away from each
    other and from the ends of the range.

    Args:
        crossing: for each unit except the last, the number of values live after the unit.
        first: first unit of the range to cut.
        end: last unit of the range plus one.
        longest: maximum number of units of a block.
    """
    least = max(1, longest // 4)
    inside = range(first + least, end - least + 1)
    fewest = min(crossing[place - 1] for place in inside)
    chosen = [first]
    for place in inside:
        if crossing[place - 1] == fewest and place - chosen[-1] >= least:
            chosen.append(place)
    return chosen[1:]


def width(sources: Sources) -> int:
    """Return the size of the largest set of mutually independent units (Dilworth, 1950).

    ``sources`` has for each unit the indices of the units that it reads from. Two units are
    independent if neither depends on the other, directly or not.
    """
    before: list[int] = []  # The mask of all units that a unit depends on, transitively.
    for found in sources:
        before.append(0)
        for source in found:
            before[-1] |= before[source] | 1 << source
    follower: dict[int, int] = {}  # In a smallest cover by chains; found by augmenting paths.

    def extend(number: int, tried: set[int]) -> bool:
        for source in range(number):
            if before[number] >> source & 1 and source not in tried:
                tried.add(source)
                if source not in follower or extend(follower[source], tried):
                    follower[source] = number
                    return True
        return False

    return len(sources) - sum(extend(number, set()) for number in range(len(sources)))


def most_transitions(sources: Sources) -> float:
    """Return IOS's upper bound on the number of transitions of a block (IOS section 4.2).

    A transition consists of a set of units and one of the set's endings. An ending is a subset that
    can be the last stage of a schedule of the set. ``sources`` has for each unit of the block the
    indices of the units that it reads from.
    """
    wide = width(sources)
    length = len(sources) / wide + 2
    return (length * (length - 1) / 2) ** wide


def _readers(sources: Sources) -> list[list[int]]:
    readers: list[list[int]] = [[] for _ in sources]
    for number, found in enumerate(sources):
        for source in found:
            readers[source].append(number)
    return readers
