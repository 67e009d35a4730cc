"""Optimal cuts of a tree of operations into units, by dynamic programming over its edges.

In a tree each operation has at most one reader. A state of an operation is the open unit that
contains it: its edge to the reader is either cut, which closes the unit at its price, or the unit
grows into the reader's unit.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from math import inf

Unit = frozenset[int]
"""A unit: the numbers of the operations that become one rOperator."""

Seconds = Callable[[Unit], float]
"""A function that returns the price of a unit in seconds.

If a unit has an infinite price, so have its supersets.
"""

MOST_STATES = 512
"""Maximum number of open units of an operation that the search keeps; small trees have fewer."""

_Cut = tuple[float, tuple[Unit, ...]]
"""The total price in seconds of some closed units, and these units."""


def cheapest_cuts(
    order: Sequence[int],
    sources: Mapping[int, Collection[int]],
    seconds: Seconds,
    most: int = MOST_STATES,
) -> tuple[Unit, ...]:
    """Return the units with the least total price.

    Args:
        order: the tree's operations, each after its sources; the last is the root.
        sources: for each operation the operations that it reads from, each with no other reader.
        seconds: the price of a unit.
        most: maximum open units per operation; the result is optimal unless there are more, of
            which the cheapest are kept.
    """
    open_units: dict[int, dict[Unit, _Cut]] = {}
    closed: dict[int, _Cut] = {}
    for number in order:
        states: dict[Unit, _Cut] = {Unit([number]): (0.0, ())}
        for source in sorted(sources[number]):
            grown = _grow(states, open_units.pop(source), closed.pop(source))
            states = _cheapest(grown, seconds, most)
        open_units[number] = states
        closed[number] = min(
            ((rest + seconds(unit), (*units, unit)) for unit, (rest, units) in states.items()),
            key=lambda cut: cut[0],
        )
    return closed[order[-1]][1]


def _grow(
    states: Mapping[Unit, _Cut], above: Mapping[Unit, _Cut], cut: _Cut
) -> Iterable[tuple[Unit, _Cut]]:
    """Yield the open units of an operation after the edge to one more source is decided.

    Each open unit comes with the closed units below it: once with the edge cut, and once for each
    open unit of the source that it absorbs.

    Args:
        states: the open units of the operation, which contain other sources only.
        above: the open units of the source.
        cut: the closed units if the edge between the source and the operation is cut.
    """
    for unit, (rest, units) in states.items():
        yield unit, (rest + cut[0], (*units, *cut[1]))
        for other, (other_rest, other_units) in above.items():
            yield unit | other, (rest + other_rest, (*units, *other_units))


def _cheapest(found: Iterable[tuple[Unit, _Cut]], seconds: Seconds, most: int) -> dict[Unit, _Cut]:
    priced = [(cut[0] + seconds(unit), unit, cut) for unit, cut in found]
    priced = [state for state in priced if state[0] < inf]
    if len(priced) > most:
        priced = sorted(priced, key=lambda state: state[0])[:most]
    return {unit: cut for _, unit, cut in priced}
