"""Forked children, in which only the thread that forked goes on."""

from __future__ import annotations

import functools
import os
import weakref
from typing import Protocol


class HasThreads(Protocol):
    """An object with threads or locks of this process."""

    def forget_threads(self) -> None:
        """Start afresh in a forked child: threads did not come along, and locks stay locked."""
        ...


_objects: weakref.WeakSet[HasThreads] = weakref.WeakSet()


def renew_in_children(found: HasThreads) -> None:
    """Let an object forget its threads in every forked child, as long as the object lives."""
    _watch_forks()
    _objects.add(found)


@functools.cache
def _watch_forks() -> None:
    os.register_at_fork(after_in_child=_forget_threads)


def _forget_threads() -> None:
    for found in list(_objects):
        found.forget_threads()
