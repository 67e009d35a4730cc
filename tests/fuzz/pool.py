"""Child processes that try cases, so that a crash, a hang or a lack of memory stays contained."""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import resource
import sys
import tempfile
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import IO

from tests.fuzz.case import Case, Problem
from tests.fuzz.oracle import Rejected

SECONDS = 120.0
"""Seconds without a result after which a case counts as a hang."""

ADDRESS_SPACE = 12 << 30
"""Most bytes of a child's virtual memory; the compiler's code, threads and tables are a part."""

RESIDENT = 3 << 30
"""Bytes by which a child's peak memory may grow while it tries one small case."""

JOBS = 400
"""Number of cases after which a new process replaces a child."""


@dataclass(frozen=True)
class Kind:
    """A kind of cases.

    Attributes:
        make: generates a case from a seed; raises ``Rejected`` if the seed gives no case.
        check: returns the problem of a case, or None; raises ``Rejected`` if the reference cannot
            run the case.
    """

    make: Callable[[int], Case]
    check: Callable[[Case], Problem | None]


@dataclass(frozen=True)
class Outcome:
    """The result of trying a case: the case and its problem, if any.

    The case is None if it could not be made, or if the reference cannot run it.
    """

    case: Case | None
    problem: Problem | None


Job = tuple[str, int] | Case
"""A case, or the kind and the seed that a case is made from."""


def try_case(
    kinds: dict[str, Kind], job: Job, made: Callable[[Case], None] = lambda _: None
) -> Outcome:
    """Check a case, and return the outcome.

    ``job`` is the case itself, or a pair of the name of a kind in ``kinds`` and a seed, from which
    the case is made first. ``made`` is called with the case before it is checked. An unexpected
    exception is the case's problem.
    """
    case: Case | None = None
    try:
        case = job if isinstance(job, Case) else kinds[job[0]].make(job[1])
        made(case)
        return Outcome(case, kinds[case.kind].check(case))
    except Rejected:
        return Outcome(None, None)
    except Exception as error:
        lines = traceback.format_exc().splitlines()
        return Outcome(case, Problem(type(error).__name__, "\n".join([*lines[-7:]])))


class Child:
    """A child process that tries one case after the other."""

    def __init__(self, module: str) -> None:
        """Prepare a child for the kinds of cases in the dictionary ``KINDS`` of ``module``.

        ``module`` is the module's name. The process starts with the first case.
        """
        self._module = module
        self._process: SpawnProcess | None = None
        self._connection: Connection[Job, Case | Outcome] | None = None
        self._log: IO[bytes] | None = None
        self._jobs = 0

    def attempt(self, job: Job) -> Outcome:
        """Try a case in the child process, and return the outcome.

        If the process crashes or hangs while it checks the case, that is the case's problem. If it
        does so while it makes the case, there is no case, and no problem.
        """
        connection = self._started()
        self._jobs += 1
        case: Case | None = None
        try:
            connection.send(job)
            while connection.poll(SECONDS):
                found = connection.recv()
                if isinstance(found, Outcome):
                    return found
                case = found
            problem = self._end(f"no result after {SECONDS:.0f} s")
        except (EOFError, OSError):
            problem = self._end("")
        return Outcome(case, None if case is None else problem)

    def stop(self) -> None:
        """Kill the child process, if it runs."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
        self._process = None

    def _started(self) -> Connection[Job, Case | Outcome]:
        if self._process is not None and self._jobs >= JOBS:
            self.stop()
        if self._process is None:
            context = multiprocessing.get_context("spawn")
            self._connection, theirs = context.Pipe()
            self._log = tempfile.NamedTemporaryFile(prefix="rammer-fuzz-")
            arguments = (self._module, theirs, self._log.name)
            self._process = context.Process(target=_serve, args=arguments)
            self._process.start()
            theirs.close()
            self._jobs = 0
        assert self._connection is not None
        return self._connection

    def _end(self, reason: str) -> Problem:
        assert self._process is not None and self._log is not None
        if reason:
            self.stop()
            return Problem("hang", reason)
        self._process.join()
        code = self._process.exitcode or 0
        self._log.seek(0)
        words = self._log.read().decode(errors="replace").splitlines()[:12]
        self.stop()
        return Problem(f"status {code}", "\n".join([f"the process ended with {code}", *words]))


def _serve(module: str, connection: Connection[Case | Outcome, Job], log: str) -> None:
    errors = os.open(log, os.O_WRONLY | os.O_APPEND)
    os.dup2(errors, 1)
    os.dup2(errors, 2)
    faulthandler.enable()
    kinds: dict[str, Kind] = __import__(module, fromlist=["KINDS"]).KINDS
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    while True:
        try:
            job = connection.recv()
        except EOFError:
            sys.exit(0)
        Path("/proc/self/clear_refs").write_text("5")
        before = _peak()
        outcome = try_case(kinds, job, connection.send)
        grown = _peak() - before
        if grown > RESIDENT and outcome.problem is None:
            outcome = Outcome(outcome.case, Problem("memory", f"took {grown >> 20} MiB"))
        connection.send(outcome)


def _peak() -> int:
    """Return this process's peak memory in bytes since the peak was last reset."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) << 10
    return 0
