"""Python's cyclic garbage collector, paused while something makes many objects that stay.

It would visit all of them again and again: a fifth of the time of importing a large model.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Generator
from contextlib import contextmanager

_lock = threading.Lock()
_pauses: list[bool] = []
"""An entry for each pause that has not ended; whether the collector was on before it."""


@contextmanager
def paused_collector() -> Generator[None]:
    """Pause the collector until the last of the pauses, in all threads, has ended."""
    with _lock:
        _pauses.append(gc.isenabled())
        gc.disable()
    try:
        yield
    finally:
        with _lock:
            # The pause that began first has the last entry to go.
            if _pauses.pop():
                gc.enable()
