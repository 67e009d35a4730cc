"""Limits the number of concurrent runs; requests above the limit are served in order of arrival."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from queue import Empty, SimpleQueue

from rammer_mlir.errors import TargetError

_PATIENCE = 1.0
"""Seconds between two times that a waiting executor searches for lanes that are lost."""

Work = Callable[[int], object]
"""A function that executes a run; its argument is the index of the run's lane."""


class _Request:
    """A run for which a client waits.

    Attributes:
        work: executes the run; its argument is the index of the run's lane.
        claims: a list with one element, which is removed when an executor begins the run or the
            client gives up the run.
        waiting: the requests of all clients whose runs have not begun.
        is_done: whether the run has ended.
        bell: a lock that is released after the run.
        result: the result of ``work``.
        problem: the exception that ``work`` raised, or None.
    """

    def __init__(self, work: Work, waiting: set[_Request]) -> None:
        self.work = work
        self.claims = [None]
        self.waiting = waiting
        self.is_done = False
        self.bell = threading.Lock()
        self.bell.acquire()
        self.result: object = None
        self.problem: BaseException | None = None

    def claim(self) -> bool:
        """Return True to the first caller, who then begins or gives up the run; False to others."""
        try:
            self.claims.pop()
        except IndexError:
            return False
        self.waiting.discard(self)
        return True

    def execute(self, lane: int) -> None:
        """Execute the run in a lane, unless the client has given up the run."""
        if self.claim():
            try:
                self.result = self.work(lane)
            except BaseException as problem:  # raised again in the client's thread
                self.problem = problem
            self.is_done = True
            self.bell.release()

    def wait(self) -> None:
        """Wait until the run has ended.

        An interrupt gives up a run that has not begun; a run that has begun may use the client's
        arrays, so it ends first.
        """
        try:
            self.bell.acquire()
        except BaseException:
            if not self.claim():
                # The interrupt may have come after the bell was acquired.
                while not self.is_done:
                    self.bell.acquire(timeout=_PATIENCE)
            raise


class _Turn:
    """The place of an executor in the queue for lanes; the executor has a request to execute.

    Attributes:
        lane: the lane that the executor gets; None while the executor waits.
        bell: a lock that is released when ``lane`` is set.
    """

    def __init__(self) -> None:
        self.lane: int | None = None
        self.bell = threading.Lock()
        self.bell.acquire()


class Lanes:
    """Limits the number of concurrent runs: a run needs a lane, and the number of lanes is fixed.

    A thread takes a lane, executes a run, and gives the lane back. If no lane is free, a client
    requests a run, and an executor executes it. Executors are threads that execute the requests of
    all clients in order, and keep their lane from one request to the next. So no lane waits until
    the next client has woken up, and the memory of an executor's stack stays in the caches of its
    core.

    An interrupt, such as a ``KeyboardInterrupt``, may prevent a thread from giving back its lane.
    Such a lane is recovered by means of locks: during a run, a thread holds the lock of its lane by
    a ``with`` statement, which releases the lock even after an interrupt. If a lane stays unlocked
    for a while but is not listed as free, a waiting executor takes the lane.

    Attributes:
        locks: the lock of each lane.
    """

    def __init__(self, limit: int) -> None:
        """Create ``limit`` lanes, so that at most ``limit`` runs are in progress at a time."""
        self.locks = [threading.Lock() for _ in range(limit)]
        self._limit = limit
        # Methods of lists, sets and deques are atomic, so taking a free lane needs no lock. The
        # lane that was returned last is taken first.
        self._free = list(range(limit - 1, -1, -1))
        self._waiting: set[_Request] = set()
        self._requests: SimpleQueue[_Request | None] = SimpleQueue()
        self._turns: deque[_Turn] = deque()
        self._serving = threading.Lock()
        self._num_executors = 0
        self._starting = threading.Lock()

    def take(self) -> int | None:
        """Take a free lane and return its index; None if no lane is free, or if requests wait.

        The caller executes a run, and then calls ``give_back``.
        """
        if self._waiting:
            return None
        try:
            return self._free.pop()
        except IndexError:
            return None

    def give_back(self, lane: int) -> None:
        """Make a lane free again, after the run for which it was taken."""
        self._free.append(lane)
        if self._turns:
            self._serve()

    def request(self, work: Work) -> object:
        """Let an executor execute ``work`` after all earlier requests; return the result.

        Raises:
            TargetError: if the system refuses to create the executor's thread.
            BaseException: the exception that ``work`` raises.
        """
        if self._num_executors < self._limit:
            self._start()
        request = _Request(work, self._waiting)
        try:
            self._waiting.add(request)
            self._requests.put(request)
            request.wait()
        except BaseException:
            request.claim()
            raise
        # The traceback of the exception contains frames with the request: break the cycle.
        problem, request.problem = request.problem, None
        if problem is None:
            return request.result
        try:
            raise problem
        finally:
            del problem

    def close(self) -> None:
        """End the executors; no request may be made afterwards."""
        for _ in range(self._num_executors):
            self._requests.put(None)

    def _start(self) -> None:
        with self._starting:
            if self._num_executors == self._limit:
                return
            thread = threading.Thread(target=self._execute, name="rammer-executor", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:
                raise TargetError(
                    f"cannot create a thread for concurrent runs: {error}; use fewer threads"
                ) from error
            self._num_executors += 1

    def _execute(self) -> None:
        """Execute requests until ``close``; keep a lane as long as there are requests."""
        while (request := self._requests.get()) is not None:
            lane = self._wait()
            while request is not None:
                request.execute(lane)
                # A reference would keep the program of the last request in memory.
                del request
                # Another executor that needs a lane has an earlier request.
                if self._turns:
                    break
                try:
                    request = self._requests.get_nowait()
                except Empty:
                    break
            else:
                return
            self.give_back(lane)

    def _wait(self) -> int:
        """Wait for a lane, take it, and return its index."""
        turn = _Turn()
        self._turns.append(turn)
        # A lane may have become free before.
        self._serve()
        idle: set[int] = set()
        while not turn.bell.acquire(timeout=_PATIENCE) and turn.lane is None:
            # Twice: a run that is about to begin, or has just ended, does not hold its lock either.
            was_idle, idle = idle, self._idle()
            self._free.extend(was_idle & idle)
            idle -= was_idle
            self._serve()
        assert turn.lane is not None
        return turn.lane

    def _serve(self) -> None:
        """Give free lanes to the executors that have waited longest."""
        with self._serving:
            while self._turns:
                turn = self._turns[0]
                # An interrupt may have ended an earlier call after this assignment.
                if turn.lane is None:
                    try:
                        turn.lane = self._free.pop()
                    except IndexError:
                        return
                self._turns.popleft()
                turn.bell.release()

    def _idle(self) -> set[int]:
        """Return the indices of the lanes that no run has locked and that are not listed as free.

        A thread has taken each of these lanes, but the thread's run has not begun or has ended. An
        interrupt may have kept the thread from giving the lane back.
        """
        unlocked = {number for number, lock in enumerate(self.locks) if not lock.locked()}
        return unlocked.difference(self._free)
