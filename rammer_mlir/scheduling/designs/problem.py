"""A fused group as loops, assignments and the values that flow between them (Dali, section 2.4).

An assignment computes one or several values at all points of its loops. It reads values of earlier
assignments, and tensors in memory. Loops, assignments and values are referred to by number.
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
    """The kind of a loop: over elements of a result, over a reduction or over gathered elements."""

    ASSIGNMENT = "assignment"
    REDUCTION = "reduction"
    GATHER = "gather"


class Decision(Enum):
    """The decision on a value that is read in the group; Dali always stores it."""

    STORED = "stored"
    RECOMPUTED = "recomputed"
    ENDED = "unit ends"


@dataclass(frozen=True)
class Loop:
    """A loop of an assignment.

    It has ``extent`` iterations, and is ``contiguous`` if it accesses consecutive elements in
    memory.
    """

    name: str
    extent: int
    kind: LoopKind = LoopKind.ASSIGNMENT
    contiguous: bool = True


class Span(NamedTuple):
    """The elements of a tile along a dimension of a tensor.

    Their number is ``constant`` plus factor * (iterations of the loop in the tile - 1) for each
    (loop, factor) of ``terms``.
    """

    terms: tuple[tuple[int, int], ...]
    constant: int = 1


@dataclass(frozen=True)
class Traffic:
    """A tensor in memory that an assignment reads, or writes if ``is_write``.

    ``spans`` has the elements of a tile along each dimension.
    """

    spans: tuple[Span, ...]
    element_bytes: int
    is_write: bool = False


@dataclass(frozen=True)
class Assignment:
    """An assignment: its loops, its scalar operations per point, and its memory traffic.

    ``is_returned`` marks an assignment whose result leaves the group: it is always computed.
    """

    name: str
    loops: tuple[int, ...]
    operations: int
    traffic: tuple[Traffic, ...] = ()
    is_returned: bool = False


@dataclass(frozen=True)
class Value:
    """A result of an assignment that other assignments of the group read.

    Attributes:
        name: its name in messages.
        producer: number of the assignment.
        dims: for each dimension the producer's loop that alone indexes it; None if there is none.
        shape: size of each dimension.
        element_bytes: bytes of an element.
        decisions: allowed decisions, the preferred one first.
    """

    name: str
    producer: int
    dims: tuple[int | None, ...]
    shape: tuple[int, ...]
    element_bytes: int = 4
    decisions: tuple[Decision, ...] = (Decision.STORED,)


@dataclass(frozen=True)
class Read:
    """A read of a value by an assignment.

    ``value`` and ``reader`` are their numbers in the problem. ``dims`` has the reader's loop that
    alone indexes each dimension of the value; None if there is none.
    """

    value: int
    reader: int
    dims: tuple[int | None, ...]


@dataclass(frozen=True)
class Problem:
    """A group whose loops are to be mapped to hardware; assignments are in order of execution."""

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
        """The loops of all assignments, in order."""
        return tuple(chain.from_iterable(a.loops for a in self.assignments))

    @cached_property
    def assignment_of(self) -> dict[int, int]:
        """The number of the assignment of each loop."""
        return {loop: n for n, a in enumerate(self.assignments) for loop in a.loops}

    @property
    def edges(self) -> Iterator[tuple[int, int]]:
        """Yield the pairs of a producer's and a reader's loop that index the same dimension."""
        for read in self.reads:
            dims = zip(self.values[read.value].dims, read.dims, strict=True)
            yield from ((a, b) for a, b in dims if a is not None and b is not None)

    def points(self, assignment: int) -> int:
        """Return the number of points of an assignment's loops."""
        return prod(self.loops[loop].extent for loop in self.assignments[assignment].loops)
