"""Heads and tails: the least time before each rTask's work, and after it, barriers counted.

The terms are those of one-machine scheduling (Carlier, 1982). An rTask runs on one vEU, so what it
reads was made there, one after the other, or elsewhere, and then a barrier lies in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import inf

from rammer_mlir.scheduling.policies.packing_bounds import cuts, packing_bound

_MOST_PACKED = 128
"""rTasks of a graph up to which all that is before or after each one is packed onto vEUs: the work
grows with the third power."""

_Part = tuple[float, float]
"""An rTask next to another one: its own head (or tail), and its time."""


def heads(
    seconds: Sequence[float], sources: Sequence[Sequence[int]], num_veus: int, barrier: float
) -> list[float]:
    """Return for each rTask a time before which its work begins in no schedule.

    Args:
        seconds: time of each rTask.
        sources: what each reads from, rTasks of smaller numbers.
        num_veus: how many vEUs there are.
        barrier: time of a barrier, in the same unit.
    """

    def pack(inside: Sequence[float]) -> float:
        # The vEU of the rTask has a barrier among them, the others are done a barrier earlier.
        return min(sum(inside), packing_bound(inside, num_veus) + barrier)

    def join(near: Sequence[_Part], far: float) -> float:
        return _one_machine([*near, (far, barrier)])

    return _distances(range(len(seconds)), seconds, sources, join, pack)


def tails(
    seconds: Sequence[float], readers: Sequence[Sequence[int]], num_veus: int, barrier: float
) -> list[float]:
    """Return for each rTask a time that the rest takes at least when its work has ended.

    Args:
        seconds: time of each rTask.
        readers: what reads from each, rTasks of larger numbers.
        num_veus: how many vEUs there are.
        barrier: time of a barrier, in the same unit.
    """

    def pack(inside: Sequence[float]) -> float:
        # The vEU of the rTask goes on at once, the others a barrier later.
        total = sum(inside)
        work = (total + (num_veus - 1) * barrier) / num_veus
        return min(total, max(packing_bound(inside, num_veus), work))

    def join(near: Sequence[_Part], far: float) -> float:
        return max(_one_machine(near), far + barrier)

    return _distances(reversed(range(len(seconds))), seconds, readers, join, pack)


def _distances(
    tasks: Iterable[int],
    seconds: Sequence[float],
    neighbours: Sequence[Sequence[int]],
    join: Callable[[Sequence[_Part], float], float],
    pack: Callable[[Sequence[float]], float],
) -> list[float]:
    """Return heads, or with readers for sources tails: the larger of two bounds for each."""
    found = [0.0] * len(seconds)
    beyond = [0] * len(seconds)
    by_length = sorted(range(len(seconds)), key=lambda task: -seconds[task])
    small = len(seconds) <= _MOST_PACKED
    for task in tasks:
        if not neighbours[task]:
            continue
        found[task] = _joined([(found[n], seconds[n]) for n in neighbours[task]], join)
        if small:
            for neighbour in neighbours[task]:
                beyond[task] |= beyond[neighbour] | 1 << neighbour
            all_beyond = [other for other in by_length if beyond[task] >> other & 1]
            for cut in cuts([found[other] for other in all_beyond]):
                inside = [seconds[other] for other in all_beyond if found[other] >= cut]
                found[task] = max(found[task], cut + pack(inside))
    return found


def _joined(parts: list[_Part], join: Callable[[Sequence[_Part], float], float]) -> float:
    """Return the least time for all parts, those of them on the rTask's own vEU that suit best.

    If one of some end is elsewhere, having those that end earlier on the own vEU gains nothing.
    """
    parts.sort(key=lambda part: -(part[0] + part[1]))
    best = inf
    for count, (start, time) in enumerate(parts):
        near = parts[:count]
        if _one_machine(near) >= best:
            return best
        best = min(best, join(near, start + time))
    return min(best, _one_machine(parts))


def _one_machine(parts: Sequence[_Part]) -> float:
    """Return when one vEU has run all parts, each not before its start."""
    now = 0.0
    for start, time in sorted(parts):
        now = max(now, start) + time
    return now
