"""Represents a program as typed records: the runs and barriers of each vEU in each launch.

The compiler, artifacts, timelines and messages all use these records, which ``docs/program.md``
specifies. For each target, the records are encoded as a table of integers (``cpu_table``,
``gpu_table``). Only the generated code and the checker read this table.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

Base = Literal["input", "output", "constant", "arena"]
"""Kind of memory to which a pointer refers: the caller's arrays, the weights, or the arena."""


@dataclass(frozen=True)
class Slot:
    """The memory that an rKernel's argument points to: ``offset`` bytes into a buffer.

    For an input or output, ``index`` is its index in the signature. For constants and the arena,
    which are one buffer each, ``index`` is 0.
    """

    base: Base
    index: int
    offset: int


@dataclass(frozen=True)
class KernelSymbol:
    """An rKernel: the name of its function, and the count of the function's pointer arguments."""

    name: str
    num_arguments: int


@dataclass(frozen=True)
class Operator:
    """An rOperator: the data that all its rTasks share.

    Attributes:
        name: the model's name for the rOperator.
        kernel: index of its rKernel in ``Program.kernels``.
        slots: the memory that each argument of the rKernel points to.
    """

    name: str
    kernel: int
    slots: tuple[Slot, ...]


@dataclass(frozen=True)
class RunRecord:
    """Consecutive rTasks ``first .. first + count - 1`` of an rOperator, run sequentially.

    ``operator`` is the rOperator's index in ``Program.operators``.
    """

    operator: int
    first: int
    count: int


@dataclass(frozen=True)
class BarrierRecord:
    """A wait for other vEUs.

    ``waits`` has pairs (vEU, steps): the wait ends when each vEU named there has completed
    ``steps`` rTasks of this launch.
    """

    waits: tuple[tuple[int, int], ...]


Record = RunRecord | BarrierRecord


@dataclass(frozen=True)
class Launch:
    """A launch of the program's code: the records (rTask runs, barriers) of each vEU, in order."""

    veus: tuple[tuple[Record, ...], ...]

    @cached_property
    def totals(self) -> tuple[int, ...]:
        """Return the number of rTasks that each vEU completes."""
        return tuple(
            sum(record.count for record in veu if isinstance(record, RunRecord))
            for veu in self.veus
        )

    @property
    def num_records(self) -> int:
        """Return the number of records (rTask runs and barriers) of all vEUs."""
        return sum(map(len, self.veus))

    @property
    def busy_veus(self) -> int:
        """Number of vEUs that have to run: the last vEU with runs or barriers, and all before it.

        The number is at least 1. Programs of a few short rTasks often have records only for the
        first vEU.
        """
        return max((number for number, records in enumerate(self.veus, 1) if records), default=1)

    @cached_property
    def awaited(self) -> tuple[frozenset[int], ...]:
        """Return, for each vEU, the counts of completed rTasks at which waits of other vEUs end."""
        found: list[set[int]] = [set() for _ in self.veus]
        for record in self.records():
            if isinstance(record, BarrierRecord):
                for veu, steps in record.waits:
                    found[veu].add(steps)
        return tuple(map(frozenset, found))

    def records(self) -> Iterator[Record]:
        """Yield the records (rTask runs and barriers) of all vEUs, in vEU order."""
        for records in self.veus:
            yield from records


@dataclass(frozen=True)
class Program:
    """A compiled program: launches in sequence, each complete before the next begins.

    Attributes:
        kernels: the rKernels; operators refer to them by index.
        operators: the rOperators in a valid sequential order.
        launches: a single launch, or, for a GPU program without a persistent kernel, a launch for
            each rOperator.
    """

    kernels: tuple[KernelSymbol, ...]
    operators: tuple[Operator, ...]
    launches: tuple[Launch, ...]

    @property
    def num_veus(self) -> int:
        """Return the number of vEUs of every launch."""
        return len(self.launches[0].veus)

    @cached_property
    def slots(self) -> tuple[Slot, ...]:
        """Return the distinct slots of all rOperators, in order of first use."""
        return tuple(dict.fromkeys(slot for operator in self.operators for slot in operator.slots))

    def kernel_of(self, record: RunRecord) -> KernelSymbol:
        """Return the rKernel that a record runs."""
        return self.kernels[self.operators[record.operator].kernel]
