"""Writes and reads artifacts: a compiled model in one file that runs without a compiler.

The file is a ZIP archive of uncompressed members: ``manifest.json``, the code (``code.so`` for a
CPU; ``code.cubin``, ``code.ptx`` or ``code.hsaco`` for a GPU), the schedule, and ``constants.bin``.
Each member is aligned to 64 bytes, so that large constants can be memory-mapped. The manifest has a
seal: a hash that covers all members.
"""

from __future__ import annotations

import io
import json
import struct
import zipfile
import zlib
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.errors import ArtifactError
from rammer_mlir.programs.constants import Bytes, Constants
from rammer_mlir.programs.cpu_image import CpuImage
from rammer_mlir.programs.gpu_image import GpuImage
from rammer_mlir.runtime import cpu_parts, gpu_parts
from rammer_mlir.runtime.archive import Pieces, add_member, is_as_written, map_member, size_of
from rammer_mlir.runtime.artifact_parts import Members
from rammer_mlir.runtime.seal import SEAL, Content, seal_of
from rammer_mlir.runtime.shared_weights import Weights
from rammer_mlir.runtime.signatures import SIGNATURE, Signer, Verifier, message_of
from rammer_mlir.support.atomic_file import open_atomically

FORMAT, VERSION = "rammer-mlir", 5

FALLBACK_VERSION = 8
"""Format version of a file of one program and its fallback without foreign code."""

Image = CpuImage | GpuImage

_MANIFEST, CONSTANTS = "manifest.json", "constants.bin"

_FALLBACK = "fallback"
"""Key of the manifest entry that describes a program's fallback."""

_DAMAGE = (
    zipfile.BadZipFile, zlib.error, LookupError, ValueError, TypeError, AttributeError, EOFError,
    NotImplementedError, RuntimeError, struct.error,
)  # fmt: skip
"""Exceptions that reading a damaged file can raise."""


@dataclass(frozen=True)
class _CodeKind:
    """Functions that check and read artifacts of CPU code, or artifacts of GPU code.

    Attributes:
        check: called with the path and the manifest; raises ``ArtifactError`` if this machine
            cannot run the program.
        read: returns the program's data (a CPU or GPU image) from the archive's members.
    """

    check: Callable[[Path, Mapping[str, Any]], None]
    read: Callable[[Members], Image]


_CPU = _CodeKind(cpu_parts.check_machine, cpu_parts.read_image)
_GPU = _CodeKind(gpu_parts.check_machine, gpu_parts.read_image)
_CODE_KINDS = {"so": _CPU, "cubin": _GPU, "ptx": _GPU, "hsaco": _GPU}
"""Readers of programs, by the suffix of the code member's name."""


@dataclass(frozen=True)
class Artifact:
    """The content of an artifact of one program.

    Attributes:
        image: the program's data, with its weights.
        code: a shared library for a CPU; a cubin, PTX or a code object for a GPU.
        stats: compiler statistics by name.
        fallback: the same model without foreign code; None if the file has none.
    """

    image: Image
    code: bytes
    stats: Mapping[str, Any]
    fallback: Artifact | None = None


def write_artifact(path: Path, artifact: Artifact, sign: Signer | None = None) -> None:
    """Write a compiled program as an artifact.

    ``sign`` computes the signature of the file; None for an unsigned file.

    Raises:
        ArtifactError: if the file cannot be written.
    """
    manifest, members = _whole(artifact)
    write_members(path, manifest, members, sign)


def split_artifact(artifact: Artifact) -> tuple[bytes, tuple[memoryview, ...]]:
    """Return the content of an artifact's file without the weights, and the weights.

    A caller can thus store the weights elsewhere, without a copy; ``read_split`` joins both again.
    The weights are returned as a sequence of byte strings; their concatenation is
    ``constants.bin``.
    """
    manifest, members = _whole(artifact)
    weights = members.pop(CONSTANTS)
    file = io.BytesIO()
    _write_archive(file, _sealed(manifest, members))
    return file.getvalue(), tuple(memoryview(piece) for piece in weights)


def read_split(path: Path, content: bytes, weights: Bytes) -> Artifact:
    """Return the artifact that ``split_artifact`` has split.

    Each member's checksum and the seal are verified. Bytes between the members are not verified
    here; a caller that stores the two byte strings has to verify them as a whole.

    Args:
        path: name of the artifact in messages.
        content: content of the file without the weights.
        weights: all weights, concatenated.

    Raises:
        ArtifactError: if the content is corrupt, or compiled for another machine.
    """
    with _problems_named(path), zipfile.ZipFile(io.BytesIO(content)) as file:
        return read_program(Archive(path, file, _checked_manifest(path, file), lambda: weights))


