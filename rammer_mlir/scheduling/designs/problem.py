"""A fused group as loops, assignments and the values that flow between them (Dali, section 2.4).

An assignment computes a value, or several, in all points of its loops. It reads values of earlier
assignments, and tensors in memory. Loops, assignments and values are named by their numbers.
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
    """What a loop iterates over: elements of a result, what is reduced, or what is gathered."""

    ASSIGNMENT = "assignment"
    REDUCTION = "reduction"
    GATHER = "gather"


class Decision(Enum):
    """What becomes of a value that is read: the paper always stores it."""

    STORED = "stored"
    RECOMPUTED = "recomputed"
    ENDED = "unit ends"


@dataclass(frozen=True)
class Loop:
    """A loop of one assignment; ``contiguous`` loops walk neighbouring elements in memory."""

    name: str
    extent: int
    kind: LoopKind = LoopKind.ASSIGNMENT
    contiguous: bool = True


class Span(NamedTuple):
    """Elements along a dimension: ``constant`` and, for each loop, its factor times steps."""

    terms: tuple[tuple[int, int], ...]
    constant: int = 1


@dataclass(frozen=True)
class Traffic:
    """A tensor in memory that an assignment reads or writes: a span for each dimension."""

    spans: tuple[Span, ...]
    element_bytes: int
    is_write: bool = False


@dataclass(frozen=True)
class Assignment:
    """Loops around a computation, its scalar operations in a point, and its memory traffic.

    What ``is_returned`` leaves the group: it is computed whatever becomes of its readers.
    """

    name: str
    loops: tuple[int, ...]
    operations: int
    traffic: tuple[Traffic, ...] = ()
    is_returned: bool = False


@dataclass(frozen=True)
class Value:
    """What an assignment computes for others of the group.

    Attributes:
        name: for people.
        producer: the assignment.
        dims: the producer's loop that indexes each dimension; None where no loop does by itself.
        shape: size of each dimension.
        element_bytes: of an element.
        decisions: what may become of the value, the preferred one first.
    """

    name: str
    producer: int
    dims: tuple[int | None, ...]
    shape: tuple[int, ...]
    element_bytes: int = 4
    decisions: tuple[Decision, ...] = (Decision.STORED,)


@dataclass(frozen=True)
class Read:
    """An assignment reads a value: its loop that indexes each dimension; None as in ``Value``."""

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
        """Refuse a group that cannot be executed in order.

        Raises:
            ScheduleError: if a loop has no iteration, or an assignment reads a later one.
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
        """Loops of all assignments."""
        return tuple(chain.from_iterable(a.loops for a in self.assignments))

    @cached_property
    def assignment_of(self) -> dict[int, int]:
        """The assignment that each loop belongs to."""
        return {loop: n for n, a in enumerate(self.assignments) for loop in a.loops}

    @property
    def edges(self) -> Iterator[tuple[int, int]]:
        """Yield each pair of a producer's and a reader's loop that index one dimension."""
        for read in self.reads:
            dims = zip(self.values[read.value].dims, read.dims, strict=True)
            yield from ((a, b) for a, b in dims if a is not None and b is not None)

    def points(self, assignment: int) -> int:
        """Return the number of points of an assignment's loops."""
        return prod(self.loops[loop].extent for loop in self.assignments[assignment].loops)
