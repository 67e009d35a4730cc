"""A compiled program as data: everything that running it needs, besides the code's addresses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.programs.signature import Signature

Base = Literal["input", "output", "constant", "arena"]


@dataclass(frozen=True)
class Slot:
    """An entry of the pointer table: ``offset`` bytes into a buffer.

    ``index`` numbers the inputs or the outputs of the signature; constants and the arena are one
    buffer each, and it is 0 for them.
    """

    base: Base
    index: int
    offset: int


@dataclass(frozen=True)
class TraceItem:
    """What one record of a vEU's list does: the rOperator and rTasks it runs, or a barrier."""

    name: str
    kernel: str
    first: int
    count: int

    @property
    def is_barrier(self) -> bool:
        """Whether the record waits for other vEUs."""
        return self.count == 0


@dataclass(frozen=True)
class TaskTable:
    """The schedule as the dispatch loop reads it.

    Attributes:
        records: int32, all vEUs' records one after the other: ``kernel, first, count, arguments``
            for a run, ``-1, n, (vEU, steps) * n`` for a barrier, ``-2`` at the end of a vEU.
        starts: int32 [num_veus], where each vEU's records begin.
        arguments: int32, indices into the pointer table.
        totals: int64 [num_veus], rTasks of each vEU in one run.
        items: for each vEU, what its records do, in order.
    """

    records: NDArray[np.int32]
    starts: NDArray[np.int32]
    arguments: NDArray[np.int32]
    totals: NDArray[np.int64]
    items: tuple[tuple[TraceItem, ...], ...]

    @property
    def busy_veus(self) -> int:
        """VEUs up to the last that has anything to do, at least one: those behind it need not run.

        Programs of a few short rTasks often leave all but one idle.
        """
        return max((number for number, items in enumerate(self.items, 1) if items), default=1)


@dataclass(frozen=True)
class CpuImage:
    """A program for the CPU.

    Attributes:
        signature: inputs and outputs by name.
        num_veus: threads that run it, the caller's included.
        slots: the pointer table's entries.
        constants: uint8, all weights, each aligned.
        arena_bytes: size of the memory that intermediates share.
        table: the schedule.
        features: CPU features that the code uses, as Linux names them.
        machine: the processor family, as ``platform.machine()`` says.
        summary: the schedule in words.
    """

    signature: Signature
    num_veus: int
    slots: tuple[Slot, ...]
    constants: NDArray[np.uint8]
    arena_bytes: int
    table: TaskTable
    features: tuple[str, ...]
    machine: str
    summary: str
