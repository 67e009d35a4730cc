"""Writes and reads artifacts that contain several specializations of a model.

The files of each specialization are in a separate folder. The file ``constants.bin`` has the
weights of all specializations, with equal weights stored once.

The manifest has the signature with open dimensions, and for each specialization:

- the keys that the manifest of a single program has,
- the folder,
- ``constants``: the offset in ``constants.bin`` and the size in bytes of each weight.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rammer_mlir.errors import ArtifactError
from rammer_mlir.programs.constants import Bytes, Constants
from rammer_mlir.programs.dimensions import HostType, OpenSignature, OpenTensor, Shapes
from rammer_mlir.runtime.artifact import (
    CONSTANTS,
    FORMAT,
    Archive,
    Artifact,
    Pieces,
    entry_of,
    write_members,
)
from rammer_mlir.runtime.artifact_parts import read_dtype
from rammer_mlir.runtime.shared_weights import Weights
from rammer_mlir.runtime.signatures import Signer

SEVERAL_VERSION = 6
"""Format version of files with several programs; single programs have a lower version."""


@dataclass(frozen=True)
class Specialization:
    """A program for static shapes of the inputs.

    Attributes:
        shapes: shape of each input, by name.
        artifact: the program, with its weights and statistics.
    """

    shapes: Shapes
    artifact: Artifact


@dataclass(frozen=True)
class Specializations:
    """Content of an artifact with several specializations of a model.

    Attributes:
        signature: the model's inputs and outputs, with open dimensions.
        programs: the specializations.
    """

    signature: OpenSignature
    programs: tuple[Specialization, ...]


def write_specializations(
    path: Path,
    signature: OpenSignature,
    programs: Sequence[Specialization],
    sign: Signer | None = None,
) -> None:
    """Write an artifact with several specializations of a model.

    Args:
        path: the artifact.
        signature: the model's inputs and outputs, with open dimensions.
        programs: the specializations.
        sign: signs bytes, and returns the signature; None for an unsigned artifact.

    Raises:
        ArtifactError: if the file cannot be written.
    """
    weights = Weights()
    entries: list[dict[str, Any]] = []
    members: dict[str, Pieces] = {}
    for number, program in enumerate(programs):
        entry, own = entry_of(program.artifact, f"{number}/", weights)
        entries.append(entry)
        members |= own
    manifest = {
        "format": FORMAT,
        "version": SEVERAL_VERSION,
        "inputs": [described_tensor(tensor) for tensor in signature.inputs],
        "outputs": [described_tensor(tensor) for tensor in signature.outputs],
        "specializations": entries,
    }
    constants = Constants(tuple(weights.parts)).pieces
    write_members(path, manifest, {**members, CONSTANTS: constants}, sign)


def described_tensor(tensor: OpenTensor) -> dict[str, Any]:
    """Return the JSON object that describes an input or output in a manifest.

    Its keys are ``name``, ``shape``, ``dtype`` and, for a sequence or optional value, ``is_tensor``
    and ``host_type``.
    """
    dtype = None if tensor.dtype is None else str(tensor.dtype)
    found: dict[str, Any] = {"name": tensor.name, "shape": tensor.shape, "dtype": dtype}
    if not tensor.is_tensor:
        found["is_tensor"] = False
    if tensor.host_type is not None:
        found["host_type"] = {**vars(tensor.host_type), "dtype": str(tensor.host_type.dtype)}
    return found


def read_specializations(archive: Archive) -> Specializations:
    """Read all specializations of an artifact.

    Raises:
        ArtifactError: if the file was changed, or was compiled for another machine.
    """
    archive.require_version(SEVERAL_VERSION)
    manifest = archive.manifest
    for entry in manifest["specializations"]:
        archive.check_machine(entry)
    archive.check_seal()
    signature = OpenSignature(read_tensors(manifest["inputs"]), read_tensors(manifest["outputs"]))
    blob = archive.constants()
    programs = tuple(_program(archive, entry, blob) for entry in manifest["specializations"])
    if not programs:
        raise ArtifactError(f"'{archive.path}' holds no program: compile the model again")
    return Specializations(signature, programs)


def _program(archive: Archive, entry: Mapping[str, Any], blob: Bytes) -> Specialization:
    artifact = archive.entry(entry, blob)
    shapes = {spec.name: spec.shape for spec in artifact.image.signature.inputs}
    return Specialization(shapes, artifact)


def read_tensors(entries: Sequence[Mapping[str, Any]]) -> tuple[OpenTensor, ...]:
    """Return a model's inputs or outputs from their JSON objects in a manifest.

    ``described_tensor`` defines these objects.
    """
    return tuple(
        OpenTensor(
            entry["name"],
            None if entry["shape"] is None else tuple(entry["shape"]),
            None if entry["dtype"] is None else read_dtype(entry["dtype"]),
            entry.get("is_tensor", True),
            # Older artifacts do not describe the elements of sequences and optional values.
            _read_host_type(entry["host_type"]) if "host_type" in entry else None,
        )
        for entry in entries
    )


def _read_host_type(entry: Mapping[str, Any]) -> HostType:
    shape = None if entry["shape"] is None else tuple(entry["shape"])
    dtype = read_dtype(entry["dtype"])
    return HostType(entry["is_sequence"], entry["is_optional"], shape, dtype)
