"""Finds the best stages by dynamic programming over endings, as IOS does (IOS section 4).

- A unit is an operator, or several operators that are placed as a whole.
- A set of units is a bit mask: bit i stands for unit i.
- An ending of a set is a subset that no edge leaves, so that it can be the last stage of a schedule
  of the set.
- A group is a connected component of a stage.

The search is meant for graphs of up to some tens of units.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import inf
from operator import itemgetter
from typing import Protocol

_EQUAL = 1 + 1e-9
"""Maximum ratio of two times that count as equal.

Sums differ by rounding if their terms are added in another order.
"""

Mask = int
Stages = tuple[Mask, ...]


class SearchLimitError(Exception):
    """Raised when a search would exceed the allowed number of transitions.

    A transition is a pair of a set of units and a possible last stage of this set. The scheduler
    catches the error, and searches smaller blocks of units.
    """


@dataclass(frozen=True)
class Pruning:
    """The limits of IOS section 4.3 on a stage.

    A group is a connected component of a stage.

    Attributes:
        group_size: maximum number of units of a group (IOS's r).
        num_groups: maximum number of groups of a stage (IOS's s).
    """

    group_size: int = 3
    num_groups: int = 8


class StageTimes(Protocol):
    """An interface that predicts the times of stages and groups; times are non-negative seconds.

    A stage is a set of units that run at the same time. A group is a connected component of a
    stage.
    """

    def group(self, units: Mask) -> tuple[float, float]:
        """Return two times of a group in seconds: its critical path, and its work per vEU.

        The work per vEU is the sum of the seconds of all the group's rTasks, divided by the number
        of vEUs. ``units`` is the mask of the group's units.
        """
        ...

    def bound(self, units: Mask, longest: float, work: float) -> float:
        """Return a lower bound in seconds on a stage's time.

        Args:
            units: the mask of the stage's units.
            longest: the longest critical path of the stage's groups, in seconds.
            work: the sum over the stage's groups of their work per vEU, in seconds: the second
                result of ``group``.
        """
        ...

    def stage(self, units: Mask) -> float:
        """Return the time in seconds of a stage; ``units`` is the mask of its units."""
        ...

    def least(self, unit: int) -> float:
        """Return a lower bound on the seconds that a unit adds to the time of any schedule."""
        ...


@dataclass
class EndingSearch:
    """The search for the fastest stages of a graph of units, numbered in a topological order.

    An ending of a set of units is a possible last stage of a schedule of the set. Among endings of
    equal predicted time, the ending with the fewest units is preferred, because large stages may
    take longer than predicted: the prediction counts a single barrier per stage, but within a
    stage, rTasks wait for each other. ``_best`` has for each set solved so far the seconds of its
    best schedule, and the mask of the last stage.

    Attributes:
        readers: for each unit, the mask of the units that read the unit's result.
        times: predicts the seconds of a stage.
        pruning: limits on the endings; None to search all endings.
        max_transitions: maximum number of transitions; a transition is a pair of a set of units and
            one of the set's endings.
        transitions: number of transitions found so far.
    """

    readers: Sequence[Mask]
    times: StageTimes
    pruning: Pruning | None = None
    max_transitions: float = inf
    transitions: int = 0
    _best: dict[Mask, tuple[float, Mask]] = field(default_factory=dict[Mask, tuple[float, Mask]])

    def solve(self) -> tuple[float, Stages]:
        """Return the seconds of the best schedule, and the masks of its stages in execution order.

        Raises:
            SearchLimitError: if the search needs more than ``max_transitions`` transitions.
        """
        rest = (1 << len(self.readers)) - 1
        seconds = self._cost(rest)
        stages: list[Mask] = []
        while rest:
            ending = self._best[rest][1]
            stages.append(ending)
            rest &= ~ending
        return seconds, tuple(reversed(stages))

    @property
    def states(self) -> int:
        """The number of sets of units for which the best schedule was computed."""
        return len(self._best)

    def _cost(self, rest: Mask) -> float:
        if not rest:
            return 0.0
        known = self._best.get(rest)
        if known is not None:
            return known[0]
        best, chosen = inf, 0
        for bound, others, ending in self._endings(rest):
            if bound > best * _EQUAL:  # the list is sorted by these bounds
                break
            seconds = self.times.stage(ending)
            if seconds + others > best * _EQUAL:
                continue
            cost = self._cost(rest & ~ending) + seconds
            is_equal = best <= cost * _EQUAL and cost <= best * _EQUAL
            is_smaller = ending.bit_count() < chosen.bit_count()
            if (is_equal and is_smaller) or (not is_equal and cost < best):
                best, chosen = cost, ending
        self._best[rest] = best, chosen
        return best

    def _endings(self, rest: Mask) -> list[tuple[float, float, Mask]]:
        """Return all endings of the set ``rest`` of units, by ascending lower bound.

        An entry of the result has:

        - a lower bound on the seconds of a schedule of the set with this ending;
        - a lower bound on the seconds of the stages before the ending;
        - the mask of the ending.

        Raises:
            SearchLimitError: if the search exceeds ``max_transitions``.
        """
        size, most = len(self.readers), len(self.readers)
        if self.pruning is not None:
            size, most = self.pruning.group_size, self.pruning.num_groups
        least = self._least
        everything = sum(least[n] for n in members(rest))
        parts = [
            (g, *self.times.group(g), sum(least[n] for n in members(g)))
            for g in closed_groups(self.readers, rest, size, self.max_transitions)
        ]
        found: list[tuple[float, float, Mask]] = []
        limit = self.times.bound

        def extend(
            begin: int, chosen: Mask, longest: float, work: float, others: float, more: int
        ) -> None:
            # Disjoint groups share no edge: each contains all readers of its units.
            for index in range(begin, len(parts)):
                group, alone, spread, share = parts[index]
                if group & chosen:
                    continue
                if self.transitions + len(found) > self.max_transitions:
                    raise SearchLimitError
                together = chosen | group
                path = max(longest, alone)
                before = others - share
                found.append((limit(together, path, work + spread) + before, before, together))
                if more > 1:
                    extend(index + 1, together, path, work + spread, before, more - 1)

        for first in range(len(parts)):
            group, alone, spread, share = parts[first]
            before = everything - share
            found.append((limit(group, alone, spread) + before, before, group))
            if most > 1:
                extend(first + 1, group, alone, spread, before, most - 1)
            if self.transitions + len(found) > self.max_transitions:
                raise SearchLimitError
        self.transitions += len(found)
        found.sort(key=itemgetter(0))
        return found

    @cached_property
    def _least(self) -> list[float]:
        return [self.times.least(unit) for unit in range(len(self.readers))]


def closed_groups(readers: Sequence[Mask], rest: Mask, most: int, limit: float = inf) -> list[Mask]:
    """Return the connected endings of the set ``rest`` with at most ``most`` units.

    An ending is a subset that contains, for each of its units, all readers of the unit within
    ``rest`` (IOS section 4). Bit i of a mask stands for unit i; ``readers`` has the readers of each
    unit.

    Raises:
        SearchLimitError: if more than ``limit`` endings are found, including those that are not
            connected.
    """
    closed = {0}
    frontier = closed
    for _ in range(most):
        frontier = {
            chosen | 1 << number
            for chosen in frontier
            for number in _members(rest & ~chosen)
            if not readers[number] & rest & ~chosen
        }
        if not frontier:
            break
        closed |= frontier
        if len(closed) > limit:
            raise SearchLimitError
    return [chosen for chosen in closed - {0} if len(groups(readers, chosen)) == 1]


def groups(readers: Sequence[Mask], stage: Mask) -> list[Mask]:
    """Return the groups of a stage, its connected components, as masks of units."""
    found: list[Mask] = []
    for number in members(stage):
        joined = 1 << number | readers[number] & stage
        apart = [group for group in found if not group & joined]
        for group in found:
            if group & joined:
                joined |= group
        found = [*apart, joined]
    return found


def members(mask: Mask) -> list[int]:
    """Return the indices of the units in a mask, ascending."""
    return list(_members(mask))


def _members(mask: Mask) -> Iterator[int]:
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


def rooted_endings(readers: Sequence[Mask], rest: Mask) -> list[Mask]:
    """Return the endings of the set ``rest`` in which each group has a root.

    An ending of a set of operators is a subset that can be the last stage of the set, and a group
    is a connected component of an ending. A root is an operator from which all other operators of
    its group are reachable. IOS's authors search these endings only: unions of disjoint sets, each
    with an operator and all operators of ``rest`` that depend on it. Bit i of a mask stands for
    operator i; ``readers`` has the readers of each operator.
    """
    behind: dict[int, Mask] = {}
    for number in reversed(members(rest)):
        mask = 1 << number
        for reader in members(readers[number] & rest):
            mask |= behind[reader]
        behind[number] = mask
    sets = list(behind.values())
    found: list[Mask] = []

    def extend(begin: int, chosen: Mask) -> None:
        for index in range(begin, len(sets)):
            if not sets[index] & chosen:
                found.append(chosen | sets[index])
                extend(index + 1, chosen | sets[index])

    extend(0, 0)
    return found


def count(readers: Sequence[Mask]) -> tuple[int, int]:
    """Count the transitions and the schedules of a graph without pruning (IOS Table 1).

    A transition removes a rooted ending (``rooted_endings``) from a set of operators. Transitions
    are counted for all sets that remain after other transitions, beginning with the set of all
    operators. A schedule is a path of transitions from that set to the empty set. ``readers`` has
    the mask of the readers of each operator.
    """
    transitions = 0
    schedules: dict[Mask, int] = {0: 1}

    def visit(rest: Mask) -> int:
        nonlocal transitions
        if rest not in schedules:
            found = rooted_endings(readers, rest)
            transitions += len(found)
            schedules[rest] = sum(visit(rest & ~ending) for ending in found)
        return schedules[rest]

    everything = visit((1 << len(readers)) - 1)
    return transitions, everything
