"""Caches measured times in an SQLite file that many processes may use at the same time.

A failure of the cache causes a warning and never stops a compilation: a time that cannot be read is
measured again, and a time that cannot be written is lost for the next process.
"""

from __future__ import annotations

import math
import os
import sqlite3
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import TypeVar

from rammer_mlir.scheduling.graph import MeasuredSeconds
from rammer_mlir.support.user_folder import user_folder

_Result = TypeVar("_Result")

ENVIRONMENT = "RAMMER_PROFILES"
"""Environment variable that names the cache's file."""

_TIMEOUT = 30.0
"""Seconds that a process waits for other writers."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS profiles (
    key TEXT PRIMARY KEY, hot REAL NOT NULL, cold REAL NOT NULL, far REAL NOT NULL,
    measured TEXT NOT NULL
) WITHOUT ROWID
"""
_AT_ONCE = 500
"""Number of keys per query; SQLite limits the number of parameters."""


class ProfileWarning(UserWarning):
    """Warning that the cache of measured times cannot be read or written, with the reason."""


def default_path() -> Path:
    """Return the path of the file in which measured times are cached by default.

    The environment variable ``RAMMER_PROFILES`` has the path; if the variable is not set, the file
    is in the user's cache folder.
    """
    named = os.environ.get(ENVIRONMENT)
    if named:
        return Path(named)
    return user_folder() / "profiles.sqlite"


@dataclass(frozen=True)
class ProfileStore:
    """The cache of measured times, by key, in the file ``path``.

    A key is a digest of an rKernel, the processor, and the versions of the compiler's packages.
    The file is open only during a call, so that a ``ProfileStore`` can be pickled.
    """

    path: Path

    def find(self, keys: Iterable[str]) -> dict[str, MeasuredSeconds]:
        """Return the cached times by key; keys that are not in the cache are left out."""
        wanted = list(keys)
        try:
            if not self.path.exists():
                return {}
        except OSError as error:
            warnings.warn(
                f"measured times in '{self.path}' cannot be read ({error.strerror})",
                ProfileWarning, stacklevel=2,
            )  # fmt: skip
            return {}

        def read(database: sqlite3.Connection) -> dict[str, MeasuredSeconds]:
            found: dict[str, MeasuredSeconds] = {}
            for begin in range(0, len(wanted), _AT_ONCE):
                some = wanted[begin : begin + _AT_ONCE]
                marks = ",".join("?" * len(some))
                query = f"SELECT key, hot, cold, far FROM profiles WHERE key IN ({marks})"
                rows = database.execute(query, some)
                found.update((row[0], MeasuredSeconds(*row[1:])) for row in rows)
            return found

        found = self._with_database(read) or {}
        return {key: seconds for key, seconds in found.items() if _is_sensible(seconds)}

    def add(self, measured: Mapping[str, MeasuredSeconds]) -> None:
        """Store measurements, replacing earlier ones of the same keys."""
        if not measured:
            return
        rows = [(key, *astuple(seconds)) for key, seconds in measured.items()]
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            self._warn(f"cannot be written ({error.strerror or error})")
            return

        def write(database: sqlite3.Connection) -> None:
            with database:  # one transaction
                database.execute(_SCHEMA)
                database.executemany(
                    "INSERT OR REPLACE INTO profiles VALUES (?, ?, ?, ?, datetime('now'))", rows
                )

        self._with_database(write)

    def _with_database(self, work: Callable[[sqlite3.Connection], _Result]) -> _Result | None:
        """Call ``work`` with a connection to the database; return the result of ``work``.

        On an SQLite error, return None and warn. There is no warning if the table is missing, which
        is normal for a new file. A file that is not a database of this schema is renamed.
        """
        try:
            with closing(sqlite3.connect(self.path, timeout=_TIMEOUT)) as database:
                return work(database)
        except sqlite3.Error as error:
            busy_or_barred = isinstance(error, sqlite3.OperationalError)
            if not busy_or_barred or "column" in str(error):
                self._warn(f"is not one ({error}); it is begun anew")
                self._set_aside()
            # otherwise the file is new, without a table yet
            elif "no such table" not in str(error):
                self._warn(f"cannot be used ({error})")
        return None

    def _set_aside(self) -> None:
        """Rename the cache's file, which is corrupt, so that the cache starts empty.

        Warn if renaming fails, for example because another process has already renamed the file.
        """
        try:
            self.path.replace(self.path.with_name(f"{self.path.name}.corrupt"))
        except OSError as error:
            self._warn(f"cannot be begun anew ({error.strerror or error})")

    def _warn(self, what: str) -> None:
        message = (
            f"cache of measured times '{self.path}' {what}; delete it, or name another file in "
            f"{ENVIRONMENT}"
        )
        warnings.warn(message, ProfileWarning, stacklevel=3)


def _is_sensible(seconds: MeasuredSeconds) -> bool:
    return all(isinstance(n, float) and math.isfinite(n) and n > 0 for n in astuple(seconds))
