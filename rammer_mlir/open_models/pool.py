"""Specialisations in memory: made when first asked for, the least recently used closed."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from rammer_mlir.errors import TargetError
from rammer_mlir.programs.dimensions import Shape
from rammer_mlir.runtime.compiled import RunnableModel

Key = tuple[Shape | bytes, ...]
"""The shape of each input, in the signature's order, and the bytes of each shape value: what names
a specialisation.
"""


@dataclass(eq=False)
class Entry:
    """A specialisation, and the number of callers that use it; a dropped one is closed by the
    last of them.
    """

    model: RunnableModel
    users: int = 0
    is_dropped: bool = False


class Pool:
    """Up to ``limit`` specialisations, for several threads at once.

    One is made at a time, while others run.
    """

    def __init__(self, make: Callable[[Key], RunnableModel], limit: int) -> None:
        """Take what makes a specialisation."""
        self._make, self._limit = make, limit
        self._entries: OrderedDict[Key, Entry] = OrderedDict()
        self._is_closed = False
        self._lock, self._making = threading.Lock(), threading.Lock()

    def keys(self) -> list[Key]:
        """Return what is in memory, the least recently used first."""
        with self._lock:
            return list(self._entries)

    def models(self) -> list[RunnableModel]:
        """Return the specialisations in memory."""
        with self._lock:
            return [entry.model for entry in self._entries.values()]

    def find(self, key: Key) -> Entry | None:
        """Return what is in memory, for one user more; None if it is not.

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
        """Return a specialisation, made if it is not in memory, for one user more.

        Raises:
            RammerError: if it cannot be made, or the pool is closed.
        """
        entry = self.find(key)
        if entry is not None:
            return entry
        with self._making:
            entry = self.find(key)  # another thread may have made it
            if entry is None:
                entry = self._keep(key, Entry(self._make(key), users=1))
        return entry

    def _keep(self, key: Key, entry: Entry) -> Entry:
        with self._lock:
            dropped: list[Entry] = []
            if self._is_closed:  # meanwhile
                entry.is_dropped = True
            else:
                self._entries[key] = entry
                while len(self._entries) > self._limit:
                    dropped.append(self._entries.popitem(last=False)[1])
            unused = _drop(dropped)
        _close(unused)
        return entry

    def release(self, entry: Entry) -> None:
        """Take back one user."""
        with self._lock:
            entry.users -= 1
            is_last = entry.is_dropped and entry.users == 0
        if is_last:
            entry.model.close()

    def close(self) -> None:
        """Close all specialisations, each when nobody uses it any more."""
        with self._lock:
            self._is_closed = True
            unused = _drop(list(self._entries.values()))
            self._entries.clear()
        _close(unused)

    def forget_threads(self) -> None:
        """Start afresh in a forked child: the threads that hold locks did not come along."""
        self._lock, self._making = threading.Lock(), threading.Lock()
        for entry in self._entries.values():
            entry.users = 0


def _drop(entries: list[Entry]) -> list[Entry]:
    """Mark entries as dropped, and return those without users."""
    for entry in entries:
        entry.is_dropped = True
    return [entry for entry in entries if entry.users == 0]


def _close(entries: list[Entry]) -> None:
    for entry in entries:
        entry.model.close()
