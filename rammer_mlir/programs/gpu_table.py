"""A launch as a persistent kernel reads it: one array of 64-bit words (``docs/program.md``).

The position of each section depends only on the number of vEUs, so the kernel's code does not
depend on the program's length::

    starts   [num_veus]  position of the first record of each vEU
    totals   [num_veus]  rTasks of each vEU in one run
    records  of a run:      rKernel, first rTask, count, arguments, publish
             of a barrier:  -1, n, (vEU, steps) * n
             at the end:    -2
    arguments: (buffer, byte offset) for each argument of an rKernel

All positions are indices into the array. ``publish`` is the vEU's step counter after this run,
counted from the start of the launch, if some vEU waits for these rTasks, or if this is the vEU's
last run, from whose counter the next launch derives the number of completed runs; otherwise it is
0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.programs.records import (
    BarrierRecord,
    Base,
    Launch,
    Program,
    Record,
    RunRecord,
    Slot,
)

BARRIER, END = -1, -2
"""First words of barrier and end records; a run record begins with its rKernel's number."""

RUN_WORDS = 5
"""Number of words of a run record."""

WAITS_AT = 2
"""Number of words of a barrier record before its pairs (vEU, steps)."""

Buffer = tuple[Base, int]
"""Buffer of a kernel argument: its base, and its index among the buffers of that base."""


@dataclass(frozen=True)
class PlacedRun:
    """A run record and its position in the table.

    Attributes:
        position: index of the record's first word.
        record: the run.
        steps: number of rTasks that the vEU has completed after this run.
        publish: whether the vEU then publishes its step counter.
    """

    position: int
    record: RunRecord
    steps: int
    publish: bool


@dataclass(frozen=True)
class PlacedBarrier:
    """A barrier record and its position in the table."""

    position: int
    record: BarrierRecord


Placed = PlacedRun | PlacedBarrier


@dataclass(frozen=True)
class GpuTable:
    """A launch, encoded for a persistent kernel.

    Attributes:
        words: int64, the task table.
        veus: each vEU's records, in order.
        end: position of an end record.
    """

    words: NDArray[np.int64]
    veus: tuple[tuple[Placed, ...], ...]
    end: int


def encode_for_gpu(
    program: Program, launch: Launch, buffers: Sequence[Buffer], *, counts_runs: bool = True
) -> GpuTable:
    """Return the task table of a launch for a kernel with these buffers.

    Without ``counts_runs``, only those runs publish their step counter for which a vEU waits.
    """
    veus = place_records(launch, counts_runs=counts_runs)
    arguments = _Arguments(program, {buffer: number for number, buffer in enumerate(buffers)})
    ends = [_end(records, start) for records, start in zip(veus, _starts(launch), strict=True)]
    base = ends[-1] + 1
    words = [*_starts(launch), *launch.totals]
    for records in veus:
        words.extend(chain.from_iterable(_words(placed, arguments, base) for placed in records))
        words.append(END)
    table = np.array([*words, *arguments.words], dtype=np.int64)
    return GpuTable(table, veus, ends[-1])


def place_records(launch: Launch, *, counts_runs: bool = True) -> tuple[tuple[Placed, ...], ...]:
    """Return each vEU's records with their positions in the table.

    Without ``counts_runs``, only those runs publish their step counter for which a vEU waits.
    """
    return tuple(
        _place_veu(launch, veu, start, counts_runs=counts_runs)
        for veu, start in enumerate(_starts(launch))
    )


def _place_veu(launch: Launch, veu: int, start: int, *, counts_runs: bool) -> tuple[Placed, ...]:
    wanted = sorted(launch.awaited[veu] | ({launch.totals[veu]} if counts_runs else set[int]()))
    placed: list[Placed] = []
    position, steps, met = start, 0, 0
    for record in launch.veus[veu]:
        if isinstance(record, RunRecord):
            steps += record.count
            before = met
            while met < len(wanted) and wanted[met] <= steps:
                met += 1
            placed.append(PlacedRun(position, record, steps, met > before))
        else:
            placed.append(PlacedBarrier(position, record))
        position += _size(record)
    return tuple(placed)


def _starts(launch: Launch) -> list[int]:
    """Return the position of each vEU's first record; the first follows two words for each vEU."""
    starts = [2 * len(launch.veus)]
    for records in launch.veus[:-1]:
        starts.append(starts[-1] + sum(map(_size, records)) + 1)
    return starts


def _size(record: Record) -> int:
    return RUN_WORDS if isinstance(record, RunRecord) else WAITS_AT + 2 * len(record.waits)


def _end(records: Sequence[Placed], start: int) -> int:
    return records[-1].position + _size(records[-1].record) if records else start


def _words(placed: Placed, arguments: _Arguments, base: int) -> Sequence[int]:
    if isinstance(placed, PlacedBarrier):
        waits = placed.record.waits
        return BARRIER, len(waits), *chain.from_iterable(waits)
    record = placed.record
    kernel = arguments.program.operators[record.operator].kernel
    at = base + arguments.position(record.operator)
    return kernel, record.first, record.count, at, placed.steps if placed.publish else 0


class _Arguments:
    """Collects the argument lists of operators; equal lists are stored once."""

    def __init__(self, program: Program, numbers: dict[Buffer, int]) -> None:
        self.program = program
        self.words: list[int] = []
        self._numbers = numbers
        self._known: dict[tuple[Slot, ...], int] = {}

    def position(self, operator: int) -> int:
        slots = self.program.operators[operator].slots
        if slots not in self._known:
            self._known[slots] = len(self.words)
            for slot in slots:
                self.words.extend((self._numbers[slot.base, slot.index], slot.offset))
        return self._known[slots]
