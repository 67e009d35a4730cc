"""Store the arrays of a kit: as a seed, or in a file that all programs share.

A reference to an array is a JSON object with a seed and a scale, or with the name of a file.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.benchmarks.gpu.kit.seeds import Seeded
from rammer_mlir.errors import ArtifactError

Array = NDArray[np.generic]

Reference = dict[str, Any]
"""Location of an array as JSON: ``{"seeded": ...}`` or ``{"file": name}``."""


class Store:
    """The arrays of a kit, in files whose names are hashes of the contents."""

    def __init__(self, folder: Path) -> None:
        """Keep the arrays in ``folder``, which is created when the first array is stored."""
        self._folder = folder

    def put(self, array: Array) -> Reference:
        """Write an array to a file, and return the array's reference.

        If an equal array is stored already, write nothing and return its reference.
        """
        dense = np.ascontiguousarray(array).reshape(array.shape)
        digest = hashlib.sha256(f"{dense.dtype.str}{dense.shape}".encode())
        digest.update(dense.tobytes())
        name = f"{digest.hexdigest()[:24]}.npy"
        self._folder.mkdir(parents=True, exist_ok=True)
        if not (self._folder / name).exists():
            np.save(self._folder / name, dense, allow_pickle=False)
        return {"file": name}

    def get(self, reference: Reference) -> Array:
        """Return the array that ``reference`` denotes.

        Raises:
            ArtifactError: if the array's file is missing or damaged.
        """
        if "seeded" in reference:
            return Seeded.of_json(reference["seeded"]).array()
        path = self._folder / reference["file"]
        try:
            return np.load(path, allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise ArtifactError(
                f"cannot read '{path}' ({error}): expected an array of the kit; pack it again"
            ) from error


def seeded(found: Seeded) -> Reference:
    """Return the reference to an array that is computed from a seed."""
    return {"seeded": found.to_json()}
