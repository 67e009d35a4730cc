"""Choose the vEU of each rTask of an operator: ``SelectvEU`` of RAMMER's Algorithm 1, line 16."""

from __future__ import annotations

import heapq

import numpy as np

from rammer_mlir.scheduling.builder import FloatArray, Needs
from rammer_mlir.scheduling.graph import Int64Array


def spread_evenly(num_rtasks: int, num_veus: int) -> Int64Array:
    """Return the vEU of each rTask: each vEU gets rTasks with consecutive ids, equally many.

    The numbers of rTasks of two vEUs differ by at most one.
    """
    return np.arange(num_rtasks, dtype=np.int64) * num_veus // max(num_rtasks, num_veus)


def earliest(
    needs: Needs, available: FloatArray, seconds: float, barrier_seconds: float
) -> Int64Array:
    """Return the vEU of each rTask of an operator: the vEU that can execute it earliest.

    The next rTask always goes to the vEU that is free first. Within an operator each vEU gets
    rTasks with consecutive ids, so that readers of neighbouring rTasks in the next operator tend to
    stay on the same vEU and need no barrier.

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


def _ready(latest: FloatArray, barrier_seconds: float) -> FloatArray:
    """Return the time in seconds at which each vEU may start rTasks that read some results.

    The results are of rTasks that are already placed, the producers. A vEU that reads results of
    other vEUs waits for a barrier in addition. ``latest`` has for each vEU the end of the last
    producer that it runs, in seconds; 0 if it runs none.
    """
    owner = int(latest.argmax())
    others = latest.copy()
    others[owner] = 0.0
    elsewhere = np.full(len(latest), latest[owner])
    elsewhere[owner] = others.max()
    return np.maximum(latest, np.where(elsewhere > 0, elsewhere + barrier_seconds, 0.0))
