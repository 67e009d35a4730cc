"""Members of an artifact, and numbers from them; every number is taken as hostile."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.errors import ArtifactError, ScheduleError

Int64Array = NDArray[np.int64]

FORMAT, VERSION = "rammer-mlir", 5

LARGEST = 1 << 48
"""Sums of some numbers of this size stay far below 64 bits."""

_MOST_BYTES = 1 << 24
"""Of a member that is read; those of the largest benchmark model have less than 2 MiB."""


MOST = 1 << 23
"""Entries of any list that is made here; those of real programs have some 10**6 at most."""


class Archive:
    """The artifact's members by name."""

    def __init__(self, file: zipfile.ZipFile, path: Path) -> None:
        self._file, self._path = file, path

    def read(self, name: str) -> bytes:
        """Return a member's content."""
        if self.size(name) > _MOST_BYTES:
            raise ArtifactError(
                f"{name}: expected at most {_MOST_BYTES} bytes, found {self.size(name)}"
            )
        return self._file.read(name)

    def json(self, name: str) -> dict[str, Any]:
        """Return a member that holds a JSON object."""
        found = json.loads(self.read(name))
        if not isinstance(found, dict):
            raise ArtifactError(f"{name}: expected a JSON object, found {type(found).__name__}")
        return found

    def words(self, name: str, kind: str) -> Int64Array:
        """Return a member that holds an array of little-endian numbers."""
        return np.frombuffer(self.read(name), kind).astype(np.int64)

    def has(self, name: str) -> bool:
        """Whether there is such a member."""
        return name in self._file.namelist()

    def size(self, name: str) -> int:
        """Return how many bytes a member has, which are all there."""
        entry = self._file.getinfo(name)
        whole = self._path.stat().st_size
        stored = entry.compress_type == zipfile.ZIP_STORED
        if not stored or entry.file_size != entry.compress_size or entry.file_size > whole:
            raise ArtifactError(f"{name}: expected a stored member of at most {whole} bytes")
        return entry.file_size

    def manifest(self) -> dict[str, Any]:
        """Return the manifest of an artifact of this version."""
        found = self.json("manifest.json")
        given = found.get("format"), found.get("version")
        if given != (FORMAT, VERSION):
            raise ArtifactError(f"expected format {FORMAT} {VERSION}, found {given}")
        return found


def integers(values: Iterable[Any], what: str, limit: int = LARGEST) -> Int64Array:
    """Return whole numbers below a limit, and not negative."""
    found = list(values)
    if set(map(type, found)) - {int}:
        raise ArtifactError(f"{what}: expected whole numbers")
    if found and not 0 <= min(found) <= max(found) < limit:
        wrong = min(found) if min(found) < 0 else max(found)
        raise ArtifactError(f"{what}: expected numbers from 0 to {limit - 1}, found {wrong}")
    return np.array(found, dtype=np.int64)


def require_few(found: float, most: int, what: str) -> None:
    """Refuse what would take too much time or memory, whether it is right or not."""
    if found > most:
        raise ScheduleError(f"{what}: expected at most {most}, found {found:.0f}; tile coarser")


def starts(counts: Int64Array | list[int]) -> Int64Array:
    """Return where each of some lists begins that follow each other, and the end."""
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)))


def ranges(first: Int64Array, counts: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Return for all numbers ``first[i] + k``, ``k < counts[i]``: each ``i``, and each number."""
    require_few(float(counts.sum(dtype=float)), MOST, "entries of a list")
    owner = np.repeat(np.arange(len(counts)), counts)
    return owner, np.arange(len(owner)) + np.repeat(first - starts(counts)[:-1], counts)
