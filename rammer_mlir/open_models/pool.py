"""Caches the most recently used specializations, and compiles each at its first use."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from rammer_mlir.errors import TargetError
from rammer_mlir.programs.dimensions import Shape
from rammer_mlir.runtime.compiled import RunnableModel

Key = tuple[Shape | bytes, ...]
"""Identity of a specialization: each input's shape, then the bytes of each shape value."""


@dataclass(eq=False)
class Entry:
    """A specialization in the cache, with the number of its users.

    A user is a caller that has acquired the entry and not yet released it.

    Attributes:
        model: the specialization.
        users: number of users.
        is_dropped: whether the entry was removed from the cache. The last user of a removed entry
            closes the specialization.
    """

    model: RunnableModel
    users: int = 0
    is_dropped: bool = False


class Pool:
    """A least-recently-used cache of specializations that several threads may use concurrently.

    At most one specialization is compiled at a time. Other specializations can run during the
    compilation.
    """

    def __init__(self, make: Callable[[Key], RunnableModel], limit: int) -> None:
        """Begin with an empty cache.

        Args:
            make: returns the specialization of a key.
            limit: greatest number of specializations in the cache.
        """
        self._make, self._limit = make, limit
        self._entries: OrderedDict[Key, Entry] = OrderedDict()
        self._is_closed = False
        self._lock, self._making = threading.Lock(), threading.Lock()

    def keys(self) -> list[Key]:
        """Return the keys of the specializations in the cache, least recently used first."""
        with self._lock:
            return list(self._entries)

    def models(self) -> list[RunnableModel]:
        """Return the specializations in the cache.

        A specialization that was dropped from the cache, but is still in use, is not among them.
        """
        with self._lock:
            return [entry.model for entry in self._entries.values()]

    def find(self, key: Key) -> Entry | None:
        """Return the entry of the specialization with ``key``; None if the cache has no such entry.

        The caller becomes a user of the entry, and has to ``release`` it.

        Raises:
            TargetError: if the pool is closed.
        """
        with self._lock:
            if self._is_closed:
                raise TargetError("the model is closed: compile or load it again")
            entry = self._entries.get(key)
            if entry is not None:
                entry.users += 1
                self._entries.move_to_end(key)
            return entry

    def acquire(self, key: Key) -> Entry:
        """Return the entry of the specialization with ``key``; compile it if the cache lacks it.

        The caller becomes a user of the entry, and has to ``release`` it.

        Raises:
            RammerError: if the specialization cannot be compiled, or the pool is closed.
        """
        entry = self.find(key)
        if entry is not None:
            return entry
        with self._making:
            entry = self.find(key)  # another thread may have compiled it
            if entry is None:
                entry = self._keep(key, Entry(self._make(key), users=1))
        return entry

    def _keep(self, key: Key, entry: Entry) -> Entry:
        with self._lock:
            dropped: list[Entry] = []
            if self._is_closed:  # closed by another thread meanwhile
                entry.is_dropped = True
            else:
                self._entries[key] = entry
                while len(self._entries) > self._limit:
                    dropped.append(self._entries.popitem(last=False)[1])
            unused = _drop(dropped)
        # Close without the lock: closing waits for threads to end.
        _close(unused)
        return entry

    def release(self, entry: Entry) -> None:
        """End a caller's use of an entry.

        If the entry was dropped from the cache and has no other users, its specialization is
        closed.
        """
        with self._lock:
            entry.users -= 1
            is_last = entry.is_dropped and entry.users == 0
        if is_last:
            entry.model.close()

    def close(self) -> None:
        """Close all specializations, each as soon as it has no users."""
        with self._lock:
            self._is_closed = True
            unused = _drop(list(self._entries.values()))
            self._entries.clear()
        _close(unused)

    def forget_threads(self) -> None:
        """Reset the locks and set all user counts to 0, in a forked child process.

        The child lacks the parent's threads, which might hold a lock or use a specialization.
        """
        self._lock, self._making = threading.Lock(), threading.Lock()
        # The parent's runs do not continue in the child, so nobody releases their entries.
        for entry in self._entries.values():
            entry.users = 0


def _drop(entries: list[Entry]) -> list[Entry]:
    """Mark entries as dropped; return the entries without users, for the caller to close."""
    for entry in entries:
        entry.is_dropped = True
    return [entry for entry in entries if entry.users == 0]


def _close(entries: list[Entry]) -> None:
    for entry in entries:
        entry.model.close()
