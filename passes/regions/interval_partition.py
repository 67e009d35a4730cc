"""Cuts a sequence of operations into intervals of consecutive operations.

An interval that fits a code generator's limits can become a region, which the code generator
compiles as a whole.
"""

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
        operations: largest count of operations; a composite counts as one operation.
        bytes: largest total size of the tensors that the region reads, writes or computes, in
            bytes; each tensor is counted once.
        values: largest count of tensors that are inputs or outputs of the region.
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
        """Whether a region of the given size is within all limits.

        Args:
            operations: count of the region's operations.
            num_bytes: bytes of the tensors that the region reads, writes or computes.
            values: count of the region's inputs and outputs.
        """
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
    """Cut a sequence of ``count`` operations into intervals of minimal total cost.

    The operations are in a topological order. An interval fits if its cost is finite. An operation
    that is in no fitting interval of the cut forms a separate interval: ``fits`` is False, and the
    interval has no cost. The cut has as few such operations as possible. Among these cuts, the
    returned cut has the least sum of costs; on a tie, the last interval begins as early as
    possible. Dynamic programming over the start of the last interval finds the optimum for the
    given order of operations.

    Args:
        count: count of the operations.
        costs: for each operation, an array (n,) of float64 with the costs of the ``n`` shortest
            intervals that end with this operation, the longest first. The last element is the
            cost of the operation alone. The cost is infinite if the interval does not fit;
            intervals of more than ``n`` operations do not fit.
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

    ``last[n]`` is the last interval of the best cut of the first ``n`` operations; ``last[0]`` is
    None. The best cut has the fewest operations outside of fitting intervals, then the least cost.
    """
    intervals: list[Interval] = []
    end = len(last) - 1
    while (interval := last[end]) is not None:
        intervals.append(interval)
        end = interval.begin
    return intervals[::-1]
