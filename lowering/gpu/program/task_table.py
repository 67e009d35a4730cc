"""The task table as a persistent kernel reads it: one array of 64-bit words.

Sections, each found from the number of vEUs alone so that the kernel does not depend on how long
the program is::

    starts   [num_veus]  where the records of each vEU begin
    totals   [num_veus]  rTasks of each vEU in one run
    records  of a run:      rKernel, first rTask, count, arguments, publish
             of a barrier:  -1, n, (vEU, steps) * n
             at the end:    -2
    arguments: (buffer, byte offset) for each argument of an rKernel

All positions are indices into the array. ``publish`` is the vEU's step counter behind this run,
from the launch on, where some vEU waits for its rTasks, and at a vEU's last run, whose counter
tells the next launch how many runs there have been; elsewhere it is 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.lowering.program.task_table import BARRIER, END, KernelSymbol, Tables
from rammer_mlir.programs.cpu_image import Slot, TaskTable, TraceItem

RUN_WORDS = 5
"""Words of a run's record."""

Buffer = tuple[str, int]
"""A buffer of the kernel: a slot's base and index."""


@dataclass(frozen=True)
class RunRecord:
    """Consecutive rTasks of one rKernel: where its record is and what it says."""

    position: int
    kernel: int
    first: int
    count: int
    steps: int
    publish: bool
    slots: tuple[Slot, ...]


@dataclass(frozen=True)
class BarrierRecord:
    """A barrier-rTask: where its record is, and the (vEU, steps) that it waits for."""

    position: int
    waits: tuple[tuple[int, int], ...]


Record = RunRecord | BarrierRecord


@dataclass(frozen=True)
class GpuTable:
    """A schedule for a persistent kernel.

    Attributes:
        words: int64, the task table.
        veus: each vEU's records, in order.
        kernels: the rKernels by number.
        buffers: the kernel's buffers by number: inputs, outputs, constants, arena.
        totals: rTasks of each vEU in one run.
        end: position of a record at the end of a vEU.
    """

    words: NDArray[np.int64]
    veus: tuple[tuple[Record, ...], ...]
    kernels: tuple[KernelSymbol, ...]
    buffers: tuple[Buffer, ...]
    totals: tuple[int, ...]
    end: int

    @property
    def num_records(self) -> int:
        """Return how many records all vEUs have together."""
        return sum(len(records) for records in self.veus)


def build_gpu_table(
    tables: Tables, buffers: Sequence[Buffer], *, counts_runs: bool = True
) -> GpuTable:
    """Write a schedule's task table for the kernel's ``buffers``.

    Without ``counts_runs``, step counters stay as they are where nobody waits for them.
    """
    awaited = _awaited(tables.table)
    num_veus = len(tables.table.starts)
    numbers = tables.table.records.tolist()
    words = [0] * (2 * num_veus)
    arguments = _Arguments(tables.slots, {buffer: n for n, buffer in enumerate(buffers)})
    veus: list[tuple[Record, ...]] = []
    for veu in range(num_veus):
        words[veu] = len(words)
        total = int(tables.table.totals[veu])
        words[num_veus + veu] = total
        wanted = awaited.get(veu, set()) | ({total} if counts_runs else set[int]())
        veus.append(_write_veu(tables, numbers, veu, wanted, words, arguments))
    base = len(words)
    for place in arguments.patches:
        words[place] += base
    return GpuTable(
        words=np.array([*words, *arguments.words], dtype=np.int64),
        veus=tuple(veus),
        kernels=tables.kernels,
        buffers=tuple(buffers),
        totals=tuple(int(total) for total in tables.table.totals),
        end=base - 1,
    )


def split_operators(tables: Tables) -> list[Tables]:
    """Return a table for each operator, to be launched one after the other without barriers.

    Args:
        tables: of a plan that runs one operator after the other; each has arguments of its own.
    """
    num_veus = len(tables.table.starts)
    chosen: dict[int, list[list[tuple[_Run, TraceItem]]]] = {}
    for veu, runs in enumerate(_runs(tables.table)):
        for run, item in zip(runs, tables.table.items[veu], strict=True):
            chosen.setdefault(run[3], [[] for _ in range(num_veus)])[veu].append((run, item))
    return [_only(tables, chosen[start]) for start in sorted(chosen)]


