"""When buffers are in use, in the happens-before order of a plan."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rammer_mlir.scheduling.graph import Int64Array, TaskGraph
from rammer_mlir.scheduling.happens_before import History


@dataclass(frozen=True)
class Lifetimes:
    """For each buffer, the step of every vEU at which it is first known to be needed and last used.

    Attributes:
        start: [num_buffers, num_veus]: rTasks of each vEU that are complete, in any execution, when
            the first rTask that touches the buffer starts.
        end: [num_buffers, num_veus]: rTasks of each vEU that must be complete when the buffer is no
            longer needed; 0 where the vEU does not touch it.
    """

    start: Int64Array
    end: Int64Array

    def disjoint(self, a: int) -> np.ndarray:
        """For each buffer b, whether every use of ``a`` ends before any use of b, or after all."""
        before = (self.end[a][None, :] <= self.start).all(axis=1)
        after = (self.end <= self.start[a][None, :]).all(axis=1)
        return before | after


def lifetimes(graph: TaskGraph, history: History) -> Lifetimes:
    """Return the lifetimes of all buffers of a graph."""
    num_veus = history.clocks.shape[1]
    shape = (len(graph.buffers), num_veus)
    start = np.full(shape, np.iinfo(np.int64).max, dtype=np.int64)
    end = np.zeros(shape, dtype=np.int64)
    for number, operator in enumerate(graph.operators):
        times = history.tasks[number]
        if not len(times.veu):
            continue
        last = np.zeros(num_veus, dtype=np.int64)
        np.maximum.at(last, times.veu, times.order + 1)
        known = history.clocks[np.unique(times.clock)].min(axis=0)
        first = np.full(num_veus, np.iinfo(np.int64).max, dtype=np.int64)
        np.minimum.at(first, times.veu, times.order)
        earliest = _start(times.veu, times.order, history.clocks[times.clock], known, first)
        for buffer in {view.buffer for view in operator.operands}:
            np.minimum(start[buffer], earliest, out=start[buffer])
            np.maximum(end[buffer], last, out=end[buffer])
    return Lifetimes(start, end)


def _start(
    veus: Int64Array,
    orders: Int64Array,
    clocks: Int64Array,
    known: Int64Array,
    first: Int64Array,
) -> Int64Array:
    """What is complete before every one of some rTasks: others' steps known, own steps passed."""
    result = known.copy()
    for veu in np.unique(veus):
        others = veus != veu
        foreign = clocks[others, veu].min(initial=np.iinfo(np.int64).max)
        result[veu] = min(int(first[veu]), int(foreign))
    return result
