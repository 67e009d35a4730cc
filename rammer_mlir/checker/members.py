"""Members of an artifact: of its only program, or of each of several."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rammer_mlir.errors import ArtifactError, ScheduleError

MOST_BYTES, _LARGEST = 1 << 24, 1 << 48
"""Limits of a member that is read, and of the constants; the largest members have 2 MiB."""

_MOST_PROGRAMS = 1 << 12

_ALIGNMENT = 64

_SINGLE, _SEVERAL = 5, 6
"""Format versions of files of one program and of several."""


@dataclass(frozen=True)
class Members:
    """The members of one program.

    Attributes:
        file: the archive.
        manifest: what the manifest says of the program.
        folder: how its members' names begin.
        parts: bytes of each part of its constants, which follow each other.
    """

    file: zipfile.ZipFile
    manifest: Mapping[str, Any]
    folder: str
    parts: tuple[int, ...]

    def read(self, name: str) -> bytes:
        """Return the content of a member."""
        return self.file.read(_entry(self.file, self.folder + name))


def programs_of(file: zipfile.ZipFile) -> list[Members]:
    """Return the programs of a file; several have shapes that tell them from each other.

    Raises:
        ArtifactError: if it is no artifact of a known version.
        ScheduleError: if a program is not one of the model, or its constants are not in the file.
    """
    manifest = json.loads(file.read(_entry(file, "manifest.json")))
    if manifest["format"] != "rammer-mlir" or manifest["version"] not in (_SINGLE, _SEVERAL):
        raise ArtifactError(
            f"manifest.json: expected an artifact of version {_SINGLE} or {_SEVERAL}"
        )
    size = _entry(file, "constants.bin", _LARGEST).file_size
    if manifest["version"] == _SINGLE:
        return [Members(file, manifest, "", (size,))]
    entries = manifest["specializations"]
    if not 1 <= len(entries) <= _MOST_PROGRAMS:
        raise ArtifactError(f"manifest.json: expected 1 to {_MOST_PROGRAMS} programs")
    _check_shapes(manifest, entries)
    return [Members(file, each, str(each["folder"]), _parts(each, size)) for each in entries]


def _entry(file: zipfile.ZipFile, name: str, most: int = MOST_BYTES) -> zipfile.ZipInfo:
    """Return the entry of a member that is stored as it is, all of it."""
    entry, whole = file.getinfo(name), min(most, Path(str(file.filename)).stat().st_size)
    if entry.compress_type or entry.file_size != entry.compress_size or entry.file_size > whole:
        raise ArtifactError(f"{name}: expected a stored member of at most {whole} bytes")
    return entry


def _parts(entry: Mapping[str, Any], size: int) -> tuple[int, ...]:
    """Return the bytes of each part of a program's constants, all of which are in the file."""
    if any(type(number) is not int for row in entry["constants"] for number in row):
        raise ArtifactError("manifest.json: expected whole numbers for constants")
    for start, length in entry["constants"]:
        aligned = not start % _ALIGNMENT and not length % _ALIGNMENT
        if not aligned or start < 0 or not 0 < length <= size - start:
            raise ScheduleError(
                f"rule 5 (memory): expected constants at multiples of {_ALIGNMENT} in {size} "
                f"bytes, found {length} from byte {start} on"
            )
    return tuple(length for _, length in entry["constants"])


def _check_shapes(manifest: Mapping[str, Any], entries: Sequence[Mapping[str, Any]]) -> None:
    """Check that arrays choose at most one program, whose inputs they then fit."""
    known: dict[str, int] = {}
    for number, entry in enumerate(entries):
        sizes: dict[str, int] = {}
        for tensor, given in zip(manifest["inputs"], entry["inputs"], strict=True):
            if not _fits(tensor, given, sizes):
                raise ScheduleError(
                    f"rule 7 (bound): program {number}: expected input {str(tensor)[:80]}, found "
                    f"{str(given)[:80]}"
                )
        other = known.setdefault(json.dumps([given["shape"] for given in entry["inputs"]]), number)
        if other != number:
            raise ScheduleError(
                f"rule 7 (bound): programs {other} and {number} are for inputs of equal shapes: "
                "expected one for each binding"
            )


def _fits(tensor: Mapping[str, Any], given: Mapping[str, Any], sizes: dict[str, int]) -> bool:
    """Whether an input is one of the model's, and symbols have the sizes that they had before."""
    if (tensor["name"], tensor["dtype"]) != (given["name"], given["dtype"]):
        return False
    if tensor["shape"] is None:
        return True
    same = len(tensor["shape"]) == len(given["shape"])
    return same and all(
        size == (sizes.setdefault(dim, size) if isinstance(dim, str) else dim)
        for dim, size in zip(tensor["shape"], given["shape"], strict=True)
    )