def _whole(artifact: Artifact) -> tuple[dict[str, Any], dict[str, Pieces]]:
    """Return the manifest of an artifact, without the seal, and the other members by name.

    The members include the weights.
    """
    if artifact.fallback is None:
        version, weights = VERSION, artifact.image.constants
        manifest, members = _described(artifact)
    else:
        version, collected = FALLBACK_VERSION, Weights()
        manifest, members = entry_of(artifact, "", collected)
        weights = Constants(tuple(collected.parts))
    manifest = {"format": FORMAT, "version": version, **manifest}
    return manifest, {**members, CONSTANTS: weights.pieces}


def entry_of(
    artifact: Artifact, folder: str, weights: Weights
) -> tuple[dict[str, Any], dict[str, Pieces]]:
    """Describe one program of a file with several programs: its manifest entry and its members.

    Args:
        artifact: the program.
        folder: prefix of the names of the program's members.
        weights: collects the weights of all programs of the file; this program's weights are added.

    Returns:
        The JSON object for the manifest, and the members by name, without the weights.
    """
    manifest, own = _described(artifact)
    members = {f"{folder}{name}": pieces for name, pieces in own.items()}
    entry = {"folder": folder, "constants": weights.add(artifact.image), **manifest}
    if artifact.fallback is not None:
        entry[_FALLBACK], others = entry_of(artifact.fallback, f"{folder}fallback/", weights)
        members |= others
    return entry, members


def _described(artifact: Artifact) -> tuple[dict[str, Any], dict[str, Pieces]]:
    """Return a program's manifest entries, and its members by name, without the weights."""
    image = artifact.image
    if isinstance(image, CpuImage):
        kind, parts = "so", cpu_parts.write_image(image)
    else:
        kind, parts = image.code_kind, gpu_parts.write_image(image)
    manifest = {"code": kind, **parts.manifest, "stats": dict(artifact.stats)}
    members = {f"code.{kind}": artifact.code, **parts.members}
    return manifest, {name: (data,) for name, data in members.items()}


def write_members(
    path: Path,
    manifest: Mapping[str, Any],
    members: Mapping[str, Pieces],
    sign: Signer | None = None,
) -> None:
    """Write a file that contains ``members`` and the manifest, with a seal added to the manifest.

    ``sign`` computes the signature of the file; None for no signature.

    Raises:
        ArtifactError: if the file cannot be written.
    """
    written = _sealed(manifest, members)
    if sign is not None:
        written[SIGNATURE] = (sign(message_of(written)),)
    with open_atomically(path) as file:
        _write_archive(file, written)


def _sealed(manifest: Mapping[str, Any], members: Mapping[str, Pieces]) -> dict[str, Pieces]:
    """Return all members by name: the manifest with the seal of all members, and ``members``."""
    contents = (_content(name, pieces) for name, pieces in members.items())
    sealed = {**manifest, SEAL: seal_of(manifest, contents)}
    return {_MANIFEST: (json.dumps(sealed, indent=1).encode(),), **members}


def _write_archive(file: IO[bytes], written: Mapping[str, Pieces]) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, pieces in written.items():
            add_member(archive, file, name, pieces)


def _content(name: str, pieces: Pieces) -> Content:
    crc = 0
    for piece in pieces:
        crc = zlib.crc32(piece, crc)
    return Content(name, size_of(pieces), crc)


def read_artifact(path: Path, *, mapped: bool = True) -> Artifact:
    """Read a compiled program.

    Args:
        path: the file.
        mapped: memory-map large constants instead of reading them.

    Raises:
        ArtifactError: if the file is missing, not an artifact, corrupt, changed, of another format
            version, or compiled for another machine.
    """
    with open_archive(path, mapped=mapped) as archive:
        return read_program(archive)


def read_program(archive: Archive) -> Artifact:
    """Return the program, with its fallback if any, in an archive of a single program.

    Raises:
        ArtifactError: if the file was changed, was compiled for another machine, or has another
            format version.
    """
    has_fallback = archive.manifest["version"] == FALLBACK_VERSION
    archive.require_version(FALLBACK_VERSION if has_fallback else VERSION)
    archive.check_machine(archive.manifest)
    archive.check_seal()
    if has_fallback:
        return archive.entry(archive.manifest, archive.constants())
    return archive.program(archive.manifest, Constants((archive.constants(),)))


