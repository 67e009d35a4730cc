"""SelectvEU: which vEU each rTask of an operator goes to (RAMMER Algorithm 1, line 16)."""

from __future__ import annotations

import heapq

import numpy as np

from rammer_mlir.scheduling.builder import FloatArray, Needs
from rammer_mlir.scheduling.graph import Int64Array


def spread_evenly(num_rtasks: int, num_veus: int) -> Int64Array:
    """Cut the rTasks into one block of consecutive ids per vEU, sizes differing by at most one."""
    return np.arange(num_rtasks, dtype=np.int64) * num_veus // max(num_rtasks, num_veus)


def earliest(
    needs: Needs, available: FloatArray, seconds: float, barrier_seconds: float
) -> Int64Array:
    """Give each rTask the vEU that can execute it at the earliest.

    Every vEU gets as many rTasks as it can start before the others; within an operator they go to
    the vEUs in blocks of consecutive ids, so that rTasks which read each other's neighbours in the
    next operator tend to stay on one vEU and need no barrier.
    """
    num_rtasks, num_veus = needs.steps.shape
    if num_rtasks == 0:
        return np.zeros(0, dtype=np.int64)
    heap = [
        (float(max(available[veu], _ready(needs, veu, barrier_seconds))), veu)
        for veu in range(num_veus)
    ]
    heapq.heapify(heap)
    counts = [0] * num_veus
    for _ in range(num_rtasks):
        start, veu = heap[0]
        counts[veu] += 1
        heapq.heapreplace(heap, (start + seconds, veu))
    return np.repeat(np.arange(num_veus, dtype=np.int64), counts)


def _ready(needs: Needs, veu: int, barrier_seconds: float) -> float:
    """When the inputs are complete, as one vEU sees it: what others computed costs a barrier."""
    latest = needs.ready.max(axis=0)
    own = float(latest[veu])
    elsewhere = float(np.delete(latest, veu).max(initial=0.0))
    return max(own, elsewhere + barrier_seconds if elsewhere > 0 else 0.0)
