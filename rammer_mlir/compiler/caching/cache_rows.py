"""Reads and writes the rows of the cache's database: entries, and pieces of their bulk data."""

from __future__ import annotations

import contextlib
import sqlite3
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.support.aligned import aligned_bytes
from rammer_mlir.support.log import log_cache

_PIECE = 4 << 20
"""Most bytes of bulk data in a database row: they stay in the cache from CRC to write."""


@dataclass(frozen=True)
class Entry:
    """An entry of the cache.

    Attributes:
        identity: the data of which the key is a hash, for levels that compare these data at a hit;
            else empty.
        content: the stored data without bulk data.
        bulk: large data such as weights, uint8, aligned to 64 bytes; may be empty.
        seconds: seconds that producing the entry took.
    """

    identity: bytes
    content: bytes
    bulk: NDArray[np.uint8]
    seconds: float

    @property
    def num_bytes(self) -> int:
        """The size of the whole entry in bytes."""
        return len(self.identity) + len(self.content) + self.bulk.nbytes


def find_all(database: sqlite3.Connection, level: str, keys: Sequence[str]) -> dict[str, Entry]:
    """Return the entries in ``level`` by key, and mark them as most recently used.

    Keys without an entry are left out.
    """
    found: dict[str, Entry] = {}
    used: list[tuple[int]] = []
    for key in keys:
        row = _entry(database, level, key)
        if row is not None:
            found[key] = row[1]
            used.append((row[0],))
    with contextlib.suppress(sqlite3.OperationalError), database:  # the update is optional
        database.executemany(
            "UPDATE entries SET used = (SELECT max(used) + 1 FROM entries) WHERE number = ?", used
        )
    return found


def _entry(database: sqlite3.Connection, level: str, key: str) -> tuple[int, Entry] | None:
    """Return the entry with ``key`` in ``level``, and the number that identifies its row.

    Return None if there is no such entry. A damaged entry is removed, and counts as missing.
    """
    query = (
        "SELECT number, identity, content, bulk, crc, seconds FROM entries "
        "WHERE level = ? AND key = ?"
    )
    row: tuple[int, object, object, int, int, float] | None
    row = database.execute(query, (level, key)).fetchone()
    if row is None:
        return None
    number, identity, content, size, crc, seconds = row
    if isinstance(identity, bytes) and isinstance(content, bytes):
        bulk = _bulk(database, number, size)
        if bulk is not None and _crc(identity, content, bulk.data) == crc:
            return number, Entry(identity, content, bulk, seconds)
    log_cache(f"{level}: damaged entry {key} removed")
    with database:
        _remove_number(database, number)
    return None


def _bulk(database: sqlite3.Connection, number: int, size: int) -> NDArray[np.uint8] | None:
    """Return the bulk data of the entry in row ``number``, concatenated from its stored pieces.

    Return None if the pieces do not have ``size`` bytes in total, because the entry is damaged.
    """
    query = "SELECT coalesce(sum(length(data)), 0) FROM pieces WHERE entry = ?"
    if database.execute(query, (number,)).fetchone() != (size,):
        return None
    bulk, end = aligned_bytes(size), 0
    rows = database.execute("SELECT data FROM pieces WHERE entry = ? ORDER BY number", (number,))
    for (data,) in rows:
        if not isinstance(data, bytes):
            return None
        begin, end = end, end + len(data)
        bulk[begin:end] = np.frombuffer(data, np.uint8)
    bulk.flags.writeable = False
    return bulk


def add(database: sqlite3.Connection, row: Sequence[object], bulk: Sequence[memoryview]) -> None:
    """Insert an entry with the column values ``row``, and the entry's bulk data.

    ``bulk`` has the bulk data in order. They are split into rows of at most 4 MiB.
    """
    query = (
        "INSERT INTO entries "
        "(level, key, parts, identity, content, bulk, bytes, seconds, crc, used) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0, (SELECT coalesce(max(used), 0) + 1 FROM entries))"
    )
    entry = database.execute(query, row).lastrowid
    *_, identity, content, _, _, _ = row
    assert isinstance(identity, bytes) and isinstance(content, bytes | memoryview)
    crc, number = _crc(identity, content), 0
    query = "INSERT OR REPLACE INTO pieces VALUES (?, ?, ?)"
    for whole in bulk:
        flat = whole.cast("B")
        for begin in range(0, len(flat), _PIECE):
            data = flat[begin : begin + _PIECE]
            crc = zlib.crc32(data, crc)
            database.execute(query, (entry, number, data))
            number += 1
    database.execute("UPDATE entries SET crc = ? WHERE number = ?", (crc, entry))


def _crc(*parts: bytes | memoryview) -> int:
    crc = 0
    for part in parts:
        crc = zlib.crc32(part, crc)
    return crc


def make_room(database: sqlite3.Connection, room: int) -> None:
    """Remove entries, least recently used first, until the rest fits in ``room`` bytes."""
    rows = database.execute("SELECT number, bytes FROM entries ORDER BY used").fetchall()
    used = sum(size for _, size in rows)
    for number, size in rows:
        if used <= room:
            break
        _remove_number(database, number)
        used -= size


def remove(database: sqlite3.Connection, level: str, key: str) -> None:
    """Remove the entry of a level and key, if there is one."""
    query = "SELECT number FROM entries WHERE level = ? AND key = ?"
    for (number,) in database.execute(query, (level, key)).fetchall():
        _remove_number(database, number)


def _remove_number(database: sqlite3.Connection, number: int) -> None:
    database.execute("DELETE FROM pieces WHERE entry = ?", (number,))
    database.execute("DELETE FROM entries WHERE number = ?", (number,))
