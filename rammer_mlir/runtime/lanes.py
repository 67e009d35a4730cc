"""Limits how many runs are in progress at the same time, in the order of their requests."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import count
from queue import Empty, SimpleQueue

_PATIENCE = 1.0
"""Seconds between two times that a waiting executor checks whether lanes are lost."""

Work = Callable[[int], object]
"""A run in a lane, whose number is the argument."""


class _Request:
    """A run for which a client waits.

    Attributes:
        work: the run.
        claims: has an element until an executor begins the run, or the client gives it up.
        done: a lock that is released after the run.
        result: the result of ``work``.
        problem: the exception that ``work`` raised, or None.
    """

    def __init__(self, work: Work) -> None:
        self.work = work
        self.claims = [None]
        self.done = threading.Lock()
        self.done.acquire()
        self.result: object = None
        self.problem: BaseException | None = None

    def claim(self) -> bool:
        """Return True to one caller, who begins or gives up the run, and False to others."""
        try:
            self.claims.pop()
        except IndexError:
            return False
        return True

    def execute(self, lane: int) -> None:
        """Execute the run in a lane, unless the client has given it up."""
        if self.claim():
            try:
                self.result = self.work(lane)
            except BaseException as problem:  # raised again in the client's thread
                self.problem = problem
            self.done.release()


class Lanes:
    """Lanes for runs: a thread takes a lane, executes a run, and returns the lane.

    If no lane is free, executors execute the requests of all clients in order: threads that keep
    their lane from one request to the next. So no lane waits until the next client has woken up,
    and the memory of an executor's stack stays in the caches of its core.

    An interrupt, such as a ``KeyboardInterrupt``, may prevent a thread from returning its lane.
    Executors that wait for long then replace the lane.
    """

    def __init__(self, limit: int, in_progress: Callable[[], int]) -> None:
        """Create ``limit`` lanes, for as many runs at the same time.

        ``in_progress`` returns the number of runs that are in progress now.
        """
        self._limit = limit
        self._in_progress = in_progress
        # Methods of lists are atomic, so taking a free lane needs no lock. The lane that was
        # returned last is taken first: its memory is in the caches.
        self._free = list(range(limit - 1, -1, -1))
        self._new_lanes = count(limit)
        self._clients: list[None] = []
        self._requests: SimpleQueue[_Request | None] = SimpleQueue()
        self._returned = threading.Condition()
        self._num_waiting = 0
        self._num_executors = 0

    def take(self) -> int | None:
        """Return a free lane, for ``give_back``; None if there is none, or clients wait."""
        if self._clients:
            return None
        try:
            return self._free.pop()
        except IndexError:
            return None

    def give_back(self, lane: int) -> None:
        """Return a lane after the run."""
        self._free.append(lane)
        if self._num_waiting:
            with self._returned:
                self._returned.notify()

    def request(self, work: Work) -> object:
        """Let an executor execute ``work`` when its turn has come; return the result.

        Raises:
            BaseException: the exception that ``work`` raises.
        """
        request = _Request(work)
        self._clients.append(None)
        try:
            self._requests.put(request)
            if self._num_executors < self._limit:
                self._start()
            request.done.acquire()
        except BaseException:
            # The run may already use the client's arrays.
            if not request.claim():
                request.done.acquire()
            raise
        finally:
            self._clients.pop()
        if request.problem is not None:
            raise request.problem
        return request.result

    def close(self) -> None:
        """End the executors; no further request is made."""
        for _ in range(self._num_executors):
            self._requests.put(None)

    def _start(self) -> None:
        with self._returned:
            if self._num_executors == self._limit:
                return
            self._num_executors += 1
        threading.Thread(target=self._execute, name="rammer-executor", daemon=True).start()

    def _execute(self) -> None:
        """Execute requests until ``close``; keep a lane as long as there are requests."""
        while (request := self._requests.get()) is not None:
            lane = self._wait()
            while request is not None:
                request.execute(lane)
                # A reference would keep the program of the last request in memory.
                del request
                try:
                    request = self._requests.get_nowait()
                except Empty:
                    break
            else:
                return
            self.give_back(lane)

    def _wait(self) -> int:
        """Wait for a free lane, and take it."""
        was_lost = False
        with self._returned:
            self._num_waiting += 1
            while True:
                try:
                    lane = self._free.pop()
                    break
                except IndexError:
                    pass
                if not self._returned.wait(_PATIENCE):
                    is_lost = self._in_progress() + len(self._free) < self._limit
                    # Twice, because a run may be about to begin or has just ended.
                    if was_lost and is_lost:
                        self._free.append(next(self._new_lanes))
                    was_lost = is_lost
            self._num_waiting -= 1
        return lane
