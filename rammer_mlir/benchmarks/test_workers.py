"""Run named tests in a few processes, each of which runs many tests, with a time limit per test."""

from __future__ import annotations

import multiprocessing
import sys
import threading
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from queue import Empty, Queue

SECONDS = 60
"""Default time limit in seconds of a test, enough for a model of a single node."""

Check = Callable[[str], str | None]
"""A function that maps a test's name to the reason why it fails, or to None if it passes."""

MakeCheck = Callable[[], Check]
"""A function that each process calls once: it loads the tests, and returns their ``Check``.

It must be importable.
"""


def check_all(
    make_check: MakeCheck, names: Sequence[str], processes: int, seconds: float = SECONDS
) -> dict[str, str | None]:
    """Run every test in one of ``processes`` processes; return the test results by test name.

    A test result is None if the test passes, else the reason of the failure. A test that takes
    more than ``seconds`` seconds fails. Each process calls ``make_check`` once, to make the
    function that runs a test.
    """
    pending: Queue[str] = Queue()
    for name in names:
        pending.put(name)
    reasons: dict[str, str | None] = {}
    threads = [
        threading.Thread(
            target=_feed_process, args=(make_check, pending, reasons, len(names), seconds)
        )
        for _ in range(min(processes, len(names)))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {name: reasons[name] for name in names}


def _feed_process(
    make_check: MakeCheck,
    pending: Queue[str],
    reasons: dict[str, str | None],
    total: int,
    seconds: float,
) -> None:
    """Run tests from the queue ``pending`` in a process, one after the other, until none is left.

    A new process replaces a process that crashes, or that needs more than ``seconds`` for a test.

    Args:
        make_check: makes the function that runs a test.
        pending: names of the tests.
        reasons: gets, for each test, the reason of its failure, or None if it passes.
        total: number of all tests, for progress messages.
        seconds: time limit of a test.
    """
    tester = None
    while True:
        try:
            name = pending.get_nowait()
        except Empty:
            break
        tester = tester or _Tester(make_check)
        try:
            reasons[name] = tester.check(name, seconds)
        except (TimeoutError, EOFError, OSError) as error:
            late = isinstance(error, TimeoutError)
            reasons[name] = f"not done in {seconds:g} s" if late else "ends the process"
            tester.stop()
            tester = None
        if len(reasons) % 100 == 0:
            print(f"{len(reasons)} of {total} tests", file=sys.stderr, flush=True)
    if tester is not None:
        tester.stop()


class _Tester:
    """A process that runs tests one after the other; each message to the process names a test."""

    def __init__(self, make_check: MakeCheck) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(make_check, theirs), daemon=True)
        self._process.start()
        theirs.close()
        self._connection.recv()

    def check(self, name: str, seconds: float) -> str | None:
        self._connection.send(name)
        if not self._connection.poll(seconds):
            raise TimeoutError
        return self._connection.recv()

    def stop(self) -> None:
        self._connection.close()
        self._process.terminate()
        self._process.join()


def _serve(make_check: MakeCheck, connection: Connection[str | None, str]) -> None:
    check = make_check()
    connection.send(None)
    while True:
        connection.send(check(connection.recv()))
