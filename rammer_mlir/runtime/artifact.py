"""Artifacts: a compiled model in one file that runs without a compiler.

The file is a ZIP archive of uncompressed members: ``manifest.json``, ``code.so``, the task table,
and ``constants.bin``. Each begins at a multiple of 64 bytes: constants are mapped, not read.
"""

from __future__ import annotations

import dataclasses
import json
import platform
import struct
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.aligned import ALIGNMENT
from rammer_mlir.atomic_file import open_atomically
from rammer_mlir.cpu_features import cpu_features
from rammer_mlir.errors import ArtifactError
from rammer_mlir.image import CpuImage, Slot, TaskTable, TraceItem
from rammer_mlir.signature import Signature, TensorSpec

FORMAT, VERSION = "rammer-mlir", 1

_MANIFEST, _CODE, _CONSTANTS, _ITEMS = "manifest.json", "code.so", "constants.bin", "items.json"
_TABLE = {"records": np.int32, "starts": np.int32, "arguments": np.int32, "totals": np.int64}
_LOCAL_HEADER = 30
_LARGE, _LARGE_FIELD = 1 << 31, 20
"""Bytes from which a member gets a ZIP64 field, and that field's size."""

_PADDING_FIELD = 0xD935
"""Identifies an extra field that only aligns what follows (as Android's zipalign uses it)."""


_DAMAGE = (
    zipfile.BadZipFile, zlib.error, LookupError, ValueError, TypeError, AttributeError, EOFError,
    NotImplementedError, RuntimeError, struct.error,
)  # fmt: skip
"""What reading a file that is not a whole artifact can raise."""


def write_artifact(path: Path, image: CpuImage, code: bytes) -> None:
    """Write a compiled program and its shared library.

    Raises:
        ArtifactError: if the file cannot be written.
    """
    with open_atomically(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        _add(archive, file, _MANIFEST, json.dumps(_manifest(image), indent=1).encode())
        _add(archive, file, _CODE, code)
        for name in _TABLE:
            _add(archive, file, f"{name}.bin", getattr(image.table, name).tobytes())
        items = [[dataclasses.astuple(item) for item in veu] for veu in image.table.items]
        _add(archive, file, _ITEMS, json.dumps(items).encode())
        _add(archive, file, _CONSTANTS, image.constants.data)


def _add(archive: zipfile.ZipFile, file: IO[bytes], name: str, data: bytes | memoryview) -> None:
    """Add a member whose data begins at a multiple of the alignment."""
    entry = zipfile.ZipInfo(name)
    is_large = len(data) >= _LARGE
    fixed = file.tell() + _LOCAL_HEADER + len(name) + 4 + is_large * _LARGE_FIELD
    padding = -fixed % ALIGNMENT
    entry.extra = struct.pack("<HH", _PADDING_FIELD, padding) + bytes(padding)
    with archive.open(entry, "w", force_zip64=is_large) as member:
        member.write(data)


def _manifest(image: CpuImage) -> dict[str, Any]:
    def specs(tensors: tuple[TensorSpec, ...]) -> list[dict[str, Any]]:
        return [{"name": t.name, "shape": t.shape, "dtype": str(t.dtype)} for t in tensors]

    return {
        "format": FORMAT,
        "version": VERSION,
        "target": "cpu",
        "machine": image.machine,
        "features": image.features,
        "num_veus": image.num_veus,
        "arena_bytes": image.arena_bytes,
        "inputs": specs(image.signature.inputs),
        "outputs": specs(image.signature.outputs),
        "slots": [dataclasses.astuple(slot) for slot in image.slots],
        "summary": image.summary,
    }


def read_artifact(path: Path) -> tuple[CpuImage, bytes]:
    """Read a compiled program and its shared library.

    Raises:
        ArtifactError: if the file is missing, foreign, corrupt, of another version, or made for
            a machine that this is not.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            damaged = archive.testzip()
            if damaged is not None:
                raise ArtifactError(f"'{path}' is corrupt in '{damaged}': compile the model again")
            manifest = _checked_manifest(path, archive)
            return _image(path, archive, manifest), archive.read(_CODE)
    except OSError as error:
        raise ArtifactError(f"cannot read '{path}': {error.strerror or error}") from error
    except _DAMAGE as error:
        raise ArtifactError(
            f"'{path}' is not a compiled model or is damaged ({error}): expected a file that "
            "rammer-compile wrote"
        ) from error


def _checked_manifest(path: Path, archive: zipfile.ZipFile) -> dict[str, Any]:
    manifest: Any = json.loads(archive.read(_MANIFEST))
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise ArtifactError(
            f"'{path}' is not a compiled model: expected a file that rammer-compile wrote"
        )
    if manifest["version"] != VERSION:
        raise ArtifactError(
            f"'{path}' has format version {manifest['version']}: expected {VERSION}; compile the "
            "model again with this version"
        )
    if manifest["machine"] != platform.machine():
        raise ArtifactError(
            f"'{path}' was compiled for {manifest['machine']}, and this machine is "
            f"{platform.machine()}: compile the model here"
        )
    missing = sorted(set(manifest["features"]) - set(cpu_features()))
    if missing:
        raise ArtifactError(
            f"'{path}' needs a processor with {', '.join(missing)}, which this one lacks: compile "
            "the model here"
        )
    return manifest


def _image(path: Path, archive: zipfile.ZipFile, manifest: Mapping[str, Any]) -> CpuImage:
    def specs(entries: list[dict[str, Any]]) -> tuple[TensorSpec, ...]:
        return tuple(TensorSpec(e["name"], tuple(e["shape"]), _dtype(e["dtype"])) for e in entries)

    def integers(name: str) -> NDArray[Any]:
        return np.frombuffer(archive.read(f"{name}.bin"), dtype=_TABLE[name])

    items = tuple(
        tuple(TraceItem(*item) for item in veu) for veu in json.loads(archive.read(_ITEMS))
    )
    return CpuImage(
        signature=Signature(specs(manifest["inputs"]), specs(manifest["outputs"])),
        num_veus=manifest["num_veus"],
        slots=tuple(Slot(*slot) for slot in manifest["slots"]),
        constants=_mapped(path, archive),
        arena_bytes=manifest["arena_bytes"],
        table=TaskTable(*(integers(name) for name in _TABLE), items=items),
        features=tuple(manifest["features"]),
        machine=manifest["machine"],
        summary=manifest["summary"],
    )


def _dtype(name: str) -> np.dtype[np.generic]:
    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, name))


def _mapped(path: Path, archive: zipfile.ZipFile) -> NDArray[np.uint8]:
    """Map the constants' member of the file into memory."""
    entry = archive.getinfo(_CONSTANTS)
    if entry.file_size == 0:
        return np.zeros(0, dtype=np.uint8)
    with path.open("rb") as file:
        file.seek(entry.header_offset + 26)
        name_length, extra_length = struct.unpack("<HH", file.read(4))
    start = entry.header_offset + _LOCAL_HEADER + name_length + extra_length
    return np.memmap(path, np.uint8, "r", start, (entry.file_size,))
