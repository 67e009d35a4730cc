"""Artifacts: a compiled model in one file that runs without a compiler.

The file is a ZIP archive of uncompressed members: ``manifest.json``, the code (``code.so`` for a
CPU; ``code.cubin``, ``code.ptx`` or ``code.hsaco`` for a GPU), the schedule, and ``constants.bin``.
Each begins at a multiple of 64 bytes: large constants are mapped, not read. The manifest's seal is
over all of them.
"""

from __future__ import annotations

import json
import struct
import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rammer_mlir.errors import ArtifactError
from rammer_mlir.programs.cpu_image import CpuImage
from rammer_mlir.programs.gpu_image import GpuImage
from rammer_mlir.runtime import cpu_parts, gpu_parts
from rammer_mlir.runtime.archive import add_member, is_as_written, map_member
from rammer_mlir.runtime.parts import Members
from rammer_mlir.runtime.seal import SEAL, Content, seal_of
from rammer_mlir.support.atomic_file import open_atomically

FORMAT, VERSION = "rammer-mlir", 5

Image = CpuImage | GpuImage

_MANIFEST, _CONSTANTS = "manifest.json", "constants.bin"
_DAMAGE = (
    zipfile.BadZipFile, zlib.error, LookupError, ValueError, TypeError, AttributeError, EOFError,
    NotImplementedError, RuntimeError, struct.error,
)  # fmt: skip
"""What reading a file that is not a whole artifact can raise."""


@dataclass(frozen=True)
class _CodeKind:
    """How programs with one kind of code are read.

    Attributes:
        check: raises ``ArtifactError`` if this machine is not the manifest's.
        read: makes the image from the members.
    """

    check: Callable[[Path, Mapping[str, Any]], None]
    read: Callable[[Members], Image]


_CPU = _CodeKind(cpu_parts.check_machine, cpu_parts.read_image)
_GPU = _CodeKind(gpu_parts.check_machine, gpu_parts.read_image)
_CODE_KINDS = {"so": _CPU, "cubin": _GPU, "ptx": _GPU, "hsaco": _GPU}
"""By the last part of the code member's name."""


@dataclass(frozen=True)
class Artifact:
    """What a file holds.

    Attributes:
        image: the program's data.
        code: what a processor executes.
        stats: what the compiler measured.
    """

    image: Image
    code: bytes
    stats: Mapping[str, Any]


def write_artifact(path: Path, artifact: Artifact) -> None:
    """Write a compiled program.

    Raises:
        ArtifactError: if the file cannot be written.
    """
    image = artifact.image
    if isinstance(image, CpuImage):
        kind, parts = "so", cpu_parts.write_image(image)
    else:
        kind, parts = image.code_kind, gpu_parts.write_image(image)
    manifest = {"format": FORMAT, "version": VERSION, "code": kind, **parts.manifest}
    manifest["stats"] = dict(artifact.stats)
    members = {f"code.{kind}": artifact.code, **parts.members, _CONSTANTS: image.constants.data}
    contents = (Content(name, len(data), zlib.crc32(data)) for name, data in members.items())
    manifest[SEAL] = seal_of(manifest, contents)
    with open_atomically(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        add_member(archive, file, _MANIFEST, json.dumps(manifest, indent=1).encode())
        for name, data in members.items():
            add_member(archive, file, name, data)


def read_artifact(path: Path, *, mapped: bool = True) -> Artifact:
    """Read a compiled program.

    Args:
        path: the file.
        mapped: map large constants into memory; they are read if not.

    Raises:
        ArtifactError: if the file is missing, foreign, corrupt, of another version, made for a
            machine that this is not, or not what was written.
    """
    try:
        with path.open("rb") as file, zipfile.ZipFile(file) as archive:
            if not is_as_written(archive, file):
                raise ArtifactError(_changed(path))
            damaged = archive.testzip()
            if damaged is not None:
                raise ArtifactError(f"'{path}' is corrupt in '{damaged}': compile the model again")
            manifest = _checked_manifest(path, archive)
            kind = _CODE_KINDS[manifest["code"]]
            kind.check(path, manifest)
            _check_seal(path, manifest, archive)
            constants = map_member(archive, file, _CONSTANTS, mapped=mapped)
            image = kind.read(Members(manifest, archive.read, constants))
            code = archive.read(f"code.{manifest['code']}")
            return Artifact(image, code, dict(manifest["stats"]))
    except OSError as error:
        raise ArtifactError(f"cannot read '{path}': {error.strerror or error}") from error
    except _DAMAGE as error:
        raise ArtifactError(
            f"'{path}' is not a compiled model or is damaged ({error}): expected a file that "
            "rammer-compile wrote"
        ) from error


def _changed(path: Path) -> str:
    return (
        f"'{path}' was changed since it was compiled: expected a file as rammer-compile wrote it; "
        "compile the model again"
    )


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
    return manifest


def _check_seal(path: Path, manifest: Mapping[str, Any], archive: zipfile.ZipFile) -> None:
    others = (entry for entry in archive.infolist() if entry.filename != _MANIFEST)
    contents = (Content(entry.filename, entry.file_size, entry.CRC) for entry in others)
    if manifest.get(SEAL) != seal_of(manifest, contents):
        raise ArtifactError(_changed(path))
