"""Python's cyclic garbage collector, paused while something makes many objects that stay.

It would visit all of them again and again: a fifth of the time of importing a large model.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Generator
from contextlib import contextmanager

_pausing = threading.Lock()


@contextmanager
def paused_collector(paused: bool = True) -> Generator[None]:
    """Pause the collector, if asked to, and if neither the user nor another thread has done so.

    A pause ends with the work that it began with: others that overlap do not prolong it.
    """
    if not paused or not gc.isenabled() or not _pausing.acquire(blocking=False):
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        _pausing.release()
