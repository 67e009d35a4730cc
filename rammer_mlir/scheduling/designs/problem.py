"""Describes a fused group by loops, assignments, and values between them (Dali, section 2.4).

An assignment (a loop nest, such as a ``linalg.generic``) computes one or several values. It reads
values of earlier assignments, and tensors in memory. Loops, assignments and values are referred to
by number: their index in the fields of ``Problem``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from itertools import chain
from math import prod
from typing import NamedTuple

from rammer_mlir.errors import ScheduleError


class LoopKind(Enum):
    """The kind of a loop: the items that it iterates over.

    ``ASSIGNMENT``: elements of a result; ``REDUCTION``: terms of a reduction; ``GATHER``: gathered
    elements.
    """

    ASSIGNMENT = "assignment"
    REDUCTION = "reduction"
    GATHER = "gather"


class Decision(Enum):
    """How the readers inside a fused group get a value that the group computes.

    A unit is a part of the group between two barriers.

    - ``STORED``: the value is computed once and read in the same unit, as always in Dali.
    - ``RECOMPUTED``: each reader computes the value again.
    - ``ENDED``: the value is written to memory, a barrier ends the unit, and a later unit reads the
      value.
    """

    STORED = "stored"
    RECOMPUTED = "recomputed"
    ENDED = "unit ends"


@dataclass(frozen=True)
class Loop:
    """A loop of an assignment (a loop nest of a fused group).

    It has ``extent`` iterations, and is ``contiguous`` if consecutive iterations access consecutive
    elements in memory.
    """

    name: str
    extent: int
    kind: LoopKind = LoopKind.ASSIGNMENT
    contiguous: bool = True


class Span(NamedTuple):
    """The count of elements that a tile of loops touches along one dimension of a tensor.

    The index into the dimension is a sum of factor * loop index; ``terms`` has the pairs (number of
    a loop, factor) of this sum. The count is ``constant`` plus the sum over ``terms`` of
    factor * (n - 1), where n is the number of iterations of the loop in the tile.
    """

    terms: tuple[tuple[int, int], ...]
    constant: int = 1


@dataclass(frozen=True)
class Traffic:
    """A tensor in memory that an assignment (loop nest) reads, or writes if ``is_write`` is True.

    ``spans`` has for each dimension the count of elements that a tile of the assignment's loops
    touches.
    """

    spans: tuple[Span, ...]
    element_bytes: int
    is_write: bool = False


@dataclass(frozen=True)
class Assignment:
    """A loop nest of a fused group.

    Attributes:
        name: name of the assignment in messages.
        loops: numbers of the assignment's loops; empty if the assignment computes nothing.
        operations: scalar operations of an iteration of the innermost loop.
        traffic: the tensors in memory that the assignment reads and writes.
        is_returned: whether the result is used outside of the group. Then the assignment stays in
            the group even if all readers inside the group recompute the result.
    """

    name: str
    loops: tuple[int, ...]
    operations: int
    traffic: tuple[Traffic, ...] = ()
    is_returned: bool = False


@dataclass(frozen=True)
class Value:
    """A result of an assignment (loop nest) that other assignments of the fused group read.

    Attributes:
        name: its name in messages.
        producer: number of the assignment that computes the value.
        dims: for each dimension of the value, the number of the producer's loop that indexes it;
            None if the index is not a single loop.
        shape: size of each dimension.
        element_bytes: bytes of an element.
        decisions: allowed ways in which readers get the value (it is stored, recomputed or passed
            through memory), in order of preference.
    """

    name: str
    producer: int
    dims: tuple[int | None, ...]
    shape: tuple[int, ...]
    element_bytes: int = 4
    decisions: tuple[Decision, ...] = (Decision.STORED,)


@dataclass(frozen=True)
class Read:
    """A read of a value by an assignment (loop nest).

    Attributes:
        value: number of the value.
        reader: number of the assignment that reads the value.
        dims: for each dimension of the value, the number of the reader's loop that indexes it; None
            if the index is not a single loop.
    """

    value: int
    reader: int
    dims: tuple[int | None, ...]


@dataclass(frozen=True)
class Problem:
    """A fused group whose loops are to be mapped to vEUs and lanes.

    Attributes:
        loops: the loops of all assignments.
        assignments: the loop nests, in order of execution.
        values: the results of assignments that other assignments of the group read.
        reads: the reads of these values.
    """

    loops: tuple[Loop, ...]
    assignments: tuple[Assignment, ...]
    values: tuple[Value, ...] = ()
    reads: tuple[Read, ...] = ()

    def __post_init__(self) -> None:
        """Check that a group can be executed in order.

        Raises:
            ScheduleError: if a loop has no iterations, or an assignment reads a later assignment's
                value.
        """
        for loop in self.loops:
            if loop.extent < 1:
                raise ScheduleError(
                    f"design: loop '{loop.name}': expected an extent of at least 1, found "
                    f"{loop.extent}; leave out what has no elements"
                )
        for read in self.reads:
            value = self.values[read.value]
            if value.producer >= read.reader:
                raise ScheduleError(
                    f"design: value '{value.name}': expected readers behind assignment "
                    f"{value.producer}, found {read.reader}; put assignments in order"
                )

    @cached_property
    def used_loops(self) -> tuple[int, ...]:
        """The loops of all assignments (loop nests), by number, assignment by assignment.

        Loops are left out if ``decide`` emptied their assignment, because all readers recompute the
        assignment's values.
        """
        return tuple(chain.from_iterable(a.loops for a in self.assignments))

    @cached_property
    def assignment_of(self) -> dict[int, int]:
        """For each loop, the assignment (loop nest) that contains it; both are given by number."""
        return {loop: n for n, a in enumerate(self.assignments) for loop in a.loops}

    @property
    def edges(self) -> Iterator[tuple[int, int]]:
        """Yield pairs of loops that index the same dimension of a value.

        A pair has the number of a loop of the value's producer and the number of a loop of a
        reader. A dimension has no pair if the producer or the reader does not index it by a single
        loop.
        """
        for read in self.reads:
            dims = zip(self.values[read.value].dims, read.dims, strict=True)
            yield from ((a, b) for a, b in dims if a is not None and b is not None)

    def points(self, assignment: int) -> int:
        """Return the number of iterations of a loop nest: the product of its loops' extents.

        ``assignment`` is the number of the loop nest.
        """
        return prod(self.loops[loop].extent for loop in self.assignments[assignment].loops)
