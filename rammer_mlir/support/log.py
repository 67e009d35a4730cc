"""The project's logger: what the compiler does, and how long it takes.

Messages have level ``INFO``. Nobody sees them until an application, or a tool's ``--verbose``,
gives the logger ``rammer_mlir`` a handler and a level.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager

LOGGER = logging.getLogger("rammer_mlir")
LOGGER.addHandler(logging.NullHandler())


@contextmanager
def logged_seconds(part: str) -> Generator[None]:
    """Log how long a part of the work takes, if it succeeds."""
    begin = time.perf_counter()
    yield
    log_seconds(part, time.perf_counter() - begin)


def log_seconds(part: str, seconds: float) -> None:
    """Log how long a part of the work took."""
    LOGGER.info("%s: %.3f s", part, seconds)


@contextmanager
def shown_on_stderr(shown: bool = True) -> Generator[None]:
    """Write messages to standard error until the end, if asked to."""
    if not shown or sys.stderr is None:  # it is where the shell closed it
        yield
        return
    handler, level = logging.StreamHandler(sys.stderr), LOGGER.level
    handler.setFormatter(logging.Formatter("%(name)s: %(message)s"))
    LOGGER.addHandler(handler)
    LOGGER.setLevel(logging.INFO)
    try:
        yield
    finally:
        LOGGER.removeHandler(handler)
        LOGGER.setLevel(level)
