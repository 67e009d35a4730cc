"""Cutting a sequence of operations into intervals that a code generator can take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Limits of one region of a code generator; 0 is no limit.

    Attributes:
        operations: operations; a composite counts as one.
        bytes: of all tensors that it reads, writes and holds in between, each counted once.
        values: tensors that it reads from and writes to the outside.
    """

    operations: int = 0
    bytes: int = 0
    values: int = 0

    def hold(self, operations: int, num_bytes: int, values: int) -> bool:
        """Whether a region with these figures is within the limits."""
        pairs = ((operations, self.operations), (num_bytes, self.bytes), (values, self.values))
        return all(not limit or found <= limit for found, limit in pairs)


@dataclass(frozen=True)
class Interval:
    """Operations ``begin`` to ``end - 1`` of a sequence; they fit a region, or stay on the host."""

    begin: int
    end: int
    fits: bool


Cost = Callable[[int, int], float | None]
"""Cost of the interval from a begin to an end (excluded); None if it does not fit the limits."""


def cut(count: int, cost: Cost, longest: int = 0) -> Sequence[Interval]:
    """Cut ``count`` operations, given in a topological order, into intervals.

    Intervals of more than ``longest`` operations do not fit; 0 is no limit.

    An operation that no fitting interval contains is an interval of its own that does not fit.
    Of all cuts, the result has the fewest of these, then the least sum of costs, then the earliest
    cuts. Dynamic programming over the last interval's begin; exact for the order.
    """
    # For each prefix: operations that do not fit, cost, and the last interval.
    best: list[tuple[int, float, Interval | None]] = [(0, 0.0, None)]
    for end in range(1, count + 1):
        found: list[tuple[int, float, Interval | None]] = []
        for begin in range(max(0, end - longest) if longest else 0, end):
            alone, total, _ = best[begin]
            seconds = cost(begin, end)
            if seconds is not None:
                found.append((alone, total + seconds, Interval(begin, end, fits=True)))
            elif begin == end - 1:
                found.append((alone + 1, total, Interval(begin, end, fits=False)))
        best.append(min(found, key=lambda each: each[:2]))
    return _intervals([last for _, _, last in best])


def _intervals(last: Sequence[Interval | None]) -> list[Interval]:
    """Follow the last interval of each prefix back to the begin."""
    intervals: list[Interval] = []
    end = len(last) - 1
    while (interval := last[end]) is not None:
        intervals.append(interval)
        end = interval.begin
    return intervals[::-1]
