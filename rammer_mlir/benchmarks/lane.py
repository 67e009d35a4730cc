"""A contender in a process of its own, which stands still while another one is timed.

Two thread pools in one process disturb each other: idle workers of one spin on the cores that the
other one needs, and pin threads. A stopped process (SIGSTOP) does neither, so that everyone may
keep the settings that serve it best.
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
"""Runs in a turn go on for so long, within the limits below, after a fifth of it untimed."""
MIN_RUNS, MAX_RUNS = 3, 200
SLOW_SECONDS = 0.5
"""A run that takes longer is the only one of its turn: there, caches and clocks matter little."""

_END_WITH_PARENT = 1
"""Linux: PR_SET_PDEATHSIG."""


class Lane:
    """A process that holds a contender; the caller's calls wake it up."""

    def __init__(
        self, name: str, open_contender: Open, model: Path, threads: int, feeds: Feeds
    ) -> None:
        """Start the process; it ends with the calling thread, however that ends.

        What opens the contender is pickled, by its name.
        """
        self._name = name
        self._pipe, far = Pipe()
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(far.fileno())],
            pass_fds=[far.fileno()],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # so that tools that it calls end with it
        )
        far.close()
        self._job = os.getpid(), open_contender, model, threads, feeds

    @property
    def process(self) -> int:
        """The process's number."""
        return self._process.pid

    def open(self, timeout: float) -> None:
        """Open the model, and wait until it is.

        Raises:
            TargetError: if that fails, or takes longer than ``timeout`` seconds.
        """
        with contextlib.suppress(OSError):  # it has ended, as the missing answer will tell
            self._pipe.send(self._job)
        self._answer(timeout)
        self._stop()

    def call(
        self, function: Callable[[Contender, Feeds], _Result], timeout: float = 600
    ) -> _Result:
        """Return ``function(contender, feeds)``, computed over there.

        Raises:
            TargetError: if that fails, or takes longer than ``timeout`` seconds.
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
        """Stop all threads of the process, and wait until they stand still."""
        self._signal(signal.SIGSTOP)
        # Should it have ended instead, its status stays for the next answer to tell.
        os.waitid(os.P_PID, self.process, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def _signal(self, number: signal.Signals) -> None:
        if self._process.returncode is not None:
            return  # the number may be another process's by now
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def close(self) -> None:
        """End the process and what it started."""
        self._signal(signal.SIGKILL)
        self._process.wait()
        self._pipe.close()

    def __enter__(self) -> Self:
        """Use as a context manager that ends the process."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        """End the process."""
        self.close()


def outputs(contender: Contender, feeds: Feeds) -> dict[str, Array]:
    """Run once and return the outputs by name."""
    return contender.run(feeds)


def turn(contender: Contender, feeds: Feeds) -> list[float]:
    """Return the seconds of each timed run of one turn.

    The first run is not timed, since the others have emptied the caches.
    """
    run = partial(contender.run, feeds)
    first = _seconds(run)
    while first < SLOW_SECONDS and first < TURN_SECONDS / 5:
        first += _seconds(run)
    if first > SLOW_SECONDS:
        return [_seconds(run)]
    times: list[float] = []
    while len(times) < MIN_RUNS or (len(times) < MAX_RUNS and sum(times) < TURN_SECONDS):
        times.append(_seconds(run))
    return times


def _seconds(run: Callable[[], object]) -> float:
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


def _reason(error: Exception) -> str:
    """Return what went wrong in a contender, in one line."""
    if isinstance(error, RammerError):
        return str(error)
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0][:300] if lines else 'no message'}"


def _serve(pipe: Connection) -> None:
    """Open what is asked for, then compute what is asked for, until the other end closes."""
    try:
        parent, open_contender, model, threads, feeds = pipe.recv()
        if os.getppid() != parent:
            return  # it ended before this process asked to end with it
        contender = open_contender(model, threads)
        contender.run(feeds)  # what is only made with the first run belongs to opening
        pipe.send((None, None))
        while True:
            function = pipe.recv()
            pipe.send((None, function(contender, feeds)))
    except EOFError:
        return
    except Exception as error:  # anything may go wrong in a contender; it must not end the table
        pipe.send((_reason(error), None))


if __name__ == "__main__":
    # A stopped process would not notice that nobody is left to wake it up.
    ctypes.CDLL(None).prctl(_END_WITH_PARENT, signal.SIGKILL)
    _serve(Connection(int(sys.argv[1])))
