"""IOS's dynamic programming over endings (IOS section 4), on any graph of up to some tens of nodes.

Sets of operators are bit masks. An ending of a set is a part of it that no edge leaves: what a
schedule of the set can run as its last stage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import inf

Mask = int
Stages = tuple[Mask, ...]


class SearchLimitError(Exception):
    """The search would look at more transitions than it may; never leaves the scheduler."""


@dataclass(frozen=True)
class Pruning:
    """IOS section 4.3: most operators of a group (r) and most groups of a stage (s)."""

    group_size: int = 3
    num_groups: int = 8


@dataclass
class EndingSearch:
    """Best stages of an operator graph whose nodes are numbered in a valid sequential order.

    Attributes:
        readers: for each operator, the mask of those that read its result.
        stage_seconds: time of one stage.
        pruning: what is left out; ``None`` searches everything.
        max_transitions: most pairs of a set and an ending of it.
    """

    readers: Sequence[Mask]
    stage_seconds: Callable[[Mask], float]
    pruning: Pruning | None = None
    max_transitions: float = inf
    transitions: int = 0
    _best: dict[Mask, tuple[float, Mask]] = field(default_factory=dict[Mask, tuple[float, Mask]])

    def solve(self) -> tuple[float, Stages]:
        """Return the time of the best schedule and its stages in the order of execution.

        Raises:
            SearchLimitError: if more transitions are needed than allowed.
        """
        rest = (1 << len(self.readers)) - 1
        seconds = self._cost(rest)
        stages: list[Mask] = []
        while rest:
            ending = self._best[rest][1]
            stages.append(ending)
            rest &= ~ending
        return seconds, tuple(reversed(stages))

    def _cost(self, rest: Mask) -> float:
        if not rest:
            return 0.0
        if rest not in self._best:
            best = inf, 0
            for ending in endings(self.readers, rest):
                if self.pruning and not allowed(self.readers, ending, self.pruning):
                    continue
                self.transitions += 1
                if self.transitions > self.max_transitions:
                    raise SearchLimitError
                seconds = self._cost(rest & ~ending) + self.stage_seconds(ending)
                best = min(best, (seconds, ending))
            self._best[rest] = best
        return self._best[rest][0]


def endings(readers: Sequence[Mask], rest: Mask) -> Iterator[Mask]:
    """Yield every ending of a set but the empty one."""

    def extend(chosen: Mask, candidates: Mask) -> Iterator[Mask]:
        # Readers have larger numbers: taken or refused before whoever they read from.
        if not candidates:
            if chosen:
                yield chosen
            return
        number = candidates.bit_length() - 1
        others = candidates & ~(1 << number)
        if not readers[number] & rest & ~chosen:
            yield from extend(chosen | 1 << number, others)
        yield from extend(chosen, others)

    yield from extend(0, rest)


def groups(readers: Sequence[Mask], stage: Mask) -> list[Mask]:
    """Return the connected parts of a stage; each runs one operator after the other."""
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
    """Return the operators of a set in ascending order."""
    return [number for number in range(mask.bit_length()) if mask >> number & 1]


def allowed(readers: Sequence[Mask], stage: Mask, pruning: Pruning) -> bool:
    """Return whether a stage has few enough groups, all of them small enough."""
    parts = groups(readers, stage)
    return len(parts) <= pruning.num_groups and all(
        part.bit_count() <= pruning.group_size for part in parts
    )


def rooted_endings(readers: Sequence[Mask], rest: Mask) -> list[Mask]:
    """Return the endings of which every group has one first operator, which leads to all others.

    These are the stages that IOS's authors search: disjoint sets of an operator and all behind it.
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
    """Return the numbers of transitions and of schedules without pruning (IOS Table 1).

    A transition is a pair of a set that can remain and a rooted ending of it; a schedule is a path
    of transitions from all operators to none.
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