@contextmanager
def open_archive(
    path: Path, *, mapped: bool = True, verify: Verifier | None = None
) -> Generator[Archive]:
    """Open an artifact of any format version.

    Errors of reading in the ``with`` block become an ArtifactError, which says that the file is
    damaged.

    Args:
        path: the file.
        mapped: memory-map large constants instead of reading them; ignored with ``verify``.
        verify: checks the signature; None accepts files without a signature.

    Raises:
        ArtifactError: if the file is missing, not an artifact, corrupt, or lacks the expected
            signature.
    """
    with _problems_named(path), _opened(path, whole=verify is not None) as file:
        with zipfile.ZipFile(file) as archive:
            _check_members(path, archive, file)
            if verify is not None:
                _check_signature(path, archive, verify)
            # A mapped file could change after its signature was verified.
            is_mapped = mapped and verify is None
            constants = partial(map_member, archive, file, CONSTANTS, mapped=is_mapped)
            yield Archive(path, archive, _checked_manifest(path, archive), constants)


def _opened(path: Path, *, whole: bool) -> IO[bytes]:
    """Open a file for reading; if ``whole``, read the file into memory first.

    Content in memory cannot change after its signature is checked.
    """
    return io.BytesIO(path.read_bytes()) if whole else path.open("rb")


@contextmanager
def _problems_named(path: Path) -> Generator[None]:
    """Return a context that converts errors of reading a file to an ArtifactError.

    The message of the ArtifactError has the file's path.
    """
    try:
        yield
    except OSError as error:
        raise ArtifactError(f"cannot read '{path}': {error.strerror or error}") from error
    except _DAMAGE as error:
        raise ArtifactError(
            f"'{path}' is not a compiled model or is damaged ({error}): expected a file that "
            "rammer-compile wrote"
        ) from error


def _check_members(path: Path, archive: zipfile.ZipFile, file: IO[bytes]) -> None:
    """Raise ``ArtifactError`` if a member is damaged or the file contains more than its members."""
    if not is_as_written(archive, file):
        raise ArtifactError(_changed(path))
    damaged = archive.testzip()
    if damaged is not None:
        raise ArtifactError(f"'{path}' is corrupt in '{damaged}': compile the model again")


def _check_signature(path: Path, archive: zipfile.ZipFile, verify: Verifier) -> None:
    contents = {name: archive.read(name) for name in archive.namelist()}
    signature = contents.pop(SIGNATURE, None)
    verify(path, message_of({name: (data,) for name, data in contents.items()}), signature)


@dataclass(frozen=True)
class Archive:
    """An artifact open for reading.

    Attributes:
        path: the path, for messages.
        file: the open archive.
        manifest: the content of the archive's manifest.
        constants: returns the weights of all programs in the archive, as bytes (uint8).
    """

    path: Path
    file: zipfile.ZipFile
    manifest: Mapping[str, Any]
    constants: Callable[[], NDArray[np.uint8]]

    def require_version(self, expected: int) -> None:
        """Raise ``ArtifactError`` unless the file has format version ``expected``."""
        if self.manifest["version"] != expected:
            raise ArtifactError(
                f"'{self.path}' has format version {self.manifest['version']}: expected "
                f"{expected}; compile the model again with this version"
            )

    def check_machine(self, manifest: Mapping[str, Any]) -> None:
        """Raise ArtifactError if this machine cannot run the program that a manifest describes."""
        _CODE_KINDS[manifest["code"]].check(self.path, manifest)

    def check_seal(self) -> None:
        """Raise ArtifactError for a file that was changed after it was written."""
        aside = (_MANIFEST, SIGNATURE)
        others = (entry for entry in self.file.infolist() if entry.filename not in aside)
        contents = (Content(entry.filename, entry.file_size, entry.CRC) for entry in others)
        if self.manifest.get(SEAL) != seal_of(self.manifest, contents):
            raise ArtifactError(_changed(self.path))

    def program(
        self, manifest: Mapping[str, Any], constants: Constants, folder: str = ""
    ) -> Artifact:
        """Return a program of the file, without its fallback.

        Args:
            manifest: the program's manifest entries.
            constants: the program's weights.
            folder: prefix of the names of the program's members; empty in a file of a single
                program.
        """

        def read(name: str) -> bytes:
            return self.file.read(folder + name)

        image = _CODE_KINDS[manifest["code"]].read(Members(manifest, read, constants))
        return Artifact(image, read(f"code.{manifest['code']}"), dict(manifest["stats"]))

    def entry(self, entry: Mapping[str, Any], blob: Bytes) -> Artifact:
        """Return a program of a file with several programs, with the program's fallback if any.

        Args:
            entry: the manifest entry, as returned by ``entry_of``.
            blob: the weights of all programs.

        Raises:
            ArtifactError: if the fallback is of another model.
        """
        parts = tuple(blob[start : start + size] for start, size in entry["constants"])
        found = self.program(entry, Constants(parts), entry["folder"])
        if _FALLBACK not in entry:
            return found
        fallback = self.entry(entry[_FALLBACK], blob)
        # A fallback from another model would pass every other check.
        if fallback.image.signature != found.image.signature:
            raise ArtifactError(_changed(self.path))
        return replace(found, fallback=fallback)


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
    return manifest
