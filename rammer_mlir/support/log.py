"""Logs the stages of the compiler and their durations with the project's logger.

Messages about a whole stage have level ``INFO``, messages about progress within a stage have level
``DEBUG``. The messages are invisible until an application, or a tool's ``--verbose``, gives the
logger ``rammer_mlir`` a handler and a level. On a terminal, tools show the last progress message in
a single changing line.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TextIO

LOGGER = logging.getLogger("rammer_mlir")
LOGGER.addHandler(logging.NullHandler())


@contextmanager
def logged_seconds(part: str) -> Generator[None]:
    """Log the duration of the ``with`` block, in seconds, with the name ``part``.

    Nothing is logged if the block raises an exception.
    """
    begin = time.perf_counter()
    yield
    log_seconds(part, time.perf_counter() - begin)


def log_seconds(part: str, seconds: float) -> None:
    """Log that the part of the work named ``part`` took ``seconds``."""
    LOGGER.info("%s: %.3f s", part, seconds)


def log_progress(stage: str, detail: Callable[[], str]) -> None:
    """Log progress within the stage of the compiler named ``stage``.

    ``detail`` returns the text that follows this name; it is only called if the message is logged.
    """
    if LOGGER.isEnabledFor(logging.DEBUG):
        LOGGER.debug("%s: %s", stage, detail(), extra={_IS_PROGRESS: True})


def log_cache(message: str) -> None:
    """Log a message about the compile cache.

    The message has a mark, by which ``shown_on_stderr`` recognizes it if ``explain_cache`` is true.
    """
    LOGGER.info("cache: %s", message, extra={_IS_CACHE: True})


_IS_PROGRESS, _IS_CACHE = "is_progress", "is_cache"
"""Names of the attributes that mark log records of progress, and records of the cache."""


def _tells_of_cache(record: logging.LogRecord) -> bool:
    return hasattr(record, _IS_CACHE)


_CLEAR = "\r\x1b[K"
"""Control characters that move a terminal's cursor to the start of the line and clear it."""

_PERIOD = 0.1
"""Minimum seconds between updates of the progress line."""


class ProgressLine(logging.Handler):
    """The handler that shows progress in a single line of a terminal.

    Other messages clear the line, and so does closing the handler.
    """

    def __init__(self, terminal: TextIO) -> None:
        """Create a handler that writes to an open terminal."""
        super().__init__(logging.DEBUG)
        self._terminal = terminal
        self._next, self._is_shown = 0.0, False

    def emit(self, record: logging.LogRecord) -> None:
        """Show a progress message; clear the line for any other message."""
        try:
            if not hasattr(record, _IS_PROGRESS):
                self._clear()
            elif time.monotonic() >= self._next:
                self._next, self._is_shown = time.monotonic() + _PERIOD, True
                width = shutil.get_terminal_size().columns - 1
                self._write(_CLEAR + record.getMessage()[:width])
        except OSError:
            return  # a lost terminal must not end a compilation

    def close(self) -> None:
        """Clear the progress line and close the handler."""
        with contextlib.suppress(OSError):
            self._clear()
        super().close()

    def _clear(self) -> None:
        if self._is_shown:
            self._is_shown = False
            self._write(_CLEAR)

    def _write(self, text: str) -> None:
        self._terminal.write(text)
        self._terminal.flush()


@contextmanager
def shown_on_stderr(
    shown: bool = True, *, quiet: bool = False, explain_cache: bool = False
) -> Generator[None]:
    """Write the project's log messages to standard error within the block.

    If both ``shown`` and ``explain_cache`` are false, show a line of progress instead, provided
    that standard error is a terminal.

    Args:
        shown: write all messages of level INFO or above.
        quiet: show no line of progress.
        explain_cache: write the messages about the compile cache, even if ``shown`` is False.
    """
    handler: logging.Handler
    if sys.stderr is None:  # closed by the shell
        yield
        return
    if shown or explain_cache:
        handler, wanted = logging.StreamHandler(sys.stderr), logging.INFO
        handler.setFormatter(logging.Formatter("%(name)s: %(message)s"))
        if not shown:
            handler.addFilter(_tells_of_cache)
    elif not quiet and sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        handler, wanted = ProgressLine(sys.stderr), logging.DEBUG
    else:
        yield
        return
    level = LOGGER.level
    LOGGER.addHandler(handler)
    LOGGER.setLevel(wanted)
    try:
        yield
    finally:
        LOGGER.removeHandler(handler)
        LOGGER.setLevel(level)
        handler.close()
