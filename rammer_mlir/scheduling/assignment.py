"""Chooses the vEU of each rTask of an operator: ``SelectvEU`` (RAMMER's Algorithm 1, line 16)."""

from __future__ import annotations

import heapq
from itertools import pairwise

import numpy as np

from rammer_mlir.scheduling.builder import FloatArray, Needs
from rammer_mlir.scheduling.graph import Int64Array


def spread_evenly(num_rtasks: int, num_veus: int) -> Int64Array:
    """Return the vEU of each rTask, distributed evenly: each vEU gets rTasks with consecutive ids.

    The numbers of rTasks of two vEUs differ by at most one.
    """
    return np.arange(num_rtasks, dtype=np.int64) * num_veus // max(num_rtasks, num_veus)


def earliest(
    needs: Needs, available: FloatArray, seconds: float, barrier_seconds: float
) -> Int64Array:
    """Return the vEU of each rTask of an operator, chosen for the earliest execution of all rTasks.

    The next rTask always goes to the vEU that is free first. Then each vEU gets rTasks with
    consecutive ids, so that readers of neighbouring rTasks in the next operator tend to run on the
    same vEU and need no barrier.

    Args:
        needs: the rTasks that each rTask waits for.
        available: the time at which each vEU is free, in seconds from the launch.
        seconds: the time of a single rTask of the operator; all take the same time.
        barrier_seconds: the time of a barrier.
    """
    num_rtasks, num_veus = needs.steps.shape
    if num_rtasks == 0:
        return np.zeros(0, dtype=np.int64)
    starts = np.maximum(available, _ready(needs.ready.max(axis=0), barrier_seconds))
    heap = list(zip(starts.tolist(), range(num_veus), strict=True))
    heapq.heapify(heap)
    counts = [0] * num_veus
    for _ in range(num_rtasks):
        start, veu = heap[0]
        counts[veu] += 1
        heapq.heapreplace(heap, (start + seconds, veu))
    return np.repeat(np.arange(num_veus, dtype=np.int64), counts)


def earliest_by_rtask(
    needs: Needs,
    available: FloatArray,
    known: Int64Array,
    seconds: float,
    barrier_seconds: float,
) -> Int64Array:
    """Return the vEU of each rTask of an operator, chosen for the earliest start of each rTask.

    In ascending order of ids, an rTask goes to the vEU where it starts first; of equally good vEUs,
    to the one that was free last. A vEU waits for a barrier if the rTask needs an rTask of another
    vEU that it does not know to be complete. Neighbouring rTasks may be placed on different vEUs,
    so this suits devices whose vEUs have no caches between rTasks; ``earliest`` is for the others.

    Args:
        needs: the rTasks that each rTask waits for.
        available: the time at which each vEU is free, in seconds from the launch.
        known: [num_veus, num_veus]: for each vEU, the number of rTasks of every vEU that it knows
            to be complete.
        seconds: the time of a single rTask of the operator; all take the same time.
        barrier_seconds: the time of a barrier.
    """
    free, known = available.copy(), known.copy()
    veus = np.zeros(len(needs.steps), dtype=np.int64)
    for begin, end in pairwise(_cuts(needs.steps)):
        steps, ready = needs.steps[begin], needs.ready[begin]
        starts, sources = _starts(steps, ready, free, known, barrier_seconds)
        chosen = _by_start(starts, free, end - begin, seconds)
        for veu in set(chosen):
            known[veu, sources] = np.maximum(known[veu, sources], steps[sources])
        veus[begin:end] = chosen
    return veus


def _cuts(rows: Int64Array) -> list[int]:
    """Return the start of each run of equal consecutive rows, and the number of rows."""
    if not len(rows):
        return [0]
    changes = np.flatnonzero((rows[1:] != rows[:-1]).any(axis=1)) + 1
    return [0, *changes.tolist(), len(rows)]


def _starts(
    steps: Int64Array,
    ready: FloatArray,
    free: FloatArray,
    known: Int64Array,
    barrier_seconds: float,
) -> tuple[FloatArray, Int64Array]:
    """Return the time at which each vEU can start an rTask, and the vEUs whose rTasks it requires.

    Args:
        steps: [num_veus]: number of rTasks of each vEU that the rTask requires to be complete.
        ready: [num_veus]: the time at which these are complete, in seconds.
        free: [num_veus]: the time at which each vEU is free, in seconds.
        known: [num_veus, num_veus]: for each vEU, the number of rTasks of every vEU that it knows
            to be complete.
        barrier_seconds: the time of a barrier.
    """
    sources = steps.nonzero()[0]
    if not len(sources):
        return free, sources
    missing = known[:, sources] < steps[sources]
    missing[sources, np.arange(len(sources))] = False
    awaited = np.where(missing, ready[sources], -1.0).max(axis=1)
    return np.where(awaited < 0, free, np.maximum(free, awaited) + barrier_seconds), sources


def _by_start(starts: FloatArray, free: FloatArray, num_rtasks: int, seconds: float) -> list[int]:
    """Return the vEU of each of ``num_rtasks`` rTasks with equal requirements; update ``free``.

    ``starts`` has the time at which each vEU can start its first of these rTasks, ``free`` the time
    at which it is free; ``seconds`` is the time of an rTask.
    """
    if num_rtasks == 1:
        first = np.flatnonzero(starts == starts.min())
        veu = int(first[free[first].argmax()])
        free[veu] = starts[veu] + seconds
        return [veu]
    heap = list(zip(starts.tolist(), (-free).tolist(), range(len(starts)), strict=True))
    heapq.heapify(heap)
    veus: list[int] = []
    for _ in range(num_rtasks):
        start, _, veu = heap[0]
        veus.append(veu)
        free[veu] = start + seconds
        heapq.heapreplace(heap, (start + seconds, -(start + seconds), veu))
    return veus


def _ready(latest: FloatArray, barrier_seconds: float) -> FloatArray:
    """Return the time in seconds at which each vEU may start rTasks that read some results.

    The rTasks that write the results, the producers, are already placed. A vEU that reads results
    of other vEUs also waits for a barrier. ``latest`` has for each vEU the end in seconds of its
    last producer; 0 if it runs none.
    """
    owner = int(latest.argmax())
    others = latest.copy()
    others[owner] = 0.0
    elsewhere = np.full(len(latest), latest[owner])
    elsewhere[owner] = others.max()
    return np.maximum(latest, np.where(elsewhere > 0, elsewhere + barrier_seconds, 0.0))
