"""Runs worker processes, which serve requests; their crashes and hangs become errors.

A worker serves the requests of a process one after another. A worker that died is started again at
the next request.
"""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import IO

from rammer_mlir.support.worker_messages import HEADER, Reply


class WorkerDied(Exception):
    """Raised if a worker process ends or has to be killed; the message has the cause."""


def can_start_python() -> bool:
    """Whether this process can start a Python interpreter; false if Python is embedded."""
    if not sys.executable or getattr(sys, "frozen", False):
        return False
    # An application that embeds Python may have the name of any Python on the search path.
    executable, prefixes = Path(sys.executable), {sys.prefix, sys.exec_prefix, sys.base_prefix}
    is_own = any(executable.is_relative_to(prefix) for prefix in prefixes)
    return executable.name.startswith("python") and is_own


def module_command(module: str) -> list[str]:
    """Return the command that runs a module of this installation in a worker process."""
    return [sys.executable, "-P", "-m", module]


class WorkerProcess:
    """A child process that serves requests; it starts at the first request.

    If the child process has died, the next request starts it again.
    """

    def __init__(self, command: list[str]) -> None:
        """Store the command that starts the child process."""
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0
        self._closed = False
        self._log: IO[bytes] | None = None
        self._lock = threading.Lock()

    def request(self, content: bytes, seconds: float) -> Reply:
        """Return the child's answer to a request.

        Raises:
            WorkerDied: if the child does not start, crashes, does not answer within ``seconds``
                seconds, or ``close`` was called.
        """
        with self._lock:
            process = self._started()
            try:
                return self._exchange(process, content, time.monotonic() + seconds)
            except TimeoutError as error:
                self._stop()
                raise WorkerDied(f"it did not finish in {seconds:g} s") from error
            except (OSError, EOFError) as error:
                raise WorkerDied(self._last_words(process)) from error
            except BaseException:
                # The answer that is still to come must not become that of the next request.
                self._stop()
                raise

    @property
    def is_closed(self) -> bool:
        """Whether ``close`` was called."""
        return self._closed

    def stop(self) -> None:
        """End the child process, if it is running.

        If another thread has a request in progress, wait for the end of this request. The next
        request starts the child process again.
        """
        # The copy in a forked process has nothing to stop, and its lock may never be released.
        if self._owner != os.getpid():
            return
        with self._lock:
            self._stop()

    def close(self) -> None:
        """End the child process permanently, even during a request of another thread.

        A request in progress, and all later requests, raise ``WorkerDied``.
        """
        self._closed = True
        process = self._process
        if process is not None and self._owner == os.getpid():
            process.kill()
        self.stop()

    def _started(self) -> subprocess.Popen[bytes]:
        if self._closed:
            raise WorkerDied("it was closed")
        if self._process is not None and self._owner == os.getpid():
            if self._process.poll() is None:
                return self._process
            self._stop()
        # After a fork, the copy of this object must not touch the parent's child.
        self._owner = os.getpid()
        # ``-P`` keeps the working directory off the path; pass the parent's path on instead.
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        try:
            self._log = tempfile.TemporaryFile(prefix="rammer-worker-")
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                env=environment,
                bufsize=0,
            )
        except OSError as error:
            if self._log is not None:
                self._log.close()
            raise WorkerDied(f"it did not start: {error}") from error
        if self._closed:  # meanwhile, by a thread that found no process yet
            self._stop()
            raise WorkerDied("it was closed")
        return self._process

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is None or self._owner != os.getpid():
            return
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, self._log):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        self._log = None

    @staticmethod
    def _exchange(process: subprocess.Popen[bytes], content: bytes, deadline: float) -> Reply:
        assert process.stdin is not None and process.stdout is not None
        request = memoryview(HEADER.pack(0, len(content)) + content)
        while request:
            request = request[process.stdin.write(request) or 0 :]
        stream = process.stdout.fileno()
        status, length = HEADER.unpack(_read(stream, HEADER.size, deadline))
        return Reply(status, _read(stream, length, deadline))

    def _last_words(self, process: subprocess.Popen[bytes]) -> str:
        status = process.wait()
        assert self._log is not None
        self._log.seek(0)
        lines = [line.strip() for line in self._log.read().decode(errors="replace").splitlines()]
        self._stop()
        said = [line for line in lines if "Assertion" in line or "ERROR" in line]
        return said[-1][:200] if said else f"it ended with status {status}"


def _read(stream: int, size: int, deadline: float) -> bytes:
    parts: list[bytes] = []
    while size:
        if not select.select([stream], [], [], max(0.0, deadline - time.monotonic()))[0]:
            raise TimeoutError
        part = os.read(stream, min(size, 1 << 20))
        if not part:
            raise EOFError
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
