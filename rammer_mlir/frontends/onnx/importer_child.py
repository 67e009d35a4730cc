"""Client of the child process with torch-mlir's importer; its crashes and hangs become errors.

A single child serves all models of a process sequentially; it is restarted after it dies.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import select
import subprocess
import sys
import tempfile
import threading
import time
from typing import IO

from rammer_mlir.errors import UnsupportedError
from rammer_mlir.frontends.onnx.importer_messages import HEADER, Reply

_SECONDS = 60.0
"""Number of seconds for a single node after which the importer counts as hung."""


class ImporterDied(Exception):
    """Raised if the child process ends or has to be killed; the message says how."""


class ImportWorker:
    """A child process that imports models; started at its first use, and again after it died."""

    def __init__(self, command: list[str] | None = None) -> None:
        """Take the command that starts the child process; None for torch-mlir's importer."""
        self._command = command or [sys.executable, "-P", "-m", f"{__package__}.importer_worker"]
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0
        self._log: IO[bytes] | None = None
        self._lock = threading.Lock()

    def request(self, model: bytes, seconds: float) -> Reply:
        """Import a serialized model in the child; return MLIR bytecode, or a line with the error.

        Raises:
            ImporterDied: if the child crashes, or does not answer within ``seconds``.
        """
        with self._lock:
            process = self._start()
            try:
                return self._exchange(process, model, time.monotonic() + seconds)
            except TimeoutError as error:
                self._stop()
                raise ImporterDied(f"it did not finish in {seconds:g} s") from error
            except (OSError, EOFError) as error:
                raise ImporterDied(self._last_words(process)) from error

    def stop(self) -> None:
        """End the child process, if it is running."""
        with self._lock:
            self._stop()

    def _start(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._owner == os.getpid():
            if self._process.poll() is None:
                return self._process
            self._stop()
        # After a fork, the copy of this object must not touch the parent's child.
        self._owner = os.getpid()
        self._log = tempfile.TemporaryFile(prefix="rammer-import-")
        # ``-P`` keeps the working directory off the path; pass the parent's path on instead.
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=environment,
            bufsize=0,
        )
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
    def _exchange(process: subprocess.Popen[bytes], model: bytes, deadline: float) -> Reply:
        assert process.stdin is not None and process.stdout is not None
        content = memoryview(HEADER.pack(0, len(model)) + model)
        while content:
            content = content[process.stdin.write(content) or 0 :]
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


_worker = ImportWorker()
atexit.register(_worker.stop)


def import_in_child(model: bytes, worker: ImportWorker = _worker) -> bytes:
    """Import a serialized model of a single node, with static shapes; return MLIR bytecode.

    ``worker`` is the child process that imports it.

    Raises:
        UnsupportedError: with the importer's reason.
    """
    try:
        reply = worker.request(model, _SECONDS)
    except ImporterDied as error:
        raise UnsupportedError(f"the ONNX importer gave up: {error}") from error
    if not reply.ok:
        raise UnsupportedError(reply.content.decode())
    return reply.content
