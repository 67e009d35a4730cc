"""Holds a program's data in an artifact, and writes and reads the program's signature.

An artifact is a ZIP archive. Its members contain binary data; the manifest, a JSON member, has
entries that describe the program. The signature has the names, shapes and dtypes of the program's
inputs and outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rammer_mlir.programs.constants import Constants
from rammer_mlir.programs.signature import Signature, TensorSpec
from rammer_mlir.support.packages import narrow_floats


@dataclass(frozen=True)
class Parts:
    """The data of one program, as an artifact stores it.

    ``manifest`` has the entries for the artifact's manifest, ``members`` the bytes of each member
    of the archive, by the member's name.
    """

    manifest: Mapping[str, Any]
    members: Mapping[str, bytes]


@dataclass(frozen=True)
class Members:
    """Access to the data of one program in an opened artifact.

    ``manifest`` has the program's manifest entries. ``read`` takes the name of a member of the
    archive and returns the member's bytes. ``constants`` are the program's weights.
    """

    manifest: Mapping[str, Any]
    read: Callable[[str], bytes]
    constants: Constants


def write_signature(signature: Signature) -> dict[str, Any]:
    """Return the manifest entries ``inputs`` and ``outputs`` of a signature."""

    def specs(tensors: Sequence[TensorSpec]) -> list[dict[str, Any]]:
        return [{"name": t.name, "shape": t.shape, "dtype": str(t.dtype)} for t in tensors]

    return {"inputs": specs(signature.inputs), "outputs": specs(signature.outputs)}


def read_signature(manifest: Mapping[str, Any]) -> Signature:
    """Return the signature from the manifest entries ``inputs`` and ``outputs``."""

    def specs(entries: list[dict[str, Any]]) -> tuple[TensorSpec, ...]:
        return tuple(
            TensorSpec(e["name"], tuple(e["shape"]), read_dtype(e["dtype"])) for e in entries
        )

    return Signature(specs(manifest["inputs"]), specs(manifest["outputs"]))


def read_dtype(name: str) -> np.dtype[np.generic]:
    """Return the dtype named ``name``, a NumPy or ml_dtypes type."""
    try:
        return np.dtype(name)
    except TypeError:
        return np.dtype(getattr(narrow_floats(), name))
