"""Lists the loads that a vEU can complete within a time limit, for a solver.

A load is a tuple of rTask counts, one for each rOperator. All rTasks of an rOperator take the same
time, so whether a vEU can complete a set of rTasks in time depends only on their counts. With the
list of possible loads, the solver does not have to refute each infeasible subset of rTasks
separately.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Group:
    """The rTasks of an rOperator, with times in the integer time units of the solver.

    Attributes:
        duration: the time of each rTask.
        heads: the heads of all rTasks (lower bounds on their starts) in ascending order.
        tails: the tails of all rTasks (lower bounds on the times from their ends to the program's
            end) in ascending order.
    """

    duration: int
    heads: Sequence[int]
    tails: Sequence[int]


def possible_loads(groups: Sequence[Group], limit: int, most: int) -> list[tuple[int, ...]] | None:
    """Return all loads that a vEU may be able to complete by the time ``limit``.

    A load is a tuple with a count of rTasks for each group. A load is left out if a lower bound on
    its time exceeds ``limit``.

    Args:
        groups: the rTasks of each rOperator.
        limit: time by which all rTasks have to be complete, in the unit of the groups' times.
        most: maximum number of loads to list.

    Returns:
        The loads, or None if there are more than ``most``.
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
    """Whether a vEU may be able to complete a load within the time limit.

    ``load`` has the number of rTasks of each group. The result is False if a lower bound on the
    vEU's time exceeds ``limit``.
    """
    used = [(count, group) for count, group in zip(load, groups, strict=True) if count]
    return all(least <= limit for least in _least_times(used))


def _least_times(used: Sequence[tuple[int, Group]]) -> Iterator[int]:
    """Yield several lower bounds on the time that a vEU needs for some rTasks.

    A head is a lower bound on an rTask's start, a tail on the time from its end to the program's
    end. The first bound is the time at which the vEU has run the rTasks one after the other, none
    before its head. The second bound is the same backwards from the program's end, with tails. Each
    other bound is h + p + t for a limit h on heads and a limit t on tails, where p is the time of
    the rTasks of all groups whose least head is at least h and whose least tail is at least t.

    ``used`` has a pair for each rOperator with rTasks on the vEU: the number of these rTasks, and
    the ``Group`` of the rOperator.
    """
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
