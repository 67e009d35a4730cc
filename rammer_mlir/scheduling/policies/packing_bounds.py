"""Computes lower bounds on the time of independent rTasks on equal vEUs, by bin packing."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

_MOST_CUTS = 32
"""Maximum number of heads, and of tails, that callers try as limits of rTasks to pack."""


def packing_bound(seconds: Sequence[float], num_veus: int) -> float:
    """Return a lower bound on the time of independent rTasks on ``num_veus`` equal vEUs.

    ``seconds`` has the time of each rTask, the longest first. The first ``k * num_veus + 1`` rTasks
    cannot run with at most ``k`` on each vEU, so some vEU runs ``k + 1`` of them. The time of this
    vEU is at least the sum of the shortest ``k + 1`` of these rTasks (Dell'Amico and Martello,
    1995). The mean work of a vEU is another lower bound. The result is the largest of all bounds.
    """
    sums = [0.0, *accumulate(seconds)]
    packed = (
        sums[last + 1] - sums[last - last // num_veus] for last in range(0, len(seconds), num_veus)
    )
    return max(sums[-1] / num_veus, *packed, 0.0)


def cuts(values: Sequence[float]) -> list[float]:
    """Return the limits on heads, or on tails, for which to compute bounds by packing.

    A bound by packing counts only the rTasks whose head (or tail) is at least the limit. ``values``
    has the heads (or tails) of the rTasks. The result has at most ``_MOST_CUTS`` of the distinct
    values, in ascending order, and always the smallest value.
    """
    distinct = sorted(set(values))
    return distinct[:: -(-len(distinct) // _MOST_CUTS)] if distinct else []
