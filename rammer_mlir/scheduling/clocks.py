"""Tracks, by vector clocks, which rTasks each vEU knows to be complete on every other vEU.

The clock of vEU v has, for each vEU w, the number of rTasks of w that v knows to be complete. A
clock changes only at barriers. So a copy is stored for each barrier, and the clock at the start of
an rTask is found by the rTask's index on its vEU.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.scheduling.graph import Int64Array

Clock = NDArray[np.int32]
"""[num_veus]: the number of rTasks of each vEU that are known to be complete."""


@dataclass(frozen=True, eq=False)
class Goal:
    """A state to wait for, and the smallest set of waits that reaches it.

    Attributes:
        required: [num_veus]: ``required[w]`` is the number of rTasks of vEU w that must be
            complete.
        direct: [num_veus]: ``direct[w]`` is whether a wait for vEU w is needed, because the waits
            for the other vEUs do not imply it.
        clock: [num_veus]: ``clock[w]`` is the number of rTasks of vEU w that are known to be
            complete when all requirements are met.
    """

    required: Int64Array
    direct: NDArray[np.bool_]
    clock: Clock


class Clocks:
    """The clocks of all vEUs of an rProgram under construction."""

    def __init__(self, num_veus: int) -> None:
        """Start with empty vEUs: no rTask is complete on any vEU, and all clocks are zero."""
        zero = np.zeros(num_veus, dtype=np.int32)
        self.done = [0] * num_veus
        self._since = [[0] for _ in range(num_veus)]
        self._known = [[zero] for _ in range(num_veus)]

    def now(self, veu: int) -> Clock:
        """Return the clock of vEU ``veu``.

        The clock has, for each vEU w, the number of rTasks of w that ``veu`` knows to be complete.
        The entry for ``veu`` itself is not maintained.
        """
        return self._known[veu][-1]

    def all_now(self) -> Int64Array:
        """Return the clocks of all vEUs, [num_veus, num_veus]; a row is the clock of a vEU."""
        return np.array([known[-1] for known in self._known], dtype=np.int64)

    def after(self, veu: int, order: int) -> Clock:
        """Return the clock of a vEU that has waited only for rTask number ``order`` of vEU ``veu``.

        ``order`` counts the rTasks of ``veu`` from 0. The clock counts the rTasks of ``veu`` up to
        that rTask, and all rTasks that ``veu`` knew to be complete when that rTask started.
        """
        index = bisect_right(self._since[veu], order) - 1
        clock = self._known[veu][index].copy()
        clock[veu] = order + 1
        return clock

    def goal(self, required: Int64Array) -> Goal:
        """Return the goal of a barrier: the waits that it needs, and the vector clock after it.

        The barrier waits until ``required[w]`` rTasks of each vEU w are complete. The goal is the
        same for every waiting vEU.
        """
        veus = required.nonzero()[0]
        direct = np.zeros(len(required), dtype=bool)
        if not len(veus):
            return Goal(required, direct, np.zeros(len(required), dtype=np.int32))
        clocks = np.array([self.after(w, int(required[w]) - 1) for w in veus.tolist()])
        implied = clocks[:, veus] >= required[veus]
        # A requirement does not imply itself.
        np.fill_diagonal(implied, False)
        direct[veus] = ~implied.any(axis=0)
        return Goal(required, direct, clocks.max(axis=0))

    def misses(self, veu: int, required: Int64Array) -> bool:
        """Whether ``veu`` must wait before it may assume that ``required`` is fulfilled.

        ``required[w]`` is the number of rTasks of vEU w that have to be complete. The result is
        True if ``veu`` knows fewer rTasks of any other vEU to be complete.
        """
        missing = required > self._known[veu][-1]
        missing[veu] = False
        return bool(missing.any())

    def wait(self, veu: int, goal: Goal) -> tuple[tuple[int, int], ...]:
        """Update the clock of a vEU that waits for a goal; return the waits of its barrier.

        ``goal.required`` has the number of rTasks of each vEU that must be complete. A returned
        wait is a pair (w, order): the barrier waits until vEU w has completed its rTask number
        ``order``, counted from 0. Waits for rTasks that ``veu`` already knows to be complete are
        left out; the result may be empty.
        """
        known = self.now(veu)
        missing = goal.direct & (goal.required > known)
        missing[veu] = False
        others = missing.nonzero()[0].tolist()
        if not others:
            return ()
        clock = np.maximum(known, goal.clock)
        if self._since[veu][-1] == self.done[veu]:
            self._known[veu][-1] = clock
        else:
            self._since[veu].append(self.done[veu])
            self._known[veu].append(clock)
        return tuple((w, int(goal.required[w]) - 1) for w in others)

    def mark(self) -> tuple[list[int], list[int], list[Clock]]:
        """Return the current state of all clocks, for ``reset``.

        The three lists have an element for each vEU: the number of rTasks of the vEU so far, the
        number of clocks that are stored for the vEU, and the last of these clocks.
        """
        lengths = [len(since) for since in self._since]
        return list(self.done), lengths, [known[-1] for known in self._known]

    def reset(self, mark: tuple[list[int], list[int], list[Clock]]) -> None:
        """Restore the state of all clocks that an earlier call of ``mark`` returned."""
        done, lengths, last = mark
        self.done = list(done)
        for veu, length in enumerate(lengths):
            del self._since[veu][length:]
            del self._known[veu][length:]
            # ``wait`` may have replaced the last clock in place instead of appending one.
            self._known[veu][-1] = last[veu]
