"""Matches patterns in a graph of readings, and chooses matches that become composites.

A reading is a known tensor operation, such as a convolution, that was recognized in one or more IR
operations (``reading.py``). A composite is a match that a code generator computes as a whole. The
root of a match is the reading whose result the pattern describes. Matching proceeds from a root to
its operands and backtracks over all alternatives of a pattern, so that it finds a match whenever
there is one. A match is accepted only if the root's output is the only value of the match that is
used outside of the match.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from rammer_mlir.passes.regions.expressions import COMMUTATIVE
from rammer_mlir.passes.regions.guarded import guarded
from rammer_mlir.passes.regions.match import Match, Names
from rammer_mlir.passes.regions.patterns import (
    Alternatives,
    CompositePattern,
    Op,
    Pattern,
    Repeated,
    Typed,
    Wildcard,
    root_kinds,
)
from rammer_mlir.passes.regions.reading import Operand, Reading


class ReadingGraph:
    """The readings (recognized operations) of a block, and the use-def chains between them."""

    def __init__(self, readings: Sequence[Reading], used_elsewhere: Collection[Hashable]) -> None:
        """Connect recognized operations by the values that they compute and use.

        Args:
            readings: the recognized operations in topological order.
            used_elsewhere: the values that the function returns, or that unrecognized operations
                use.
        """
        self.readings = readings
        self._elsewhere = frozenset(used_elsewhere)
        self._producer = {reading.output.value: n for n, reading in enumerate(readings)}
        self._readers: dict[Hashable, set[int]] = {}
        for number, reading in enumerate(readings):
            for operand in reading.inputs:
                self._readers.setdefault(operand.value, set()).add(number)

    def producer(self, value: Hashable) -> int | None:
        """Return the index of the recognized operation that computes ``value``, else None."""
        return self._producer.get(value)

    def escapes(self, number: int, inside: Collection[int]) -> bool:
        """Whether the output of operation ``number`` has a user that is not in ``inside``.

        The operations are the recognized ones, given by index. A return, or an operation that is
        not recognized, is never in ``inside``.
        """
        value = self.readings[number].output.value
        return value in self._elsewhere or not self._readers.get(value, set()) <= set(inside)


@dataclass(frozen=True)
class _State:
    """A partial match: the values and operands that are bound so far.

    Attributes:
        values: the value that each pattern object has matched.
        names: the operand that is bound to each named wildcard, a pattern of any value.
        outer: the values that are bound to wildcards; none may be computed inside the match.
        numbers: the indices of the matched operations in the graph.
    """

    values: Mapping[Pattern, Hashable] = field(default_factory=dict[Pattern, Hashable])
    names: Names = field(default_factory=dict[str, Operand])
    outer: frozenset[Hashable] = frozenset()
    numbers: frozenset[int] = frozenset()

    def bind(self, pattern: Wildcard, operand: Operand) -> _State | None:
        """Return the state with the wildcard ``pattern`` bound to ``operand``.

        Return None if the wildcard's name is already bound to a different value.
        """
        known = self.names.get(pattern.name, operand) if pattern.name else operand
        if known.value != operand.value:
            return None
        names = {**self.names, pattern.name: operand} if pattern.name else self.names
        values = {**self.values, pattern: operand.value}
        return _State(values, names, self.outer | {operand.value}, self.numbers)


def matches(
    graph: ReadingGraph, pattern: Pattern, root: int, taken: Collection[int] = ()
) -> Iterator[Match]:
    """Yield the matches of a pattern with a given root, preferred alternatives first.

    The root's output is the only value of a match that is used outside of the match.

    Args:
        graph: the graph of recognized operations (readings).
        pattern: the pattern of the root's result.
        root: the index of the root in ``graph``.
        taken: the indices of operations that no match may contain.
    """
    for state in _match(graph, pattern, graph.readings[root].output, _State(), taken):
        if root not in state.numbers or _is_inside(graph, state):
            continue
        if any(graph.escapes(n, state.numbers) for n in state.numbers if n != root):
            continue
        numbers = tuple(sorted(state.numbers))
        yield Match(tuple(graph.readings[n] for n in numbers), numbers, state.names)


def _is_inside(graph: ReadingGraph, state: _State) -> bool:
    """Whether a wildcard is bound to a value that the match itself computes."""
    return any(graph.producer(value) in state.numbers for value in state.outer)


def _match(
    graph: ReadingGraph, pattern: Pattern, operand: Operand, state: _State, taken: Collection[int]
) -> Iterator[_State]:
    if pattern in state.values:
        if state.values[pattern] == operand.value:
            yield state
    elif isinstance(pattern, Wildcard):
        bound = state.bind(pattern, operand)
        if bound is not None and (operand.is_constant or not pattern.is_constant):
            yield bound
    else:
        for found in _match_compound(graph, pattern, operand, state, taken):
            values = {**found.values, pattern: operand.value}
            yield _State(values, found.names, found.outer, found.numbers)


def _match_compound(
    graph: ReadingGraph, pattern: Pattern, operand: Operand, state: _State, taken: Collection[int]
) -> Iterator[_State]:
    if isinstance(pattern, Op):
        yield from _match_operation(graph, pattern, operand, state, taken)
    elif isinstance(pattern, Typed) and operand.element_type == pattern.name:
        yield from _match(graph, pattern.pattern, operand, state, taken)
    elif isinstance(pattern, Alternatives | Repeated):
        options = pattern.options() if isinstance(pattern, Repeated) else pattern.options
        for option in options:
            yield from _match(graph, option, operand, state, taken)


def _match_operation(
    graph: ReadingGraph, pattern: Op, operand: Operand, state: _State, taken: Collection[int]
) -> Iterator[_State]:
    number = graph.producer(operand.value)
    if number is None or number in taken or number in state.numbers:
        return
    reading = graph.readings[number]
    if reading.kind not in pattern.kinds or not _has(reading, pattern.attributes):
        return
    begun = _State(state.values, state.names, state.outer, state.numbers | {number})
    if pattern.operands is None:
        yield begun
        return
    if len(pattern.operands) != len(reading.inputs):
        return
    for inputs in _orders(reading):
        yield from _match_operands(graph, pattern.operands, inputs, begun, taken)


def _has(reading: Reading, attributes: Mapping[str, object]) -> bool:
    return all(
        name in reading.attributes and reading.attributes[name] == value
        for name, value in attributes.items()
    )


def _orders(reading: Reading) -> Iterator[Sequence[Operand]]:
    """Yield the inputs of an operation in each order of equal result, the IR's order first.

    Only the two inputs of a commutative kind have a second order.
    """
    yield reading.inputs
    if len(reading.inputs) == 2 and reading.kind in COMMUTATIVE:
        yield reading.inputs[::-1]


def _match_operands(
    graph: ReadingGraph,
    patterns: Sequence[Pattern],
    operands: Sequence[Operand],
    state: _State,
    taken: Collection[int],
) -> Iterator[_State]:
    if not patterns:
        yield state
        return
    for found in _match(graph, patterns[0], operands[0], state, taken):
        yield from _match_operands(graph, patterns[1:], operands[1:], found, taken)


@dataclass(frozen=True)
class Composite:
    """A match that a code generator computes as a whole, and the name of its pattern."""

    name: str
    match: Match


def find_composites(
    graph: ReadingGraph, patterns: Sequence[CompositePattern], taken: Collection[int] = ()
) -> list[Composite]:
    """Choose matches that share no operation; return them in the order of their roots.

    These criteria choose among matches that overlap, the most important first:

    - higher priority of the pattern
    - larger count of operations
    - later root
    - earlier pattern in ``patterns``

    Args:
        graph: the graph of recognized operations (readings).
        patterns: the patterns of all code generators.
        taken: the indices of operations that already belong to composites.
    """
    used = set(taken)
    kinds = [frozenset(root_kinds(pattern.pattern)) for pattern in patterns]
    waiting: list[tuple[tuple[int, int, int, int], Match]] = []
    for place, pattern in enumerate(patterns):
        for root, reading in enumerate(graph.readings):
            if reading.kind in kinds[place]:
                _offer(waiting, graph, pattern, (root, place), used)
    chosen: list[tuple[int, Composite]] = []
    while waiting:
        (_, _, root, place), match = heapq.heappop(waiting)
        pattern = patterns[place]
        if used.isdisjoint(match.numbers):
            used.update(match.numbers)
            chosen.append((-root, Composite(pattern.name, match)))
        # The match overlaps a chosen match: look for another at the same root.
        elif -root not in used:
            _offer(waiting, graph, pattern, (-root, place), used)
    return [composite for _, composite in sorted(chosen, key=lambda each: each[0])]


def _offer(
    waiting: list[tuple[tuple[int, int, int, int], Match]],
    graph: ReadingGraph,
    pattern: CompositePattern,
    at: tuple[int, int],
    used: Collection[int],
) -> None:
    """Push the preferred match of a pattern at a root to the heap ``waiting``, if there is a match.

    Args:
        waiting: the heap of matches; a smaller key is preferred.
        graph: the graph of recognized operations (readings).
        pattern: the pattern.
        at: the index of the root in ``graph``, and the index of the pattern in the list of all
            patterns.
        used: the indices of operations that the match may not contain.
    """
    root, place = at
    for match in matches(graph, pattern.pattern, root, used):
        if pattern.check is None or _passes(pattern, match):
            key = (-pattern.priority, -len(match.numbers), -root, place)
            heapq.heappush(waiting, (key, match))
            return


def _passes(pattern: CompositePattern, match: Match) -> bool:
    assert pattern.check is not None
    expected = f"pattern '{pattern.name}': expected its check to return whether a match is taken"
    taken = guarded(expected, partial(pattern.check, match), "mend the code generator's table")
    return bool(taken)
