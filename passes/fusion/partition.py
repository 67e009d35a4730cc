"""Partitions a graph's operations into units without cyclic dependences.

A unit becomes one rOperator; its price is its predicted time. A greedy search lowers the price of a
partition: it merges the two neighboring units with the largest gain, and moves single operations
to a neighboring unit or into a new unit.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Iterator, Sequence
from math import inf

from rammer_mlir.passes.fusion.tree_cuts import Seconds, Unit

_LEAST_GAIN = 1e-12
"""Minimum gain of a merge or a move in seconds; a smaller gain is rounding error."""

_FEW_UNITS = 2
"""Maximum number of changed units for which a search for a cycle starts at each changed unit.

For more changed units, all units are sorted topologically.
"""

_MOST_ROUNDS = 8
"""Maximum number of rounds; in a round, a move of every operation to another unit is tried."""


class Partition:
    """A partition of a graph's operations into units, each of which becomes an rOperator.

    Initially, each operation is a unit.
    """

    def __init__(
        self,
        sources: Sequence[Collection[int]],
        readers: Sequence[Collection[int]],
        seconds: Seconds,
    ) -> None:
        """Start with every operation as a unit.

        Args:
            sources: for each operation, the numbers of the operations that it reads from.
            readers: for each operation, the numbers of its readers. Numbers that are not those of
                operations in ``sources``, such as the terminator's, are ignored.
            seconds: called with a unit; returns the unit's price in seconds, infinite for a unit
                that is not legal.
        """
        self._sources = sources
        self._readers = [[n for n in found if n < len(sources)] for found in readers]
        self._seconds = seconds
        self._unit_of: dict[int, Unit] = {}

    def unit_of(self, number: int) -> Unit:
        """Return the unit that contains operation ``number``."""
        return self._unit_of.get(number) or Unit([number])

    def units(self, numbers: Iterable[int]) -> list[Unit]:
        """Return the units that contain the operations ``numbers``, each unit once.

        The units are ordered by the smallest of ``numbers`` that each unit contains.
        """
        return list(dict.fromkeys(map(self.unit_of, sorted(numbers))))

    def put(self, units: Iterable[Unit]) -> None:
        """Make ``units`` a part of the partition, in place of the units with the same operations.

        If an operation of an old unit is in ``units``, all other operations of that unit have to be
        in ``units`` too.
        """
        for unit in units:
            self._unit_of.update(dict.fromkeys(unit, unit))

    def price(self, numbers: Iterable[int]) -> float:
        """Return the sum of the predicted seconds of the units of the operations ``numbers``."""
        return sum(map(self._seconds, self.units(numbers)))

    def is_acyclic(self, units: Iterable[Unit]) -> bool:
        """Whether no unit in ``units`` depends on itself through other units."""
        # Single operations form an acyclic graph: a cycle passes through a larger unit.
        several = [unit for unit in units if len(unit) > 1]
        if len(several) > _FEW_UNITS:
            return self._are_ordered()
        return not any(self._waits_for_itself(unit) for unit in several)

    def _are_ordered(self) -> bool:
        """Whether no unit of the whole graph depends on itself, found by a topological sort."""
        everything = self.units(range(len(self._sources)))
        missing = {
            unit: sum(self.unit_of(s) != unit for n in unit for s in self._sources[n])
            for unit in everything
        }
        ready = [unit for unit, count in missing.items() if not count]
        for unit in ready:
            for reader in (self.unit_of(n) for member in unit for n in self._readers[member]):
                missing[reader] -= reader != unit
                if reader != unit and not missing[reader]:
                    ready.append(reader)
        return len(ready) == len(everything)

    def _waits_for_itself(self, unit: Unit) -> bool:
        pending = [n for member in unit for n in self._readers[member] if n not in unit]
        seen: set[Unit] = set()
        while pending:
            reached = self.unit_of(pending.pop())
            if reached == unit:
                return True
            if reached not in seen:
                seen.add(reached)
                pending.extend(
                    n for member in reached for n in self._readers[member] if n not in reached
                )
        return False

    def try_put(self, units: Sequence[Unit]) -> bool:
        """Make ``units`` a part of the partition, unless that creates a dependence cycle of units.

        Return whether the partition was changed.
        """
        before = self.units(number for unit in units for number in unit)
        self.put(units)
        if self.is_acyclic(units):
            return True
        self.put(before)
        return False

    def improve(self, numbers: Collection[int]) -> None:
        """Lower the predicted time of the units of the operations ``numbers`` by merges and moves.

        The search ends at a local optimum or after ``_MOST_ROUNDS`` rounds.
        """
        self.merge(numbers)
        for _ in range(_MOST_ROUNDS):
            if not self._move_each(numbers):
                return
            self.merge(numbers)

    def merge(self, numbers: Collection[int]) -> None:
        """Merge neighboring units of operations ``numbers`` while that lowers the predicted time.

        The two units with the largest gain are merged first.
        """
        inside = set(numbers)
        heap = [gain for unit in self.units(inside) for gain in self._gains(unit, inside)]
        heapq.heapify(heap)
        while heap:
            _, first, last, a, b = heapq.heappop(heap)
            # A stale entry: one of the two units has been merged since.
            if self.unit_of(first) != a or self.unit_of(last) != b:
                continue
            merged = a | b
            if self.try_put([merged]):
                for gain in self._gains(merged, inside):
                    heapq.heappush(heap, gain)

    def _gains(
        self, unit: Unit, inside: Collection[int]
    ) -> Iterator[tuple[float, int, int, Unit, Unit]]:
        """Yield each merge of the unit with a neighboring unit that lowers the price.

        Neighboring units have operations in ``inside`` that the unit reads from or is read by. A
        merge is a tuple of

        - the change of the price in seconds, which is negative,
        - the least operation number of the first and of the second unit, to order equal changes,
        - the first and the second unit.
        """
        for other in self._neighbors(unit, inside):
            loss = self._seconds(unit | other) - self._seconds(unit) - self._seconds(other)
            if loss < -_LEAST_GAIN:
                a, b = sorted((unit, other), key=min)
                yield loss, min(a), min(b), a, b

    def _neighbors(self, unit: Collection[int], inside: Collection[int]) -> list[Unit]:
        around = {
            number
            for member in unit
            for number in (*self._sources[member], *self._readers[member])
            if number in inside and number not in unit
        }
        return self.units(around)

    def _move_each(self, numbers: Collection[int]) -> bool:
        inside = set(numbers)
        # A list, not a generator: every operation is tried.
        return any([self._move(number, inside) for number in sorted(inside)])

    def _move(self, number: int, inside: set[int]) -> bool:
        """Move operation ``number`` to another unit if that lowers the predicted time (price).

        The possible targets are a new unit, and the units of those operations in ``inside`` that
        this operation reads from or is read by. Of the moves that create no dependence cycle, the
        move that lowers the price most is made. Operations that are left in the old unit without
        a connection to each other become separate units. Return whether the operation was moved.
        """
        old = self.unit_of(number)
        rest = self._connected(old - {number})
        options: list[tuple[float, int, list[Unit]]] = []
        for place in [Unit(), *self._neighbors([number], inside - old)]:
            units = [place | {number}, *rest]
            change = sum(map(self._seconds, units)) - self._seconds(old)
            change -= self._seconds(place) if place else 0.0
            if change < -_LEAST_GAIN and change > -inf:
                options.append((change, min(place, default=number), units))
        return any(self.try_put(units) for _, _, units in sorted(options, key=lambda o: o[:2]))

    def _connected(self, numbers: Collection[int]) -> list[Unit]:
        """Return the connected components of the operations ``numbers``, each as a unit.

        Two operations are connected if one reads a result of the other.
        """
        left, found = set(numbers), list[Unit]()
        while left:
            pending, unit = [min(left)], set[int]()
            while pending:
                number = pending.pop()
                if number in left:
                    left.remove(number)
                    unit.add(number)
                    pending.extend((*self._sources[number], *self._readers[number]))
            found.append(Unit(unit))
        return found
