"""Stores the cache in a file: a bounded SQLite database, safe for concurrent processes.

Errors of the file never end a compilation: a damaged file is deleted and created again, and an
inaccessible file is left unchanged. A process warns only once about each kind of error of a file.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import get_ident
from typing import TypeVar

from rammer_mlir.compiler.caching.cache_rows import Entry, add, find_all, make_room, remove
from rammer_mlir.errors import ArtifactError, CacheWarning, RammerError
from rammer_mlir.support.log import log_cache
from rammer_mlir.support.user_warnings import warn_user

FILE = "cache.sqlite"

Parts = Mapping[str, str]
"""The components of a cache key by name; each is a text or a digest."""

_Result = TypeVar("_Result")

_Row = tuple[Sequence[object], Sequence[memoryview]]
"""A database row: the values of its columns, and the pieces of the bulk data in order."""

_VERSION = 1
"""Version of the database's schema; files of another version are created again."""

_SCHEMA = """
PRAGMA page_size = 65536;
PRAGMA auto_vacuum = INCREMENTAL;
PRAGMA journal_mode = WAL;
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS entries (
    number INTEGER PRIMARY KEY,
    level TEXT NOT NULL,
    key TEXT NOT NULL,
    parts TEXT NOT NULL,
    identity BLOB NOT NULL,
    content BLOB NOT NULL,
    bulk INTEGER NOT NULL,
    crc INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    seconds REAL NOT NULL,
    used INTEGER NOT NULL,
    UNIQUE (level, key)
);
CREATE INDEX IF NOT EXISTS by_use ON entries (used);
CREATE TABLE IF NOT EXISTS pieces (
    entry INTEGER NOT NULL,
    number INTEGER NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (entry, number)
);
PRAGMA user_version = 1;
COMMIT;
"""

_TIMEOUT = 10.0
"""Seconds to wait for another process that writes to the cache file."""

_NEWEST = 64
"""Number of recently used entries that ``nearest`` compares with a missing key."""

_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_SCHEMA)

_BARRED = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)

_WARNED: set[tuple[Path, str]] = set()
"""Files and problems that this process has already warned about."""


@dataclass(frozen=True)
class Kept:
    """The description of a cache entry: level, key, size, and compile time in seconds."""

    level: str
    key: str
    num_bytes: int
    seconds: float


def _is_damage(error: Exception) -> bool:
    """Whether an error at loading an entry shows that the entry is damaged.

    Any other error is caused by the machine, such as a full disk or a missing driver; the entry may
    be loaded at another time, or by another process.
    """
    if isinstance(error, OSError) or isinstance(error.__cause__, OSError):
        return False
    return isinstance(error, ArtifactError) or not isinstance(error, RammerError)


