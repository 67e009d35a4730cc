"""Chooses the vEU of each rTask of an operator: ``SelectvEU`` (RAMMER's Algorithm 1, line 16)."""

from __future__ import annotations

import heapq
from itertools import pairwise

import numpy as np

from rammer_mlir.scheduling.builder import FloatArray, Needs
from rammer_mlir.scheduling.graph import Int64Array


def spread_evenly(num_rtasks: int, num_veus: int) -> Int64Array:
    """Return the vEU of each rTask, distributed evenly: each vEU gets rTasks with consecutive ids.

    The rTask counts of two vEUs differ by at most one.
    """
    return np.arange(num_rtasks, dtype=np.int64) * num_veus // max(num_rtasks, num_veus)


def earliest(
    needs: Needs, available: FloatArray, seconds: float, barrier_seconds: float
) -> Int64Array:
    """Return the vEU of each rTask of an operator, so that the last of these rTasks ends early.

    The number of rTasks of each vEU is found by list scheduling: one rTask after another is counted
    for the vEU that is free first. Each vEU then gets this number of rTasks, with consecutive ids.
    An rTask of the next operator often reads several rTasks with neighboring ids, which are then on
    the same vEU. So fewer barriers are needed.

    Args:
        needs: the rTasks that each rTask waits for.
        available: the time at which each vEU is free, in seconds from the launch.
        seconds: the seconds of one rTask of the operator; all its rTasks take the same time.
        barrier_seconds: the seconds of a barrier.
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
    """Return the vEU of each rTask of an operator, so that each rTask starts as early as possible.

    The rTasks are assigned in ascending order of ids. If several vEUs allow the same start of an
    rTask, the vEU with the least idle time before this start is chosen. A barrier delays the start
    if an rTask of another vEU is needed that the vEU does not know to be complete.
    Neighboring rTasks may be placed on different vEUs, so this function suits devices whose vEUs
    keep no data in caches between rTasks; ``earliest`` suits devices whose vEUs do.

    Args:
        needs: the rTasks that each rTask waits for.
        available: the time at which each vEU is free, in seconds from the launch.
        known: [num_veus, num_veus]: ``known[v, w]`` is the number of rTasks of vEU w that vEU v
            knows to be complete.
        seconds: the seconds of one rTask of the operator; all its rTasks take the same time.
        barrier_seconds: the seconds of a barrier.
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
    """Return the start index of each sequence of equal consecutive rows, then ``len(rows)``."""
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
    """Return the time at which each vEU can start an rTask, and the vEUs that the rTask depends on.

    Args:
        steps: [num_veus]: ``steps[w]`` is the number of rTasks of vEU w that must be complete
            before the rTask starts.
        ready: [num_veus]: ``ready[w]`` is the time at which these rTasks of vEU w are complete, in
            seconds.
        free: [num_veus]: the time at which each vEU is free, in seconds.
        known: [num_veus, num_veus]: ``known[v, w]`` is the number of rTasks of vEU w that vEU v
            knows to be complete.
        barrier_seconds: the seconds of a barrier.
    """
    sources = steps.nonzero()[0]
    if not len(sources):
        return free, sources
    missing = known[:, sources] < steps[sources]
    missing[sources, np.arange(len(sources))] = False
    awaited = np.where(missing, ready[sources], -1.0).max(axis=1)
    return np.where(awaited < 0, free, np.maximum(free, awaited) + barrier_seconds), sources


def _by_start(starts: FloatArray, free: FloatArray, num_rtasks: int, seconds: float) -> list[int]:
    """Return the vEU of each of ``num_rtasks`` rTasks that depend on the same rTasks.

    One after another, each rTask is assigned to the vEU on which it can start first.

    Args:
        starts: the time at which each vEU can start its first of these rTasks, in seconds.
        free: the time at which each vEU is free, in seconds; updated.
        num_rtasks: the number of rTasks to assign.
        seconds: the seconds of one of these rTasks.
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
    """Return the earliest time in seconds at which each vEU can start rTasks of an operator.

    Producers are the rTasks, placed already, that the operator's rTasks read from. A vEU can start
    after its own last producer has ended. If other vEUs run producers, the vEU also has to wait
    until the last of these producers has ended, plus the time of a barrier. ``latest`` has the end
    of each vEU's last producer in seconds; 0 for a vEU without producers.
    """
    owner = int(latest.argmax())
    others = latest.copy()
    others[owner] = 0.0
    elsewhere = np.full(len(latest), latest[owner])
    elsewhere[owner] = others.max()
    return np.maximum(latest, np.where(elsewhere > 0, elsewhere + barrier_seconds, 0.0))
