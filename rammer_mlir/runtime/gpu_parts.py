"""Writes and reads GPU programs as members of an artifact."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from rammer_mlir.programs.gpu_image import GpuImage
from rammer_mlir.programs.residency import KernelResources
from rammer_mlir.runtime.artifact_parts import (
    Members,
    Parts,
    read_signature,
    write_signature,
)
from rammer_mlir.runtime.module_parts import read_modules, write_modules
from rammer_mlir.runtime.program_parts import read_program, read_proof, write_program

_TABLES = "tables.bin"


def write_image(image: GpuImage) -> Parts:
    """Return a program's manifest entries and archive members, except its code and constants."""
    resources = image.resources
    manifest = {
        "target": image.target,
        "entry": image.entry,
        "block_threads": image.block_threads,
        "shared_bytes": image.shared_bytes,
        "resources": None if resources is None else asdict(resources),
        "arguments": list(zip(image.arguments, image.argument_bytes, strict=True)),
        "inouts": list(image.inouts),
        **write_signature(image.signature),
        "summary": image.summary,
        **write_modules(image.modules).manifest,
    }
    members = {_TABLES: image.tables.tobytes()}
    return Parts(manifest, members | write_program(image.program, image.proof))


def check_machine(path: Path, manifest: Mapping[str, Any]) -> None:
    """Accept every machine; the GPU is checked later, when the device is opened."""
    del path, manifest


def read_image(members: Members) -> GpuImage:
    """Return the data of a GPU program in an artifact."""
    manifest = members.manifest
    program = read_program(members)
    tables = np.frombuffer(members.read(_TABLES), np.int64)
    resources = manifest["resources"]
    return GpuImage(
        target=manifest["target"],
        signature=read_signature(manifest),
        entry=manifest["entry"],
        block_threads=manifest["block_threads"],
        arguments=tuple(name for name, _ in manifest["arguments"]),
        argument_bytes=tuple(size for _, size in manifest["arguments"]),
        constants=members.constants,
        program=program,
        tables=tables.reshape(len(program.launches), -1),
        proof=read_proof(members),
        shared_bytes=manifest["shared_bytes"],
        code_kind=manifest["code"],
        resources=None if resources is None else KernelResources(**resources),
        summary=manifest["summary"],
        inouts=tuple(manifest.get("inouts", ())),
        modules=read_modules(members),
    )