class CacheFile:
    """The compile cache as a single file, which stores bytes by cache level and key.

    The first stored entry creates the file.
    """

    def __init__(self, folder: Path, limit: int) -> None:
        """Use the file ``FILE`` in ``folder``, for entries of at most ``limit`` bytes in total."""
        self.path, self._limit = folder / FILE, limit
        self._kept_open: dict[int, sqlite3.Connection | None] = {}

    @contextmanager
    def kept_open(self) -> Generator[None]:
        """Return a context in which all calls of the current thread share one open connection.

        To open and close the file takes longer than to read a small entry.
        """
        thread = get_ident()
        self._kept_open[thread] = None
        try:
            yield
        finally:
            database = self._kept_open.pop(thread)
            if database is not None:
                database.close()

    def find(self, level: str, key: str) -> Entry | None:
        """Return the entry with ``key`` in ``level``, or None; mark the entry as recently used."""
        return self.find_all(level, (key,)).get(key)

    def find_all(self, level: str, keys: Sequence[str]) -> dict[str, Entry]:
        """Return the entries in ``level`` by key, and mark them as most recently used.

        Keys without an entry are left out.
        """
        nothing: dict[str, Entry] = {}
        return self._read(lambda database: find_all(database, level, keys), nothing)

    def keep(
        self,
        level: str,
        key: str,
        content: bytes | memoryview,
        *,
        bulk: Sequence[memoryview] = (),
        identity: bytes = b"",
        parts: Parts | None = None,
        seconds: float = 0.0,
    ) -> bool:
        """Store an entry, replacing an older entry of the same key; return whether it was stored.

        The least recently used entries are evicted to make room. An entry larger than the whole
        cache is not stored.

        Args:
            level: level of the cache.
            key: the entry's key, a digest.
            content: the data to store.
            bulk: pieces of large data such as weights, concatenated in the entry.
            identity: the data of which ``key`` is a hash, for levels that compare these data at a
                hit; else empty.
            parts: named components of the key, for ``nearest``.
            seconds: seconds that producing the content took.
        """
        large = sum(piece.nbytes for piece in bulk)
        size = len(content) + large + len(identity)
        row = (level, key, json.dumps(dict(parts or {})), identity, content, large, size, seconds)
        return self._keep(level, size, {key: (row, bulk)})

    def keep_all(self, level: str, contents: Mapping[str, bytes]) -> bool:
        """Store either all or none of several entries, by key; return whether they were stored."""
        rows = {
            key: ((level, key, "{}", b"", content, 0, len(content), 0.0), ())
            for key, content in contents.items()
        }
        return self._keep(level, sum(map(len, contents.values())), rows)

    def _keep(self, level: str, size: int, rows: Mapping[str, _Row]) -> bool:
        """Write database rows, by key, in one transaction; return whether this succeeded.

        Existing rows of the same level and keys are replaced. ``size`` is the total size of the
        rows in bytes.
        """
        if size > self._limit:
            log_cache(f"{level}: not kept, {size} bytes are more than {self._limit}")
            return False

        def write(database: sqlite3.Connection) -> bool:
            with database:
                database.execute("BEGIN IMMEDIATE")
                for key in rows:
                    remove(database, level, key)
                make_room(database, self._limit - size)
                for row, bulk in rows.values():
                    add(database, row, bulk)
            database.execute("PRAGMA incremental_vacuum").fetchall()
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            return True

        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            self._warn("cannot be written", error.strerror or str(error))
            return False
        return self._with_database(write, False)

    def remove(self, level: str, key: str) -> None:
        """Remove the entry of a level and key, if there is one."""

        def write(database: sqlite3.Connection) -> None:
            with database:
                remove(database, level, key)

        self._with_database(write, None)

    def report_unloadable(self, level: str, key: str, error: Exception) -> None:
        """Log the error at loading an entry; remove the entry if it is damaged."""
        if _is_damage(error):
            log_cache(f"{level}: miss, damaged entry {key} removed: {error}")
            self.remove(level, key)
        else:
            log_cache(f"{level}: miss, entry {key} cannot be loaded here: {error}")

    def nearest(self, level: str, parts: Parts) -> Parts | None:
        """Return the key components of the entry whose key is most similar to ``parts``.

        Only the most recently used entries in ``level`` are compared. Similarity is the count of
        equal components. Return None if the level has no entry.
        """

        def read(database: sqlite3.Connection) -> Parts | None:
            query = "SELECT parts FROM entries WHERE level = ? ORDER BY used DESC LIMIT ?"
            rows: list[tuple[str]] = database.execute(query, (level, _NEWEST)).fetchall()
            found = (_parts(text) for (text,) in rows)
            known = [each for each in found if each is not None]
            return max(known, key=lambda other: _agreement(parts, other), default=None)

        return self._read(read, None)

    def kept(self) -> list[Kept]:
        """Return descriptions of all entries, least recently used first."""

        def read(database: sqlite3.Connection) -> list[Kept]:
            query = "SELECT level, key, bytes, seconds FROM entries ORDER BY used"
            return [Kept(*row) for row in database.execute(query)]

        return self._read(read, [])

    def _read(self, work: Callable[[sqlite3.Connection], _Result], nothing: _Result) -> _Result:
        try:
            if not self.path.is_file():
                return nothing
        except OSError as error:
            self._warn("cannot be read", error.strerror or str(error))
            return nothing
        return self._with_database(work, nothing)

    def _with_database(
        self, work: Callable[[sqlite3.Connection], _Result], nothing: _Result
    ) -> _Result:
        """Call ``work`` with a connection and return its result, or ``nothing`` after an error.

        A file that is damaged or of another version is deleted. If another process locks the file,
        this is logged. Any other error causes a warning.
        """
        try:
            with self._connection() as database:
                return work(database)
        except sqlite3.Error as error:
            code = (getattr(error, "sqlite_errorcode", None) or sqlite3.SQLITE_ERROR) & 0xFF
            if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                log_cache(f"'{self.path}' is busy")
            # SQLITE_ERROR stands for another version, and for missing tables or columns.
            elif code in _DAMAGE or code == sqlite3.SQLITE_ERROR:
                self._begin_anew(str(error))
            else:
                self._warn("cannot be used", str(error))
        return nothing

    @contextmanager
    def _connection(self) -> Generator[sqlite3.Connection]:
        """Yield the connection of ``kept_open``, or else a new one that is closed afterwards."""
        thread = get_ident()
        if thread not in self._kept_open:
            with closing(self._opened()) as database:
                yield database
            return
        database = self._kept_open[thread] or self._opened()
        self._kept_open[thread] = database
        try:
            yield database
        except sqlite3.Error:
            # A damaged file is deleted, and the next call opens another one.
            self._kept_open[thread] = None
            database.close()
            raise

    def _opened(self) -> sqlite3.Connection:
        """Open the file and return the connection, which is read-only for a read-only file.

        Raise DatabaseError if the file cannot be opened or is of another version.
        """
        database = sqlite3.connect(self.path, timeout=_TIMEOUT)
        try:
            (version,) = database.execute("PRAGMA user_version").fetchone()
            if version != _VERSION:
                if version:
                    raise sqlite3.DatabaseError(f"version {version}, expected {_VERSION}")
                database.executescript(_SCHEMA)
            # A power failure may damage the file without this; it is then created again.
            database.execute("PRAGMA synchronous = OFF")
        except sqlite3.OperationalError as error:
            database.close()
            if (error.sqlite_errorcode & 0xFF) not in _BARRED or not self.path.exists():
                raise
            # A read-only folder has no write-ahead log, and nobody writes the file there.
            place = f"{self.path.absolute().as_uri()}?mode=ro&immutable=1"
            return sqlite3.connect(place, uri=True)
        except BaseException:
            database.close()
            raise
        return database

    def _begin_anew(self, problem: str) -> None:
        self._warn("is damaged and is made anew", problem)
        for ending in ("-wal", "-shm", ""):
            try:
                self.path.with_name(FILE + ending).unlink(missing_ok=True)
            except OSError as error:
                self._warn("cannot be removed", error.strerror or str(error))

    def _warn(self, what: str, problem: str) -> None:
        if (self.path, what) not in _WARNED:
            _WARNED.add((self.path, what))
            message = (
                f"the cache '{self.path}' {what} ({problem}); the compilation goes on; name "
                "another folder in RAMMER_CACHE_DIR, or leave it empty to do without"
            )
            warn_user(message, CacheWarning)


def _parts(text: object) -> Parts | None:
    """Return the key components that an entry has as text; None if they are damaged."""
    try:
        found = json.loads(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _agreement(parts: Parts, other: Parts) -> int:
    return sum(other.get(name) == value for name, value in parts.items())
