"""Limits how many threads run programs at the same time, in the order of their requests."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from itertools import count

_PATIENCE = 0.05
"""Seconds between two times that a waiting thread checks whether lanes are lost."""


class _Turn:
    """A thread that waits.

    Attributes:
        lane: the lane that the thread gets; None while it waits.
        bell: a lock that is released when ``lane`` is set.
    """

    def __init__(self) -> None:
        self.lane: int | None = None
        self.bell = threading.Lock()
        self.bell.acquire()


class Admission:
    """Lanes for runs, which threads take and return; threads wait in order for a free lane.

    An interrupt, such as a ``KeyboardInterrupt``, may prevent a thread from returning its lane.
    Threads that wait for long then replace the lane.
    """

    def __init__(self, limit: int, in_progress: Callable[[], int]) -> None:
        """Create ``limit`` lanes, for as many runs at the same time.

        ``in_progress`` returns the number of runs that are in progress now.
        """
        self._limit = limit
        self._in_progress = in_progress
        # Methods of lists and deques are atomic, so taking a free lane needs no lock. The lane that
        # was returned last is taken first: its memory is in the caches.
        self._free = list(range(limit - 1, -1, -1))
        self._new_lanes = count(limit)
        self._waiting: deque[_Turn] = deque()
        self._serving = threading.Lock()

    def enter(self) -> int:
        """Wait for a free lane, and return its number, for ``leave``."""
        if not self._waiting:
            try:
                return self._free.pop()
            except IndexError:
                pass
        return self._wait()

    def leave(self, lane: int) -> None:
        """Return a lane, and let the next thread begin."""
        self._free.append(lane)
        if self._waiting:
            self._serve()

    def _wait(self) -> int:
        turn = _Turn()
        try:
            self._waiting.append(turn)
            # A lane may have become free before this thread was in the queue.
            self._serve()
            was_lost = False
            while not turn.bell.acquire(timeout=_PATIENCE) and turn.lane is None:
                is_lost = self._in_progress() + len(self._free) < self._limit
                # Twice, because a run may be about to begin or has just ended.
                if was_lost and is_lost:
                    self._free.append(next(self._new_lanes))
                was_lost = is_lost
                self._serve()
        except BaseException:
            self._give_up(turn)
            raise
        assert turn.lane is not None
        return turn.lane

    def _serve(self) -> None:
        """Give free lanes to the threads that have waited longest."""
        with self._serving:
            while self._waiting:
                turn = self._waiting[0]
                # An interrupt may have ended an earlier call after this assignment.
                if turn.lane is None:
                    try:
                        turn.lane = self._free.pop()
                    except IndexError:
                        return
                self._waiting.popleft()
                turn.bell.release()

    def _give_up(self, turn: _Turn) -> None:
        """Remove an interrupted thread from the queue, or return the lane that it was given."""
        with self._serving:
            if turn in self._waiting:
                self._waiting.remove(turn)
        if turn.lane is not None:
            self.leave(turn.lane)
