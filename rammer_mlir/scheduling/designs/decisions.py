"""Rewrites a fused group by a decision on each value: store it, recompute it, or end a unit.

A unit is a part of the group between two barriers. A stored value is read in the unit that computes
it. The computation of a recomputed value is inlined into each reader, and its original loops
disappear. A value that ends a unit goes through memory: its readers belong to a later unit, and the
loops of that unit are mapped independently.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from math import prod

from rammer_mlir.scheduling.designs.problem import (
    Assignment,
    Decision,
    Problem,
    Read,
    Span,
    Traffic,
)

Decisions = tuple[Decision, ...]
"""Whether each value is stored, recomputed or ends a unit, in the order of ``Problem.values``."""


@dataclass(frozen=True)
class Decided:
    """A fused group, rewritten according to the decisions on its values.

    Attributes:
        decisions: for each value, whether it is stored, recomputed, or ends a unit.
        problem: the group in which recomputed values are part of their readers' computations, and
            values that end a unit are tensors in memory.
        units: for each assignment (loop nest), the number of its unit: a part of the group between
            two barriers. Units run in order of number.
    """

    decisions: Decisions
    problem: Problem
    units: tuple[int, ...]

    @property
    def num_units(self) -> int:
        """The number of units: parts of the group that barriers separate."""
        return max(self.units, default=0) + 1


def decide(problem: Problem) -> Iterator[Decided]:
    """Yield the rewritten group for each combination of its values' allowed decisions.

    Preferred combinations come first. A combination is left out if its units would depend on each
    other in a cycle.
    """
    for decisions in product(*(value.decisions for value in problem.values)):
        decided = _decided(problem, decisions)
        if decided is not None:
            yield decided


def _decided(problem: Problem, decisions: Decisions) -> Decided | None:
    rest = problem
    # Recompute readers first: a value that a recomputed reader reads is then inlined in turn.
    for number in sorted(range(len(decisions)), key=lambda n: -problem.values[n].producer):
        if decisions[number] is Decision.RECOMPUTED:
            rest = _recompute(rest, number)
    rest = _without_unused(rest, decisions)
    units = _units(rest, decisions)
    if units is None:
        return None
    for number, decision in enumerate(decisions):
        if decision is Decision.ENDED:
            rest = _through_memory(rest, number)
    return Decided(decisions, rest, units)


def _recompute(problem: Problem, number: int) -> Problem:
    """Return the problem with the computation of value ``number`` inlined into each reader."""
    assignments = list(problem.assignments)
    reads = [read for read in problem.reads if read.value != number]
    for read in (read for read in problem.reads if read.value == number):
        inlined = _Inlined(problem, read)
        assignments[read.reader] = inlined.into(assignments[read.reader])
        reads.extend(inlined.reads())
    return replace(problem, assignments=tuple(assignments), reads=tuple(reads))


@dataclass(frozen=True)
class _Inlined:
    """The rewriting that inlines the computation of a value into a loop nest that reads it.

    ``read`` names the value and the reader. The producer is the assignment that computes the value.
    """

    problem: Problem
    read: Read

    @property
    def _producer(self) -> int:
        return self.problem.values[self.read.value].producer

    def _loop(self, loop: int | None) -> int | None:
        """Return the reader's loop, by number, that replaces loop ``loop`` of the producer.

        ``loop`` indexes a dimension of the value, and the returned loop of the reader indexes the
        same dimension. Return None if ``loop`` is None or indexes no dimension of the value, or if
        the reader's index of this dimension is not a single loop.
        """
        dims = self.problem.values[self.read.value].dims
        return self.read.dims[dims.index(loop)] if loop is not None and loop in dims else None

    def into(self, reader: Assignment) -> Assignment:
        """Return the reader with the operations and memory reads of the inlined producer added."""
        producer = self.problem.assignments[self._producer]
        dims = self.problem.values[self.read.value].dims
        inner = [self.problem.loops[loop].extent for loop in producer.loops if loop not in dims]
        traffic = (self._moved(t) for t in producer.traffic if not t.is_write)
        return replace(
            reader,
            operations=reader.operations + producer.operations * prod(inner),
            traffic=tuple(dict.fromkeys((*reader.traffic, *traffic))),
        )

    def _moved(self, traffic: Traffic) -> Traffic:
        return replace(traffic, spans=tuple(map(self._span, traffic.spans)))

    def _span(self, span: Span) -> Span:
        """Return a span of the producer's traffic, in terms of the reader's loops.

        Each loop of the producer is replaced by the reader's loop over the same dimension of the
        value. If there is no such loop, the span covers all iterations of the producer's loop.
        """
        terms: list[tuple[int, int]] = []
        constant = span.constant
        for loop, factor in span.terms:
            reading = self._loop(loop)
            if reading is None:
                constant += factor * (self.problem.loops[loop].extent - 1)
            else:
                terms.append((reading, factor))
        return Span(tuple(terms), constant)

    def reads(self) -> Iterator[Read]:
        """Yield the reads that the reader takes over from the inlined producer.

        There is a read for each value of the group that the producer reads.
        """
        for read in self.problem.reads:
            if read.reader == self._producer:
                yield Read(read.value, self.read.reader, tuple(map(self._loop, read.dims)))


def _units(problem: Problem, decisions: Decisions) -> tuple[int, ...] | None:
    """Return the unit of each loop nest, by number; None if the units would form a cycle.

    A unit is a part of the group between two barriers. If the decision on a value is to end a unit,
    the readers of the value are in a later unit than its producer. For any other decision, the
    readers are in the producer's unit.
    """
    units = [0] * len(problem.assignments)
    # Without a cycle, the fixpoint is reached after at most one pass per unit.
    for _ in range(len(units) + 1):
        before = list(units)
        for read in problem.reads:
            producer = problem.values[read.value].producer
            if decisions[read.value] is Decision.ENDED:
                units[read.reader] = max(units[read.reader], units[producer] + 1)
            else:
                units[read.reader] = units[producer] = max(units[read.reader], units[producer])
        if units == before:
            return tuple(units)
    return None


def _through_memory(problem: Problem, number: int) -> Problem:
    """Return the problem in which value ``number`` ends a unit and is passed through memory.

    The write of the value is added to the memory traffic of its producer, and a read of the value
    to the memory traffic of each reader.
    """
    value = problem.values[number]
    reads = [read for read in problem.reads if read.value == number]
    assignments = list(problem.assignments)
    users = [(read.reader, read.dims, False) for read in reads]
    written = [(value.producer, value.dims, True)] if reads else []
    for user, dims, is_write in (*written, *users):
        spans = (_whole_or(loop, size) for loop, size in zip(dims, value.shape, strict=True))
        added = Traffic(tuple(spans), value.element_bytes, is_write)
        traffic = dict.fromkeys((*assignments[user].traffic, added))
        assignments[user] = replace(assignments[user], traffic=tuple(traffic))
    rest = tuple(read for read in problem.reads if read.value != number)
    return replace(problem, assignments=tuple(assignments), reads=rest)


def _whole_or(loop: int | None, size: int) -> Span:
    return Span((), size) if loop is None else Span(((loop, 1),))


def _without_unused(problem: Problem, decisions: Decisions) -> Problem:
    """Return the problem without computations whose results no reader needs.

    An assignment (a loop nest) is replaced by an empty assignment on two conditions: the readers
    recompute all of its values, and no result of the assignment leaves the group. The numbers of
    all other assignments stay valid.
    """
    values: dict[int, set[Decision]] = {}
    for value, decision in zip(problem.values, decisions, strict=True):
        values.setdefault(value.producer, set()).add(decision)
    gone = {
        producer
        for producer, found in values.items()
        if found == {Decision.RECOMPUTED} and not problem.assignments[producer].is_returned
    }
    kept = tuple(
        Assignment(a.name, (), 0) if n in gone else a for n, a in enumerate(problem.assignments)
    )
    reads = tuple(read for read in problem.reads if read.reader not in gone)
    return replace(problem, assignments=kept, reads=reads)
