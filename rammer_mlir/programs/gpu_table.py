"""Encodes a launch for a persistent kernel, as one array of 64-bit words (``docs/program.md``).

The array consists of ``starts``, ``totals``, the records of each vEU, and ``arguments``, in this
order. The positions of ``starts`` and ``totals`` depend only on the number of vEUs, so the same
kernel code works for programs of any length::

    starts   [num_veus]  position of the first record of each vEU
    totals   [num_veus]  number of rTasks that each vEU executes in a launch
    records  run:      rKernel, first rTask, count of rTasks, arguments, publish
             barrier:  -1, n, (vEU, steps) * n
             end:      -2
    arguments: (buffer, byte offset) for each argument of an rKernel

A position is an index into the array. The field ``arguments`` of a run record is the position of
the rOperator's arguments. The kernel always fetches ``RUN_WORDS`` words per record, so the array is
zero-padded if it would end within the last fetch.

The field ``publish`` is the value that the vEU stores in its step counter after the run record, as
a number of steps since the start of the launch; 0 means no store. A run record publishes if a
barrier waits for one of its rTasks. By default, the last run record of each vEU publishes too,
because the next launch derives the number of completed program runs from the step counter.
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
"""First words of barrier and end records; a run record begins with its rKernel's index."""

RUN_WORDS = 5
"""Number of words of a run record."""

WAITS_AT = 2
"""Number of words of a barrier record before its pairs (vEU, steps)."""

Buffer = tuple[Base, int]
"""A buffer to which kernel arguments point: its kind, and its index among buffers of this kind."""


@dataclass(frozen=True)
class PlacedRun:
    """A run record and its position in the table.

    Attributes:
        position: index of the record's first word.
        record: the run record.
        steps: number of rTasks that the vEU has completed in this launch at the end of the run
            record.
        publish: whether the vEU then sets its step counter to ``steps``.
    """

    position: int
    record: RunRecord
    steps: int
    publish: bool


@dataclass(frozen=True)
class PlacedBarrier:
    """A barrier record, and the index of its first word in the table."""

    position: int
    record: BarrierRecord


Placed = PlacedRun | PlacedBarrier


@dataclass(frozen=True)
class GpuTable:
    """The schedule of a launch, as the integers that a persistent kernel reads.

    Attributes:
        words: int64, the whole table.
        veus: each vEU's records with their positions.
    """

    words: NDArray[np.int64]
    veus: tuple[tuple[Placed, ...], ...]


def encode_for_gpu(
    program: Program, launch: Launch, buffers: Sequence[Buffer], *, counts_runs: bool = True
) -> GpuTable:
    """Return the task table of a launch.

    Args:
        program: the program of the launch.
        launch: the launch.
        buffers: the kernel's buffers; the table identifies a buffer by its index in ``buffers``.
        counts_runs: whether the last run record of each vEU sets the step counter even if no vEU
            waits for this record. The next launch needs the counter to know the number of completed
            program runs.
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
    missing = max(0, ends[-1] + RUN_WORDS - len(table))
    return GpuTable(np.pad(table, (0, missing)), veus)


def place_records(launch: Launch, *, counts_runs: bool = True) -> tuple[tuple[Placed, ...], ...]:
    """Return each vEU's records with their positions in the table.

    ``counts_runs`` tells whether the last run record of each vEU sets the step counter even if no
    vEU waits for this record.
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
    """Return, for each vEU, the index of the first word of its records in the table.

    The index of vEU 0 is ``2 * num_veus``: the arrays ``starts`` and ``totals``, with a word per
    vEU each, are at the beginning of the table.
    """
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
    """Collects the rOperators' argument lists, which are stored at the end of the table.

    An argument list has two words for each argument of the rKernel: the index of a buffer, and a
    byte offset. Equal argument lists are stored once.
    """

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
