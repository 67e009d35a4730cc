"""Cuts a tree of operations into the cheapest units, by dynamic programming over its edges.

A unit becomes one rOperator; its price is its predicted time.

In a tree, each operation has at most one reader. An *open unit* of an operation contains the
operation and possibly some of its direct and indirect sources; it is a state of the dynamic
program. The edge from the operation to its reader is either cut or kept. If it is cut, the open
unit is closed, and its price is added; if it is kept, the open unit becomes a part of an open unit
of the reader.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from math import inf

Unit = frozenset[int]
"""A unit: the numbers of the operations that become one rOperator."""

Seconds = Callable[[Unit], float]
"""A function that returns the price of a unit, its predicted time in seconds.

If a unit has an infinite price, so have all sets of operations that contain it.
"""

MOST_STATES = 512
"""Maximum number of open units of an operation that the search keeps; small trees have fewer."""

_Cut = tuple[float, tuple[Unit, ...]]
"""Closed units: the sum of their prices in seconds, and the units."""


def cheapest_cuts(
    order: Sequence[int],
    sources: Mapping[int, Collection[int]],
    seconds: Seconds,
    most: int = MOST_STATES,
) -> tuple[Unit, ...]:
    """Cut a tree of operations into units with the least total price, and return the units.

    The price of a unit is its predicted time in seconds.

    Args:
        order: the numbers of the tree's operations, each after its sources; the last is the root.
        sources: for each operation, the operations that it reads from; they have no other reader.
        seconds: called with a unit; returns its price, infinite if the unit is illegal.
        most: maximum number of open units that are kept for an operation; if there are more, the
            cheapest are kept, and the result may not be optimal.
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
    """Yield the open units of an operation after one more of its sources is considered.

    An open unit contains the operation and may still grow; closed units are complete. Each open
    unit in ``states`` gives several results. If the edge to the source is cut, the open unit is
    kept unchanged; if the edge is kept, the open unit is merged with any of the source's open
    units. Each result has the total price and the list of the closed units among the open unit's
    direct and indirect sources.

    Args:
        states: the operation's open units after the sources considered so far, each with its closed
            units and their total price.
        above: the source's open units, each with its closed units and their total price.
        cut: the closed units, and their total price, that cover the source and all its direct and
            indirect sources if the edge is cut.
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
