"""Packs all weights of a program into one array."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.scheduling.memory import aligned
from rammer_mlir.support.aligned import aligned_bytes


@dataclass(frozen=True)
class Constants:
    """All weights of a program in an array of bytes.

    Attributes:
        blob: the array.
        offsets: byte offset of each weight in ``blob``, by argument index of the entry function.
    """

    blob: NDArray[np.uint8]
    offsets: dict[int, int]


def pack_constants(weights: Mapping[int, NDArray[np.generic]]) -> Constants:
    """Return copies of all arrays in one array, each at an aligned byte offset.

    ``weights`` has the arrays by argument index.
    """
    offsets: dict[int, int] = {}
    total = 0
    for number, array in weights.items():
        offsets[number] = total
        total += aligned(array.nbytes)
    blob = aligned_bytes(total)
    for number, array in weights.items():
        place = blob[offsets[number] : offsets[number] + array.nbytes]
        place.view(array.dtype).reshape(array.shape)[...] = array
    return Constants(blob, offsets)
