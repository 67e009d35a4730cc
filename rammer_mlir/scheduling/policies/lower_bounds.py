"""Times that no schedule of some rTasks can go below, whatever vEUs it uses."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from rammer_mlir.scheduling.tasks import TaskTable

_MOST_CUTS = 32
"""Heads, and tails, that windows are made of: enough for all of a small graph."""


def makespan_bound(table: TaskTable, num_veus: int) -> float:
    """Return a lower bound on the seconds that all rTasks take, barriers not counted.

    A window is a head and a tail: the rTasks that cannot start before the one and have at least the
    other behind them have to be packed in between. Critical path and total work are special cases.
    """
    heads = [0.0] * len(table.seconds)
    for task, sources in enumerate(table.sources):
        heads[task] = max((heads[s] + table.seconds[s] for s in sources), default=0.0)
    levels = table.bottom_levels()
    tails = [level - own for level, own in zip(levels, table.seconds, strict=True)]
    tasks = sorted(range(len(heads)), key=lambda task: -table.seconds[task])
    best = max(levels, default=0.0)
    for tail in _cuts(tails):
        behind = [task for task in tasks if tails[task] >= tail]
        for head in _cuts(heads):
            inside = [table.seconds[task] for task in behind if heads[task] >= head]
            best = max(best, head + packing_bound(inside, num_veus) + tail if inside else 0.0)
    return best


def packing_bound(seconds: Sequence[float], num_veus: int) -> float:
    """Return a lower bound for independent rTasks, given from the longest to the shortest.

    Of the first ``k * num_veus + 1``, one vEU runs at least ``k + 1``: no less than the shortest
    ``k + 1`` of these take (Dell'Amico and Martello, 1995).
    """
    sums = [0.0, *accumulate(seconds)]
    packed = (
        sums[last + 1] - sums[last - last // num_veus] for last in range(0, len(seconds), num_veus)
    )
    return max(sums[-1] / num_veus, *packed, 0.0)


def _cuts(values: Sequence[float]) -> list[float]:
    """Return the distinct values, or some of them with the smallest one."""
    distinct = sorted(set(values))
    return distinct[:: -(-len(distinct) // _MOST_CUTS)] if distinct else []
