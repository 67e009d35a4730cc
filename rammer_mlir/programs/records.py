"""A compiled program as typed records: what each vEU of each launch does, in which order.

This is the one form in which the compiler, the artifact, timelines and messages know a program;
``docs/program.md`` specifies it. Targets encode it once, as the table of words that their code
executes (``cpu_table``, ``gpu_table``), and nothing reads those words back but that code and the
checker.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

Base = Literal["input", "output", "constant", "arena"]
"""What a pointer begins in: an array of the caller, the weights, or the arena."""


@dataclass(frozen=True)
class Slot:
    """Where an argument of an rKernel begins: ``offset`` bytes into a buffer.

    ``index`` numbers the inputs or the outputs of the signature; constants and the arena are one
    buffer each, and it is 0 for them.
    """

    base: Base
    index: int
    offset: int


@dataclass(frozen=True)
class KernelSymbol:
    """An rKernel: its name and its number of buffers."""

    name: str
    num_arguments: int


@dataclass(frozen=True)
class Operator:
    """What all runs of an rOperator have in common.

    Attributes:
        name: the model's name for it.
        kernel: number of its rKernel among the program's.
        slots: where each buffer of the rKernel begins.
    """

    name: str
    kernel: int
    slots: tuple[Slot, ...]


@dataclass(frozen=True)
class RunRecord:
    """rTasks ``first .. first + count - 1`` of an rOperator, one after the other."""

    operator: int
    first: int
    count: int


@dataclass(frozen=True)
class BarrierRecord:
    """Wait until each vEU of the pairs has completed so many rTasks of this launch."""

    waits: tuple[tuple[int, int], ...]


Record = RunRecord | BarrierRecord


@dataclass(frozen=True)
class Launch:
    """What all vEUs do between the host's call and its return: their records, in order."""

    veus: tuple[tuple[Record, ...], ...]

    @cached_property
    def totals(self) -> tuple[int, ...]:
        """Return how many rTasks each vEU completes."""
        return tuple(
            sum(record.count for record in veu if isinstance(record, RunRecord))
            for veu in self.veus
        )

    @property
    def num_records(self) -> int:
        """Return how many records all vEUs have together."""
        return sum(map(len, self.veus))

    @property
    def busy_veus(self) -> int:
        """VEUs up to the last that has anything to do, at least one: later ones need not run.

        Programs of a few short rTasks often leave all but one idle.
        """
        return max((number for number, records in enumerate(self.veus, 1) if records), default=1)

    @cached_property
    def awaited(self) -> tuple[frozenset[int], ...]:
        """Return for each vEU the numbers of completed rTasks that others wait for."""
        found: list[set[int]] = [set() for _ in self.veus]
        for record in self.records():
            if isinstance(record, BarrierRecord):
                for veu, steps in record.waits:
                    found[veu].add(steps)
        return tuple(map(frozenset, found))

    def records(self) -> Iterator[Record]:
        """Yield the records of all vEUs, vEU after vEU."""
        for records in self.veus:
            yield from records


@dataclass(frozen=True)
class Program:
    """A compiled program: launches that follow each other, each complete before the next begins.

    Attributes:
        kernels: the rKernels by number.
        operators: the rOperators in an order in which they could run one after the other.
        launches: usually one; one for each rOperator where programs are launched like that.
    """

    kernels: tuple[KernelSymbol, ...]
    operators: tuple[Operator, ...]
    launches: tuple[Launch, ...]

    @property
    def num_veus(self) -> int:
        """Return how many vEUs every launch has."""
        return len(self.launches[0].veus)

    @cached_property
    def slots(self) -> tuple[Slot, ...]:
        """Return the distinct pointers of all rOperators, in their order."""
        return tuple(dict.fromkeys(slot for operator in self.operators for slot in operator.slots))

    def kernel_of(self, record: RunRecord) -> KernelSymbol:
        """Return the rKernel that a record runs."""
        return self.kernels[self.operators[record.operator].kernel]
