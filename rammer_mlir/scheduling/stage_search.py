"""Searches for the best stages of a whole graph, block by block (IOS sections 4 and 5).

Each block is searched by dynamic programming.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from rammer_mlir.scheduling.ios_blocks import (
    Sources,
    chain_units,
    cut_at_single_values,
    cut_long,
    most_transitions,
    unit_sources,
)
from rammer_mlir.scheduling.ios_dynamic_programming import (
    EndingSearch,
    Pruning,
    SearchLimitError,
    StageTimes,
    members,
)

Unit = tuple[int, ...]
"""The operators of a unit, which is placed as a whole, in order."""

TimesOf = Callable[[Sequence[Unit]], StageTimes]
"""A function that is called with units, and returns the times of stages of these units."""

LONGEST = 40
"""Maximum number of units of a block that is searched as a whole."""

Stage = list[int]
"""The indices of the operators of a stage."""

Solved = list[tuple[int, ...]]
"""For each stage of a block, the indices of its units within the block."""


@dataclass
class SearchCounts:
    """The counts of a search for stages.

    A block is a contiguous range of units that is searched separately.

    Attributes:
        units: count of units of all blocks.
        blocks: count of blocks whose stages were found.
        distinct: count of searches that found the stages of a block; copies of a searched block
            need no search.
        cut: count of blocks that were cut into parts, because the search of the whole block
            exceeded the limit on transitions.
        states: count of sets of units for which the best schedule was computed, in all searches,
            including those that exceeded the limit on transitions (IOS section 4.2).
        transitions: count of pairs of a state and a subset of the state that was tried as the last
            stage, in all searches (IOS section 4.2).
    """

    units: int = 0
    blocks: int = 0
    distinct: int = 0
    cut: int = 0
    states: int = 0
    transitions: int = 0

    def words(self) -> str:
        """Return the counts as a line of text."""
        cut = f", {self.cut} cut to keep the search short" if self.cut else ""
        return (
            f"{self.units} units in {self.blocks} blocks, {self.distinct} of them distinct{cut}; "
            f"{self.states} states, {self.transitions} transitions"
        )


@dataclass
class StageSearch:
    """The search for the stages of smallest predicted time.

    First, the units are cut into segments, at the points where a single value is live. A segment is
    long if it has more than ``LONGEST`` units, or if the bound on its transitions exceeds
    ``max_transitions``. In a long segment, chains of operators become units if ``joins_chains``. A
    segment that still has more than ``LONGEST`` units is cut into blocks; any other segment is one
    block. Each block is searched separately. ``_solved`` has the results of searched blocks, so
    that a copy of a searched block needs no search.

    Attributes:
        sources: for each operator, in a topological order, the operators that it reads from.
        alike: for each operator a value that is equal for operators of equal times.
        times: called with a list of units; returns an object that predicts the times of stages,
            which are sets of these units.
        pruning: limits on the stages that are searched.
        max_transitions: maximum count of transitions in the search of a block. A block that needs
            more transitions is cut into parts.
        joins_chains: whether an operator and the only reader of its result may be in the same unit.
        is_worth: called with the units of a block; returns whether the block is searched. In a
            block that is not searched, each unit is a stage.
        counts: counts of the search so far.
    """

    sources: Sources
    alike: Sequence[object]
    times: TimesOf
    pruning: Pruning
    max_transitions: int
    joins_chains: bool = True
    is_worth: Callable[[Sequence[Sequence[int]]], bool] = lambda _: True
    counts: SearchCounts = field(default_factory=SearchCounts)
    _solved: dict[object, Solved | None] = field(default_factory=dict[object, "Solved | None"])

    def stages(self, units: Sequence[Sequence[int]]) -> list[Stage]:
        """Search for the stages of smallest predicted time; return the operators of each stage.

        The stages are in execution order.

        Args:
            units: the operators of each unit, in a topological order of units. All operators of a
                unit are placed in the same stage.
        """
        between = unit_sources(self.sources, units)
        found: list[Stage] = []
        for first, end in cut_at_single_values(between):
            found.extend(self._of_segment(units[first:end]))
        return found

    def _of_segment(self, units: Sequence[Sequence[int]]) -> Iterator[Stage]:
        """Yield the best stages of a segment, given its units.

        A segment has the units between two points of the graph where a single value is live.
        """
        between = unit_sources(self.sources, units)
        is_long = len(units) > LONGEST or most_transitions(between) > self.max_transitions
        if is_long and self.joins_chains:
            units = chain_units(self.sources, units)
            between = unit_sources(self.sources, units)
        for first, end in cut_long(between, LONGEST):
            part = units[first:end]
            yield from self._searched(part, unit_sources(self.sources, part))

    def _searched(self, units: Sequence[Sequence[int]], between: Sources) -> Iterator[Stage]:
        """Yield the best stages of ``units``.

        If searching all units together exceeds the limit on transitions, the units are divided into
        parts, which are searched separately. ``between`` has for each unit the units that it reads
        from.
        """
        if not self.is_worth(units):
            yield from map(sorted, units)
            return
        alike = tuple(tuple(self.alike[n] for n in unit) for unit in units)
        key = alike, tuple(map(tuple, between))
        if key not in self._solved:
            self._solved[key] = self._solve(units, between)
        solved = self._solved[key]
        if solved is not None:
            self.counts.units += len(units)
            self.counts.blocks += 1
            for stage in solved:
                yield sorted(n for index in stage for n in units[index])
            return
        self.counts.cut += 1
        for first, end in cut_long(between, len(units) - 1):
            part = units[first:end]
            yield from self._searched(part, unit_sources(self.sources, part))

    def _solve(self, units: Sequence[Sequence[int]], between: Sources) -> Solved | None:
        """Return for each of the best stages the indices of its units in ``units``.

        Return None if the search exceeds the limit on transitions. ``between`` has for each unit
        the units that it reads from.
        """
        readers = [0] * len(units)
        for number, found in enumerate(between):
            for source in found:
                readers[source] |= 1 << number
        times = self.times([tuple(unit) for unit in units])
        limit = self.max_transitions if len(units) > 1 else float("inf")
        search = EndingSearch(readers, times, self.pruning, limit)
        try:
            stages = search.solve()[1]
        except SearchLimitError:
            return None
        finally:
            self.counts.states += search.states
            self.counts.transitions += search.transitions
        self.counts.distinct += 1
        return [tuple(members(stage)) for stage in stages]
