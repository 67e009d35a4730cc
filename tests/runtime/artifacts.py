"""Helpers for tests of artifacts: load, read, write and edit an artifact.

The artifact is that of a hand-written program, ``Ring``.
"""

from __future__ import annotations

import json
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rammer_mlir
from rammer_mlir.errors import ArtifactError
from rammer_mlir.runtime.seal import SEAL, Content, seal_of
from tests.runtime.elementwise import Elementwise
from tests.runtime.ring import Ring

RING = Ring(num_veus=2, layers=60)
SMALL = Elementwise((3, 5), "f32", np.dtype(np.float32), "%q = arith.addf %p, %p : f32")


def loads_and_runs(path: Path) -> bool:
    """Load the ring's artifact and return whether it gives the right result."""
    with rammer_mlir.load(path) as loaded:
        return RING.is_right(loaded)


def refusal(path: Path) -> str:
    """Return the error message of loading a file, which must be one line and name the file."""
    with pytest.raises(ArtifactError) as caught:
        rammer_mlir.load(path)
    message = str(caught.value)
    assert "\n" not in message and str(path) in message
    return message


def contents(path: Path) -> dict[str, bytes]:
    """Return the content of each member of an artifact's ZIP archive, by name."""
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write_members(path: Path, members: Mapping[str, bytes]) -> Path:
    """Write a ZIP archive of ``members``, contents by name, to ``path``; return ``path``."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def rewritten(
    saved: Path, path: Path, edit: Callable[[dict[str, Any]], object], **members: bytes | None
) -> Path:
    """Write a copy of the artifact ``saved`` to ``path`` with an edited manifest and a valid seal.

    ``edit`` changes the manifest in place. ``members`` has new contents of members by their names
    without extension, or None to leave a member out. Returns ``path``.
    """
    found = {name: members.get(name.partition(".")[0], d) for name, d in contents(saved).items()}
    manifest = json.loads(found.pop("manifest.json") or b"")
    kept = {name: data for name, data in found.items() if data is not None}
    edit(manifest)
    sealed = (Content(name, len(data), zlib.crc32(data)) for name, data in kept.items())
    manifest[SEAL] = seal_of(manifest, sealed)
    return write_members(path, {"manifest.json": json.dumps(manifest).encode(), **kept})
