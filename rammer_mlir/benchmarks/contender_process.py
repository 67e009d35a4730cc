"""Run a contender in a separate process that is stopped while other contenders are timed.

Two thread pools in one process disturb each other: idle workers of one pool spin on cores that the
other pool needs, and the pools may pin threads to the same cores. A stopped process (SIGSTOP) does
not use a core. With separate processes, each contender can therefore keep its best settings.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar, cast

from rammer_mlir.benchmarks.comparison import Array
from rammer_mlir.benchmarks.contenders.protocol import Contender, Open
from rammer_mlir.errors import RammerError, TargetError

Feeds = Mapping[str, Array]
_Result = TypeVar("_Result")

TURN_SECONDS = 5e-3
"""Default sum of the seconds of all timed runs of a turn."""
MIN_RUNS, MAX_RUNS = 3, 200
"""Least and greatest number of timed runs in a turn, except for slow contenders."""

SLOW_SECONDS = 0.5
"""If a turn's untimed runs take more than this number of seconds, only one run is timed.

Caches and clock rates matter little for long runs.
"""

_END_WITH_PARENT = 1
"""PR_SET_PDEATHSIG, the option of Linux's ``prctl`` for a signal when the parent process ends."""


class Lane:
    """A child process that runs one contender, and is stopped while other contenders are timed.

    Between calls of ``open`` and ``call``, the process is stopped (SIGSTOP).
    """

    def __init__(
        self, name: str, open_contender: Open, model: Path, threads: int, feeds: Feeds
    ) -> None:
        """Start the process; it ends when the calling thread ends, even if this thread is killed.

        Args:
            name: name of the contender in error messages.
            open_contender: called in the process with ``model`` and ``threads`` to load the model
                into the contender. It must be picklable by name, such as a module's function.
            model: path of the ONNX file.
            threads: number of threads of the contender.
            feeds: inputs of all runs, by name.
        """
        self._name = name
        self._pipe, far = Pipe()
        # The module is found by -m even if this process got it by a changed sys.path.
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(far.fileno())],
            pass_fds=[far.fileno()],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # so that tools that it calls end with it
        )
        # The far end stays open only in the child, so that its death is seen as EOF here.
        far.close()
        self._job = os.getpid(), open_contender, model, threads, feeds

    @property
    def process(self) -> int:
        """The ID of the process."""
        return self._process.pid

    def open(self, timeout: float) -> None:
        """Load the model into the contender, run the model once, and wait until the run has ended.

        Raises:
            TargetError: if loading or running fails, or both take longer than ``timeout`` seconds.
        """
        with contextlib.suppress(OSError):  # it has ended: the missing answer reports that
            self._pipe.send(self._job)
        self._answer(timeout)
        self._stop()

    def call(
        self, function: Callable[[Contender, Feeds], _Result], timeout: float = 600
    ) -> _Result:
        """Return ``function(contender, feeds)``, computed in the child process.

        ``feeds`` are the inputs that were given to the constructor.

        Raises:
            TargetError: if the call fails, or takes longer than ``timeout`` seconds.
        """
        self._signal(signal.SIGCONT)
        with contextlib.suppress(OSError):  # as above
            self._pipe.send(function)
        answer = self._answer(timeout)
        self._stop()
        return cast(_Result, answer)

    def _answer(self, timeout: float) -> object:
        if not self._pipe.poll(timeout):
            raise TargetError(f"{self._name}: no result after {timeout:.0f} s")
        try:
            failure, result = self._pipe.recv()
        except (EOFError, OSError) as error:
            status = self._process.wait(10)
            raise TargetError(f"{self._name}: process ended with status {status}") from error
        if failure is not None:
            raise TargetError(f"{self._name}: {failure}")
        return result

    def _stop(self) -> None:
        """Stop all threads of the process, and wait until they are stopped."""
        self._signal(signal.SIGSTOP)
        # WNOWAIT: if the process has ended instead, its status must remain for the next answer.
        os.waitid(os.P_PID, self.process, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def _signal(self, number: signal.Signals) -> None:
        if self._process.returncode is not None:
            return  # another process may have this number by now
        with contextlib.suppress(ProcessLookupError):
            # The group: tools that the contender started would otherwise keep running.
            os.killpg(self._process.pid, number)

    def close(self) -> None:
        """End the process and the processes that it started."""
        # SIGKILL also ends a stopped process; SIGTERM would stay pending until SIGCONT.
        self._signal(signal.SIGKILL)
        self._process.wait()
        self._pipe.close()

    def __enter__(self) -> Self:
        """Return this object; when the ``with`` statement ends, the process ends."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        """End the contender's process, whether or not the ``with`` body raised an error."""
        self.close()


def outputs(contender: Contender, feeds: Feeds) -> dict[str, Array]:
    """Run the contender once on ``feeds``, inputs by name; return the outputs by name."""
    return contender.run(feeds)


def turn(contender: Contender, feeds: Feeds, budget: float = TURN_SECONDS) -> list[float]:
    """Run a contender repeatedly for a short time, and return the seconds of each timed run.

    Untimed runs come first, for a fifth of ``budget``, because other contenders have evicted this
    contender's data from the caches. Then runs are timed until they take ``budget`` seconds
    together, but at least ``MIN_RUNS`` and at most ``MAX_RUNS`` runs. If the untimed runs take more
    than ``SLOW_SECONDS``, only one run is timed.
    """
    run = partial(contender.run, feeds)
    first = _seconds(run)
    while first < SLOW_SECONDS and first < budget / 5:
        first += _seconds(run)
    if first > SLOW_SECONDS:
        return [_seconds(run)]
    times: list[float] = []
    while len(times) < MIN_RUNS or (len(times) < MAX_RUNS and sum(times) < budget):
        times.append(_seconds(run))
    return times


def _seconds(run: Callable[[], object]) -> float:
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


def _reason(error: Exception) -> str:
    """Return a one-line message for the contender's exception ``error``."""
    if isinstance(error, RammerError):
        return str(error)
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0][:300] if lines else 'no message'}"


def _serve(pipe: Connection) -> None:
    """Load a model into a contender, both given by the first message on ``pipe``; answer calls.

    Each later message is a function. The function is called with the contender and the inputs, and
    its result is the answer. An answer is a pair (error message or None, result). The process ends
    after an answer with an error message, and when the other end of the pipe is closed.
    """
    try:
        parent, open_contender, model, threads, feeds = pipe.recv()
        if os.getppid() != parent:
            return  # it ended before this process asked to end with it
        contender = open_contender(model, threads)
        contender.run(feeds)  # lazy initialization in the first run counts as opening
        pipe.send((None, None))
        while True:
            function = pipe.recv()
            pipe.send((None, function(contender, feeds)))
    except EOFError:
        return
    except Exception as error:  # anything may go wrong in a contender; it must not end the table
        pipe.send((_reason(error), None))


if __name__ == "__main__":
    # A stopped process would never notice that its parent ended, and would stay forever.
    ctypes.CDLL(None).prctl(_END_WITH_PARENT, signal.SIGKILL)
    _serve(Connection(int(sys.argv[1])))
