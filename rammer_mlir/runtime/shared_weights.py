"""Collects the weights of several programs for one file, with equal weights stored once."""

from __future__ import annotations

import hashlib

import numpy as np

from rammer_mlir.programs.constants import Bytes, Constants
from rammer_mlir.programs.cpu_image import CpuImage
from rammer_mlir.programs.gpu_image import GpuImage
from rammer_mlir.programs.proof import Proof
from rammer_mlir.support.aligned import ALIGNMENT


def each_weight(constants: Constants, proof: Proof) -> Constants:
    """Return a program's constants, divided so that each weight is a separate array.

    Arrays of single weights can be compared with those of other programs, to store equal weights
    once. ``proof`` has the byte offset of each weight. Constants that already consist of several
    arrays, or of none, are returned unchanged.
    """
    if len(constants.parts) != 1:
        return constants
    starts = {value.place.offset for value in proof.values if value.kind == "constant"}
    return constants.divided(sorted({0, *starts}))


def digest(part: Bytes) -> bytes:
    """Return the SHA-256 digest, as 32 bytes, of a weight's content."""
    return hashlib.sha256(part.data).digest()


class Weights:
    """Collects the weights of several programs; equal weights are stored once.

    ``parts`` has the different weights in the order in which they were added, and the padding
    between them. The collection is these parts one after the other; each weight begins at a
    multiple of ``ALIGNMENT`` bytes.
    """

    def __init__(self) -> None:
        """Create an empty collection."""
        self.parts: list[Bytes] = []
        self._size = 0
        self._known: dict[bytes, int] = {}

    def add(self, image: CpuImage | GpuImage) -> list[tuple[int, int]]:
        """Add a program's weights; return (offset in the collection, size) of each, in bytes."""
        parts = each_weight(image.constants, image.proof).parts
        return [(self.place(part), part.nbytes) for part in parts]

    def place(self, part: Bytes) -> int:
        """Return the byte offset of a weight in the collection, appending it if it is new."""
        name = digest(part)
        if name not in self._known:
            padding = -self._size % ALIGNMENT
            if padding:
                self._append(np.zeros(padding, dtype=np.uint8))
            self._known[name] = self._size
            self._append(part)
        return self._known[name]

    def _append(self, part: Bytes) -> None:
        self.parts.append(part)
        self._size += part.nbytes
