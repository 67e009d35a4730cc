"""Describes matrix instructions: the lanes of a warp or wave jointly multiply matrices."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

NARROW = ("f16", "bf16")
"""Element types that matrix instructions multiply without conversion."""


@dataclass(frozen=True)
class MatrixUnit:
    """An instruction that adds products of two matrices to an f32 matrix of results.

    Attributes:
        name: ``mma`` or ``mfma``.
        lanes: count of lanes that execute the instruction jointly.
        rows: count of rows of the result.
        columns: count of columns of the result.
        steps: by element type, the k extent of the instruction: how many products it adds to each
            result.
        results: for each result of a lane, its distance in rows and columns from the lane's first
            result.
        cycles: cycles of a multiprocessor per instruction.
    """

    name: str
    lanes: int
    rows: int
    columns: int
    steps: Mapping[str, int]
    results: tuple[tuple[int, int], ...]
    cycles: int

    def only(self, elements: Collection[str]) -> MatrixUnit:
        """Return the unit, limited to the element types in ``elements``."""
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

A lane has two adjacent results of a row and of the row eight below (PTX, matrix fragments,
accumulators). A multiprocessor computes 1,024 products of f16 per cycle, 512 of tf32.
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

A lane has four adjacent results of a column (AMD's CDNA 2 and 3 instruction set documents). A
compute unit computes 512 products per cycle.
"""

UNITS = {unit.name: unit for unit in (MMA, MFMA)}
"""Matrix units by name."""
