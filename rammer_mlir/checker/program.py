"""``program.json``: rOperators, their slots, and the records of each vEU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np

from rammer_mlir.checker.archive import Archive, Int64Array, integers, starts
from rammer_mlir.errors import ArtifactError, ScheduleError

BASES = ("input", "output", "constant", "arena")

MOST_TASKS, MOST_VEUS = 1 << 22, 1 << 12
"""Limits of what is proven; the largest programs have some 10**5 rTasks on 304 vEUs."""

Records = Sequence[Sequence[Any]]
"""Runs are tuples, barriers lists."""


@dataclass(frozen=True, eq=False)
class Lists:
    """Lists of numbers: list ``i`` is ``numbers[first[i] : first[i + 1]]``."""

    first: Int64Array
    numbers: Int64Array

    @staticmethod
    def of(lists: Sequence[Sequence[Any]], what: str, limit: int) -> Lists:
        """Flatten lists of numbers below a limit."""
        flat = [number for numbers in lists for number in numbers]
        return Lists(starts([len(numbers) for numbers in lists]), integers(flat, what, limit))

    @cached_property
    def counts(self) -> Int64Array:
        """Return the length of each list."""
        return np.diff(self.first)


@dataclass(frozen=True, eq=False)
class Places:
    """Pointers: base (a number of ``BASES``), index and offset of each."""

    base: Int64Array
    index: Int64Array
    offset: Int64Array

    @staticmethod
    def of(rows: Sequence[Sequence[Any]], buffers: Sequence[int], what: str) -> Places:
        """Read ``[base, index, offset]``, where there are so many buffers of each base."""
        bases, indices, offsets = zip(*rows, strict=True) if rows else ((), (), ())
        base = np.array([BASES.index(name) for name in bases], dtype=np.int64)
        index = integers(indices, f"{what}: index")
        if (index >= np.array(buffers)[base]).any():
            raise ArtifactError(f"{what}: expected indices below {buffers} for {BASES}")
        integers(map(abs, offsets), f"{what}: offset")  # an rKernel may add to a negative one
        return Places(base, index, np.array(offsets, dtype=np.int64))

    @property
    def columns(self) -> tuple[Int64Array, ...]:
        """Return all three."""
        return self.base, self.index, self.offset


@dataclass(frozen=True, eq=False)
class Program:
    """The records of all launches.

    Attributes:
        names: of the rOperators.
        kernels: the rKernel of each rOperator.
        arity: buffers of each rKernel.
        slots: the distinct pointers.
        operands: numbers of slots of each rOperator.
        launches: for each launch, for each vEU, its records.
    """

    names: Sequence[str]
    kernels: Int64Array
    arity: Int64Array
    slots: Places
    operands: Lists
    launches: Sequence[Sequence[Records]]

    @property
    def num_veus(self) -> int:
        """Return how many vEUs every launch has."""
        return len(self.launches[0])

    @property
    def num_waits(self) -> int:
        """Return the pairs of all barriers."""
        records = (record for veus in self.launches for veu in veus for record in veu)
        return sum(len(record) for record in records if type(record) is list)


def read_program(archive: Archive, buffers: Sequence[int]) -> Program:
    """Read the program, with so many buffers of each base."""
    found = archive.json("program.json")
    arity = integers([buffers for _, buffers in found["kernels"]], "kernels: buffers")
    operators = found["operators"]
    kernels = integers((kernel for _, kernel, _ in operators), "operators: kernel", len(arity))
    operands = Lists.of([o for _, _, o in operators], "operators: slot", len(found["slots"]))
    wrong = np.flatnonzero(operands.counts != arity[kernels])
    names = [str(name)[:80] for name, _, _ in operators]
    if len(wrong):
        raise ScheduleError(
            f"rule 6 (encoded): {names[int(wrong[0])]}: expected {arity[kernels[wrong[0]]]} slots, "
            f"one for each buffer of its rKernel, found {operands.counts[wrong[0]]}"
        )
    launches = [[*map(_records, veus)] for veus in found["launches"]]
    sizes = {len(veus) for veus in launches}
    if len(sizes) != 1 or not 1 <= max(sizes) <= MOST_VEUS:
        raise ArtifactError(f"launches: expected each of 1 to {MOST_VEUS} vEUs, found {sizes}")
    _check_records([record for veus in launches for veu in veus for record in veu])
    places = Places.of(found["slots"], buffers, "slots")
    return Program(names, kernels, arity, places, operands, launches)


def _records(veu: Sequence[Sequence[Any]]) -> Records:
    """Turn runs into tuples; barriers stay lists."""
    return [tuple(r) if r and type(r[0]) is not list else r for r in veu]


def _check_records(records: Records) -> None:
    """Check that records are lists of whole numbers, so that the rest need not."""
    runs = [record for record in records if type(record) is tuple]
    waits = [wait for record in records if type(record) is list for wait in record]
    if {*map(len, runs)} - {3} or {*map(len, waits)} - {2}:
        raise ArtifactError("launches: expected runs of three numbers, waits of two")
    integers([*chain.from_iterable(runs), *chain.from_iterable(waits)], "launches", 1 << 31)
