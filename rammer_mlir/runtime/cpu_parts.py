"""Writes and reads CPU programs as members of an artifact."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.errors import ArtifactError
from rammer_mlir.programs.cpu_image import CpuImage
from rammer_mlir.programs.cpu_table import CpuTable
from rammer_mlir.runtime.artifact_parts import (
    Members,
    Parts,
    read_signature,
    write_signature,
)
from rammer_mlir.runtime.module_parts import read_entries, read_modules, write_modules
from rammer_mlir.runtime.program_parts import read_program, read_proof, write_program
from rammer_mlir.support.cpu_features import cpu_features

_TABLE = {"records": np.int32, "starts": np.int32, "arguments": np.int32, "totals": np.int64}


def write_image(image: CpuImage) -> Parts:
    """Return a program's manifest entries and archive members, except its code and constants."""
    modules = write_modules(image.modules, image.entries)
    manifest = {
        "target": image.target,
        "machine": image.machine,
        "features": image.features,
        "arena_bytes": image.arena_bytes,
        **write_signature(image.signature),
        "summary": image.summary,
        **modules.manifest,
    }
    members = {f"{name}.bin": getattr(image.table, name).tobytes() for name in _TABLE}
    members |= modules.members
    return Parts(manifest, members | write_program(image.program, image.proof))


def check_machine(path: Path, manifest: Mapping[str, Any]) -> None:
    """Check that this processor can run a program.

    Raises:
        ArtifactError: if the program is for another processor family, or needs CPU features that
            this processor lacks.
    """
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


def read_image(members: Members) -> CpuImage:
    """Return the data of a CPU program in an artifact."""

    def integers(name: str) -> NDArray[Any]:
        return np.frombuffer(members.read(f"{name}.bin"), dtype=_TABLE[name])

    manifest = members.manifest
    program = read_program(members)
    return CpuImage(
        signature=read_signature(manifest),
        program=program,
        table=CpuTable(*map(integers, _TABLE), slots=program.slots),
        proof=read_proof(members),
        constants=members.constants,
        arena_bytes=manifest["arena_bytes"],
        features=tuple(manifest["features"]),
        machine=manifest["machine"],
        summary=manifest["summary"],
        target=manifest["target"],
        modules=read_modules(members),
        entries=read_entries(members),
    )
