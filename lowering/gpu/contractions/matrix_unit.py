"""Instructions by which the lanes of a warp, or of a wave, multiply matrices together."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

NARROW = ("f16", "bf16")
"""Types of elements that matrix instructions multiply as they are."""


@dataclass(frozen=True)
class MatrixUnit:
    """An instruction that adds products of two matrices to an f32 matrix of results.

    Attributes:
        name: ``mma`` or ``mfma``.
        lanes: that hold the matrices together.
        rows: of the result.
        columns: of the result.
        steps: products along k that it adds to each result, by the type of elements.
        results: a lane's results, as rows and columns from its first one.
        cycles: in which a multiprocessor computes one.
    """

    name: str
    lanes: int
    rows: int
    columns: int
    steps: Mapping[str, int]
    results: tuple[tuple[int, int], ...]
    cycles: int

    def only(self, elements: Collection[str]) -> MatrixUnit:
        """Return the unit for some types of elements."""
        return replace(self, steps={e: n for e, n in self.steps.items() if e in elements})


MMA = MatrixUnit(
    name="mma",
    lanes=32,
    rows=16,
    columns=8,
    steps={"f16": 16, "bf16": 16, "f32": 8},
    results=((0, 0), (0, 1), (8, 0), (8, 1)),
    cycles=2,
)
"""NVIDIA's ``mma.sync.m16n8k16``, and ``m16n8k8`` for f32 by way of tf32.

A lane has two neighbours of a row and of the eighth one on (PTX, matrix fragments, accumulators).
1,024 products of f16 in each cycle of a multiprocessor, 512 of tf32.
"""

MFMA = MatrixUnit(
    name="mfma",
    lanes=64,
    rows=16,
    columns=16,
    steps={"f16": 16, "bf16": 16},
    results=((0, 0), (1, 0), (2, 0), (3, 0)),
    cycles=8,
)
"""AMD's ``v_mfma_f32_16x16x16``, from gfx90a on for both types.

A lane has four neighbours of a column (AMD's CDNA 2 and 3 instruction set documents). 512 products
in each cycle of a compute unit.
"""

UNITS = {unit.name: unit for unit in (MMA, MFMA)}
"""By name."""
