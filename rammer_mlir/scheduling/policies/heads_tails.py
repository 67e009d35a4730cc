"""Computes heads and tails: lower bounds on the time before and after each rTask, with barriers.

The terms are those of one-machine scheduling (Carlier, 1982). A source of an rTask R is an rTask
that R reads from. If the source runs on another vEU than R, a barrier comes between the two rTasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import inf

from rammer_mlir.scheduling.policies.packing_bounds import cuts, packing_bound

_MOST_PACKED = 128
"""Maximum number of rTasks of a graph for which heads and tails also use bounds by packing.

These bounds pack onto the vEUs all rTasks on which an rTask depends, or all that depend on it. This
tightens heads and tails, but the work grows with the third power of the number of rTasks.
"""

_Part = tuple[float, float]
"""A neighbor of an rTask: (head, time) of a source, or (tail, time) of a reader."""


def heads(
    seconds: Sequence[float], sources: Sequence[Sequence[int]], num_veus: int, barrier: float
) -> list[float]:
    """Return the head of each rTask: a lower bound on the start of its computation in any schedule.

    A barrier before the rTask is not part of its computation.

    Args:
        seconds: time of each rTask.
        sources: for each rTask the rTasks that it reads from, of smaller numbers.
        num_veus: number of vEUs.
        barrier: time of a barrier, in the same unit as ``seconds``.
    """

    def pack(inside: Sequence[float]) -> float:
        # The rTask's own vEU runs some of them and a barrier; the other vEUs end a barrier earlier.
        return min(sum(inside), packing_bound(inside, num_veus) + barrier)

    def join(near: Sequence[_Part], far: float) -> float:
        return _one_machine([*near, (far, barrier)])

    return _distances(range(len(seconds)), seconds, sources, join, pack)


def tails(
    seconds: Sequence[float], readers: Sequence[Sequence[int]], num_veus: int, barrier: float
) -> list[float]:
    """Return the tail of each rTask: a lower bound on the time from its end to the program's end.

    Args:
        seconds: time of each rTask.
        readers: for each rTask the rTasks that read from it, of larger numbers.
        num_veus: number of vEUs.
        barrier: time of a barrier, in the same unit as ``seconds``.
    """

    def pack(inside: Sequence[float]) -> float:
        # The rTask's own vEU continues at once, the others a barrier later.
        total = sum(inside)
        work = (total + (num_veus - 1) * barrier) / num_veus
        return min(total, max(packing_bound(inside, num_veus), work))

    def join(near: Sequence[_Part], far: float) -> float:
        return max(_one_machine(near), far + barrier)

    return _distances(reversed(range(len(seconds))), seconds, readers, join, pack)


def _distances(
    tasks: Iterable[int],
    seconds: Sequence[float],
    neighbors: Sequence[Sequence[int]],
    join: Callable[[Sequence[_Part], float], float],
    pack: Callable[[Sequence[float]], float],
) -> list[float]:
    """Return the head of each rTask if ``neighbors`` are sources, its tail if they are readers.

    A head is a lower bound on an rTask's start, a tail on the time from its end to the program's
    end.

    Args:
        tasks: all rTasks, each after its neighbors.
        seconds: time of each rTask.
        neighbors: sources or readers of each rTask.
        join: called with the neighbors of an rTask that run on the rTask's own vEU, and the latest
            end of the neighbors that run on other vEUs; returns a bound on the head or tail.
        pack: called with the times of several rTasks, the longest first; returns a lower bound on
            the time in which all vEUs together run these rTasks, including a barrier if it is
            needed. Called for direct and indirect neighbors of each rTask, but only if the graph
            has at most ``_MOST_PACKED`` rTasks.

    Returns:
        For each rTask the larger of its bounds by ``join`` and by ``pack``, in the unit of
        ``seconds``.
    """
    found = [0.0] * len(seconds)
    beyond = [0] * len(seconds)
    by_length = sorted(range(len(seconds)), key=lambda task: -seconds[task])
    small = len(seconds) <= _MOST_PACKED
    for task in tasks:
        if not neighbors[task]:
            continue
        found[task] = _joined([(found[n], seconds[n]) for n in neighbors[task]], join)
        if small:
            for neighbor in neighbors[task]:
                beyond[task] |= beyond[neighbor] | 1 << neighbor
            all_beyond = [other for other in by_length if beyond[task] >> other & 1]
            for cut in cuts([found[other] for other in all_beyond]):
                inside = [seconds[other] for other in all_beyond if found[other] >= cut]
                found[task] = max(found[task], cut + pack(inside))
    return found


def _joined(parts: list[_Part], join: Callable[[Sequence[_Part], float], float]) -> float:
    """Return the least head or tail of an rTask over all placements of its neighbors ``parts``.

    Each neighbor runs on the rTask's own vEU or on another vEU. The neighbors are sorted by their
    ends, the latest first. For each k, one placement is tried: the first k neighbors run on the
    rTask's own vEU and all others on other vEUs. Other placements are never better. ``join`` is the
    argument of ``_distances``.
    """
    parts.sort(key=lambda part: -(part[0] + part[1]))
    best = inf
    for count, (start, time) in enumerate(parts):
        near = parts[:count]
        # Longer prefixes take no less time on the own vEU, so none of them can be better.
        if _one_machine(near) >= best:
            return best
        best = min(best, join(near, start + time))
    return min(best, _one_machine(parts))


def _one_machine(parts: Sequence[_Part]) -> float:
    """Return the time at which a single vEU has run all ``parts``, one after the other.

    A part is an rTask as a pair: the earliest time at which it may start (its head), and its
    duration. To compute tails, time runs backwards from the end of the program, and a part has the
    tail in place of the head.
    """
    now = 0.0
    for start, time in sorted(parts):
        now = max(now, start) + time
    return now
