"""What one vEU can run in a given time: how many rTasks of each rOperator, as a list of all cases.

The rTasks of an rOperator take equal times, so which of them a vEU runs matters less than how many.
A solver that knows the possible numbers need not find out, for one choice of rTasks after the
other, that five of them are too many.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Group:
    """The rTasks of an rOperator: the time of one, and all heads and tails, in ascending order."""

    duration: int
    heads: Sequence[int]
    tails: Sequence[int]


def possible_loads(groups: Sequence[Group], limit: int, most: int) -> list[tuple[int, ...]] | None:
    """Return all numbers of rTasks that a vEU may run, for each group one.

    Args:
        groups: all rTasks.
        limit: when everything has to be complete.
        most: how many cases are too many to list.

    Returns:
        The cases, or None where there are more than ``most``.
    """
    found: list[tuple[int, ...]] = [()]
    for number, group in enumerate(groups):
        longer: list[tuple[int, ...]] = []
        for load in found:
            for count in range(len(group.heads) + 1):
                if not _fits((*load, count), groups[: number + 1], limit):
                    break
                longer.append((*load, count))
        if len(longer) > most:
            return None
        found = longer
    return found


def _fits(load: Sequence[int], groups: Sequence[Group], limit: int) -> bool:
    """Return whether a vEU can run so many in time, as far as heads and tails tell."""
    used = [(count, group) for count, group in zip(load, groups, strict=True) if count]
    return all(least <= limit for least in _least_times(used))


def _least_times(used: Sequence[tuple[int, Group]]) -> Iterator[int]:
    """Yield times that one vEU needs at least: by heads, by tails, and by windows of both."""
    yield _one_after_the_other((h, g.duration) for n, g in used for h in g.heads[:n])
    yield _one_after_the_other((t, g.duration) for n, g in used for t in g.tails[:n])
    for _, first in used:
        for _, last in used:
            inside = [
                (count, group)
                for count, group in used
                if group.heads[0] >= first.heads[0] and group.tails[0] >= last.tails[0]
            ]
            if inside:
                load = sum(count * group.duration for count, group in inside)
                yield first.heads[0] + load + last.tails[0]


def _one_after_the_other(parts: Iterator[tuple[int, int]]) -> int:
    now = 0
    for start, duration in sorted(parts):
        now = max(now, start) + duration
    return now
