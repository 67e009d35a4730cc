"""Resets objects in forked child processes, where only the forking thread still exists."""

from __future__ import annotations

import functools
import os
import weakref
from typing import Protocol


class HasThreads(Protocol):
    """An object with threads or locks of this process."""

    def forget_threads(self) -> None:
        """Reset the object in a forked child, where other threads are gone but may hold locks."""
        ...


_objects: weakref.WeakSet[HasThreads] = weakref.WeakSet()


def renew_in_children(found: HasThreads) -> None:
    """Call ``found.forget_threads()`` in every forked child, as long as ``found`` exists."""
    _watch_forks()
    _objects.add(found)


@functools.cache
def _watch_forks() -> None:
    os.register_at_fork(after_in_child=_forget_threads)


def _forget_threads() -> None:
    for found in list(_objects):
        found.forget_threads()
