"""Cuts a sequence of operations into intervals that fit a code generator's limits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.errors import OptionError


@dataclass(frozen=True)
class Limits:
    """A code generator's limits on the size of a region; 0 is no limit.

    Attributes:
        operations: number of operations; a composite counts as one.
        bytes: bytes of all tensors that it reads, writes and computes, each counted once.
        values: number of tensors that it reads from and writes to the outside.
    """

    operations: int = 0
    bytes: int = 0
    values: int = 0

    def __post_init__(self) -> None:
        """Raise an OptionError if a limit is not an integer of at least 0."""
        for name, limit in vars(self).items():
            if type(limit) is not int or limit < 0:
                raise OptionError(
                    f"Limits: {name}: expected an integer of at least 0, found {limit!r}"
                )

    def hold(self, operations: int, num_bytes: int, values: int) -> bool:
        """Whether a region of this size is within the limits; a limit of 0 allows any size."""
        pairs = ((operations, self.operations), (num_bytes, self.bytes), (values, self.values))
        return all(not limit or found <= limit for found, limit in pairs)


@dataclass(frozen=True)
class Interval:
    """The operations ``begin`` to ``end - 1`` of a sequence.

    ``fits`` tells whether the operations are within the limits of a region.
    """

    begin: int
    end: int
    fits: bool


_NEVER = np.iinfo(np.int64).max


def cut(count: int, costs: Iterable[NDArray[np.float64]]) -> Sequence[Interval]:
    """Cut ``count`` operations, given in a topological order, into intervals.

    An operation that no fitting interval contains becomes an interval by itself that does not fit.
    Of all cuts, the result is one with the fewest intervals that do not fit; of these, the one with
    the least sum of costs; of these, the one with the earliest cuts. The dynamic programming over
    the begin of the last interval is exact for the given order.

    Args:
        count: number of operations.
        costs: for each operation, an array (n,) of float64: the costs of the last ``n`` intervals
            that end with this operation, in ascending order of their begins, so that the last
            interval is the operation alone. The cost is infinite if the interval does not fit;
            longer intervals than these do not fit.
    """
    # Per prefix: number of operations that do not fit, cost, and the last interval.
    alone, total = np.zeros(count + 1, dtype=np.int64), np.zeros(count + 1)
    last: list[Interval | None] = [None]
    for end, found in enumerate(costs, 1):
        first, fits = end - len(found), np.isfinite(found)
        outside = np.where(fits, alone[first:end], _NEVER)
        seconds = total[first:end] + found
        if not fits[-1]:
            outside[-1], seconds[-1] = alone[end - 1] + 1, total[end - 1]
        best = int(np.where(outside == outside.min(), seconds, np.inf).argmin())
        alone[end], total[end] = outside[best], seconds[best]
        last.append(Interval(first + best, end, fits=bool(fits[best])))
    return _intervals(last)


def _intervals(last: Sequence[Interval | None]) -> list[Interval]:
    """Return the intervals of the best cut of all operations, in order.

    ``last`` lists the last interval of the best cut of each prefix of the operations.
    """
    intervals: list[Interval] = []
    end = len(last) - 1
    while (interval := last[end]) is not None:
        intervals.append(interval)
        end = interval.begin
    return intervals[::-1]
