"""Lower bounds for independent rTasks on equal vEUs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

_MOST_CUTS = 32
"""Most distinct heads, and most distinct tails, that delimit windows; small graphs have fewer."""


def packing_bound(seconds: Sequence[float], num_veus: int) -> float:
    """Return a lower bound for independent rTasks, given from the longest to the shortest.

    Of the first ``k * num_veus + 1`` rTasks, some vEU runs at least ``k + 1``, which take at least
    as long as the shortest ``k + 1`` of them (Dell'Amico and Martello, 1995).
    """
    sums = [0.0, *accumulate(seconds)]
    packed = (
        sums[last + 1] - sums[last - last // num_veus] for last in range(0, len(seconds), num_veus)
    )
    return max(sums[-1] / num_veus, *packed, 0.0)


def cuts(values: Sequence[float]) -> list[float]:
    """Return the distinct values ascending, thinned out to ``_MOST_CUTS`` with the smallest."""
    distinct = sorted(set(values))
    return distinct[:: -(-len(distinct) // _MOST_CUTS)] if distinct else []
