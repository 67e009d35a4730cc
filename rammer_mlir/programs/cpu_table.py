"""Encodes a CPU program's schedule as arrays of integers for its dispatch code.

``docs/program.md`` specifies the encoding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, chain

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.programs.records import Program, Record, RunRecord, Slot

BARRIER, END = -1, -2
"""First words of barrier and end records; a run record begins with its rKernel's index."""

RUN_WORDS = 4


@dataclass(frozen=True)
class CpuTable:
    """The schedule as the dispatch code of a CPU reads it.

    A record is a sequence of words, and its first word tells its kind:

    - the index of an rKernel: consecutive rTasks of one rOperator. Then follow the first rTask, the
      count of rTasks, and an index in ``arguments``.
    - -1: a barrier. Then follow ``n``, and ``n`` pairs of a vEU and the number of its steps to wait
      for.
    - -2: the end of a vEU's records.

    Attributes:
        records: int32, the records of all vEUs, concatenated.
        starts: int32 [num_veus], index in ``records`` of each vEU's first word.
        arguments: int32, an index in ``slots`` for each rKernel argument of each rOperator,
            concatenated in the order of rOperators.
        totals: int64 [num_veus], number of rTasks that each vEU executes in one run.
        slots: the distinct memory locations that rKernel arguments point to. A run has their
            addresses, in the same order, in an array called the pointer table.
    """

    records: NDArray[np.int32]
    starts: NDArray[np.int32]
    arguments: NDArray[np.int32]
    totals: NDArray[np.int64]
    slots: tuple[Slot, ...]


def encode_for_cpu(program: Program) -> CpuTable:
    """Return the task table of a program's only launch."""
    (launch,) = program.launches
    number = {slot: position for position, slot in enumerate(program.slots)}
    starts = _argument_starts(program)
    veus = [
        [*chain.from_iterable(_words(program, starts, record) for record in records), END]
        for records in launch.veus
    ]
    return CpuTable(
        records=np.array([*chain.from_iterable(veus)], dtype=np.int32),
        starts=np.array([0, *accumulate(map(len, veus))][:-1], dtype=np.int32),
        arguments=np.array([number[s] for o in program.operators for s in o.slots], dtype=np.int32),
        totals=np.array(launch.totals, dtype=np.int64),
        slots=program.slots,
    )


def _argument_starts(program: Program) -> list[int]:
    """Return, for each rOperator, the index of its first argument in ``CpuTable.arguments``.

    One more element at the end is the length of ``CpuTable.arguments``.
    """
    return [0, *accumulate(len(operator.slots) for operator in program.operators)]


def _words(program: Program, starts: Sequence[int], record: Record) -> Sequence[int]:
    if isinstance(record, RunRecord):
        kernel = program.operators[record.operator].kernel
        return kernel, record.first, record.count, starts[record.operator]
    return BARRIER, len(record.waits), *chain.from_iterable(record.waits)
