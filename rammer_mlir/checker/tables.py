"""The tables that code executes say what the records say: rule 6."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np

from rammer_mlir.checker.archive import Archive, Int64Array, ranges
from rammer_mlir.checker.program import Program, Records
from rammer_mlir.errors import ScheduleError

_BARRIER, _END = -1, -2

_OPEN = -3
"""Stands for a word that is checked by itself."""


class _Table:
    """Words of a table, none of which is read outside of it."""

    def __init__(self, name: str, words: Int64Array) -> None:
        self.name, self._words = name, words

    def at(self, positions: Int64Array) -> Int64Array:
        """Return words; outside of the table, the smallest number there is."""
        inside = (positions >= 0) & (positions < len(self._words))
        found = np.full(positions.shape, np.iinfo(np.int64).min)
        found[inside] = self._words[positions[inside]]
        return found

    def expect(self, positions: Int64Array, wanted: Int64Array, what: str) -> None:
        """Check that words are as the records say."""
        found = self.at(positions)
        for wrong in np.flatnonzero(found != wanted)[:1]:
            at = int(positions[wrong])
            value = found[wrong] if 0 <= at < len(self._words) else "the end of the table"
            raise ScheduleError(
                f"rule 6 (encoded): {self.name}, {what}, word {at}: expected {wanted[wrong]}, as "
                f"program.json says, found {value}"
            )

    def expect_all(self, wanted: Sequence[int], what: str) -> None:
        """Check that these words are the whole table."""
        self.expect(np.arange(max(len(wanted), len(self._words))), _padded(wanted, self), what)

    def __len__(self) -> int:
        return len(self._words)


def _padded(wanted: Sequence[int], table: _Table) -> Int64Array:
    more = max(len(table) - len(wanted), 0)
    return np.concatenate((np.array(wanted, np.int64), np.full(more, np.iinfo(np.int64).min)))


def check_cpu_table(archive: Archive, program: Program) -> None:
    """Check the table of a CPU's only launch."""
    if len(program.launches) != 1:
        raise ScheduleError(f"rule 6 (encoded): expected one launch, found {len(program.launches)}")
    (veus,) = program.launches
    names = {"records": "<i4", "starts": "<i4", "arguments": "<i4", "totals": "<i8"}
    tables = {
        name: _Table(f"{name}.bin", archive.words(f"{name}.bin", k)) for name, k in names.items()
    }
    tables["totals"].expect_all([*map(_steps, veus)], "totals")
    if len(tables["starts"]) != len(veus):
        raise ScheduleError(f"rule 6 (encoded): starts.bin: expected {len(veus)} words")
    known: dict[tuple[int, ...], int] = {}
    keys = list(zip(*(column.tolist() for column in program.slots.columns), strict=True))
    pointers = [known.setdefault(keys[s], len(known)) for s in program.operands.numbers.tolist()]
    wanted = np.array(pointers, np.int64).reshape(-1, 1)
    starts = tables["starts"].at(np.arange(len(veus))).tolist()
    for veu, (start, records) in enumerate(zip(starts, veus, strict=True)):
        operators, words = _check_records(program, tables["records"], start, (veu, records), 4)
        _check_arguments(program, tables["arguments"], operators, words[:, 3], wanted)


def check_gpu_tables(archive: Archive, program: Program, buffers: Sequence[int]) -> None:
    """Check the table of each launch on a GPU, which has so many buffers of each base."""
    launches, words = program.launches, archive.words("tables.bin", "<i8")
    if len(words) % len(launches):
        raise ScheduleError(f"rule 6 (encoded): tables.bin: expected {len(launches)} equal rows")
    buffer = np.cumsum([0, *buffers])[program.slots.base] + program.slots.index
    wanted = np.stack((buffer, program.slots.offset), axis=1)[program.operands.numbers]
    for number, row in enumerate(words.reshape(len(launches), -1)):
        table, veus = _Table(f"tables.bin row {number}", row), launches[number]
        totals = np.array([*map(_steps, veus)], np.int64)
        table.expect(np.arange(len(veus)) + len(veus), totals, "totals")
        starts = table.at(np.arange(len(veus))).tolist()
        awaited = _awaited(veus)
        if len(launches) > 1 and awaited:
            raise ScheduleError("rule 6 (encoded): expected no barriers between several launches")
        for veu, (start, records) in enumerate(zip(starts, veus, strict=True)):
            operators, found = _check_records(program, table, start, (veu, records), 5)
            _check_arguments(program, table, operators, found[:, 3], wanted)
            last = {int(totals[veu])} if awaited and len(found) else set[int]()
            _check_published(f"{table.name}, vEU {veu}", found, awaited.get(veu, set()) | last)


def _steps(records: Records) -> int:
    return sum(record[2] for record in records if type(record) is tuple)


def _awaited(veus: Sequence[Records]) -> dict[int, set[int]]:
    """Return the steps of each vEU that others await."""
    found: dict[int, set[int]] = {}
    for records in veus:
        for record in records:
            for veu, steps in () if type(record) is tuple else record:
                found.setdefault(veu, set()).add(steps)
    return found


def _check_records(
    program: Program, table: _Table, start: int, veu: tuple[int, Records], size: int
) -> tuple[Int64Array, Int64Array]:
    """Check a vEU's records; return its runs' rOperators, and their words."""
    number, records = veu
    kernels = program.kernels.tolist()
    words: list[int] = []
    at: list[int] = []
    for record in records:
        if type(record) is tuple:
            at.append(len(words))
            words += (kernels[record[0]], record[1], record[2], _OPEN, _OPEN)[:size]
        else:
            words += (_BARRIER, len(record), *chain.from_iterable(record))
    wanted = np.array([*words, _END], np.int64)
    if not 0 <= start < len(table):
        start = len(table)
    positions = start + np.arange(len(wanted))
    left = wanted != _OPEN
    table.expect(positions[left], wanted[left], f"records of vEU {number}")
    operators = np.array([record[0] for record in records if type(record) is tuple], np.int64)
    begin = np.array(at, np.int64).reshape(-1, 1)
    return operators, table.at(start + begin + np.arange(size))


def _check_arguments(
    program: Program, table: _Table, operators: Int64Array, at: Int64Array, wanted: Int64Array
) -> None:
    """Check the words of each run's arguments, so many for each buffer."""
    width = wanted.shape[1]
    first = program.operands.first[operators]
    owner, operand = ranges(first, program.operands.counts[operators])
    at = np.clip(at, -1, len(table))
    positions = at[owner] + (operand - first[owner]) * width
    for word in range(width):
        table.expect(positions + word, wanted[operand, word], "arguments")


def _check_published(where: str, words: Int64Array, awaited: set[int]) -> None:
    """Check that a vEU publishes steps that are complete, and each one that is awaited."""
    steps, published = np.cumsum(words[:, 2]), words[:, 4]
    needed = np.zeros(len(steps) + 1, bool)
    needed[np.searchsorted(steps, np.array(sorted(awaited), np.int64))] = True
    wrong = (published != steps) & (needed[:-1] | (published != 0))
    for run in np.flatnonzero(wrong)[:1]:
        raise ScheduleError(
            f"rule 6 (encoded): {where}, run {run} publishes {published[run]}: expected "
            f"{steps[run]}, its steps then{'' if needed[run] else ', or 0 for none'}"
        )