_Run = tuple[int, int, int, int]
"""rKernel, first rTask, count, place of the arguments."""


def _runs(table: TaskTable) -> list[list[_Run]]:
    """Return the runs of each vEU in a table without barriers."""
    numbers = table.records.tolist()
    found: list[list[_Run]] = []
    for start in table.starts.tolist():
        runs: list[_Run] = []
        for pc in range(start, len(numbers), 4):
            if numbers[pc] == END:
                break
            kernel, first, count, arguments = numbers[pc : pc + 4]
            runs.append((kernel, first, count, arguments))
        found.append(runs)
    return found


def _only(tables: Tables, veus: Sequence[Sequence[tuple[_Run, TraceItem]]]) -> Tables:
    """Leave all runs out but those given for each vEU."""
    records: list[int] = []
    starts: list[int] = []
    for chosen in veus:
        starts.append(len(records))
        records.extend(number for run, _ in chosen for number in run)
        records.append(END)
    table = TaskTable(
        records=np.array(records, np.int32),
        starts=np.array(starts, np.int32),
        arguments=tables.table.arguments,
        totals=np.array([sum(run[2] for run, _ in chosen) for chosen in veus], np.int64),
        items=tuple(tuple(item for _, item in chosen) for chosen in veus),
    )
    return replace(tables, table=table)


class _Arguments:
    """Lists of arguments, each distinct one written once."""

    def __init__(self, slots: Sequence[Slot], numbers: dict[Buffer, int]) -> None:
        self.slots = slots
        self.words: list[int] = []
        self.patches: list[int] = []
        self._numbers = numbers
        self._known: dict[tuple[Slot, ...], int] = {}

    def position(self, slots: tuple[Slot, ...]) -> int:
        if slots not in self._known:
            self._known[slots] = len(self.words)
            for slot in slots:
                self.words.extend((self._numbers[slot.base, slot.index], slot.offset))
        return self._known[slots]


def _write_veu(
    tables: Tables,
    numbers: Sequence[int],
    veu: int,
    wanted: set[int],
    words: list[int],
    arguments: _Arguments,
) -> tuple[Record, ...]:
    """Write the records of one vEU; ``numbers`` are those of the table, read once for all."""
    found: list[Record] = []
    pc, steps = int(tables.table.starts[veu]), 0
    while numbers[pc] != END:
        position = len(words)
        if numbers[pc] == BARRIER:
            length = 2 + 2 * numbers[pc + 1]
            flat = numbers[pc + 2 : pc + length]
            words.extend(numbers[pc : pc + length])
            waits = tuple(zip(flat[::2], flat[1::2], strict=True))
            found.append(BarrierRecord(position, waits))
            pc += length
            continue
        kernel, first, count, start = numbers[pc : pc + 4]
        size = tables.kernels[kernel].num_arguments
        chosen = tables.table.arguments[start : start + size].tolist()
        slots = tuple(arguments.slots[n] for n in chosen)
        publish = any(steps < step <= steps + count for step in wanted)
        steps += count
        arguments.patches.append(position + 3)
        step = steps if publish else 0
        words.extend((kernel, first, count, arguments.position(slots), step))
        found.append(RunRecord(position, kernel, first, count, steps, publish, slots))
        pc += 4
    words.append(END)
    return tuple(found)


def _awaited(table: TaskTable) -> dict[int, set[int]]:
    """Return the numbers of steps of each vEU that some other one waits for."""
    awaited: dict[int, set[int]] = {}
    numbers = table.records.tolist()
    for veu, items in enumerate(table.items):
        pc = int(table.starts[veu])
        for item in items:
            if not item.is_barrier:
                pc += 4
                continue
            count = numbers[pc + 1]
            for n in range(count):
                other, steps = numbers[pc + 2 + 2 * n : pc + 4 + 2 * n]
                awaited.setdefault(other, set()).add(steps)
            pc += 2 + 2 * count
    return awaited
