"""Computes the sizes of all intervals of consecutive units, each of which may become a region.

A unit is a composite, or a single operation with the operations of its reading.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.bindings import ir
from rammer_mlir.passes.regions.interval_partition import Limits
from rammer_mlir.passes.regions.region_graph import RegionGraph
from rammer_mlir.passes.regions.units import Unit

Int64Array = NDArray[np.int64]


@dataclass(frozen=True)
class IntervalSizes:
    """The sizes of all intervals of units with a common end.

    Each array has an element for each interval, in ascending order of where intervals begin; the
    last interval is a single unit.

    Attributes:
        bytes: bytes of all tensors that the interval reads, writes and computes, each counted once.
        transfer_bytes: bytes of the tensors that it reads from and writes to the outside.
        values: the number of tensors that it reads from and writes to the outside.
    """

    bytes: Int64Array
    transfer_bytes: Int64Array
    values: Int64Array

    def within(self, limits: Limits) -> NDArray[np.bool_]:
        """Return, for each interval, whether it is within the limits of a region."""
        lengths = np.arange(len(self.bytes), 0, -1)
        found = np.ones(len(lengths), dtype=np.bool_)
        for sizes, limit in (
            (lengths, limits.operations),
            (self.bytes, limits.bytes),
            (self.values, limits.values),
        ):
            if limit:
                found &= sizes <= limit
        return found


def interval_sizes(
    graph: RegionGraph, numbers: Sequence[int], limits: Limits
) -> Iterator[IntervalSizes]:
    """Yield, for each unit in order, the sizes of the intervals that end after this unit.

    Intervals that exceed the limits are omitted, and so are all longer intervals, which have at
    least as many operations and bytes.

    Args:
        graph: the graph of the units.
        numbers: the numbers of the units, in their order.
        limits: the limits of a region.
    """
    intervals = _Intervals(len(numbers), graph)
    for at, number in enumerate(numbers):
        intervals.append(at, graph.units[number], limits)
        part = slice(intervals.first, at + 1)
        yield IntervalSizes(
            intervals.bytes[part], intervals.transfer_bytes[part], intervals.values[part]
        )


@dataclass
class _Intervals:
    """The sizes of all intervals of consecutive units that end with the last appended unit.

    Element ``b`` of ``bytes``, ``transfer_bytes`` and ``values`` belongs to the interval that
    begins with unit ``b``.

    Attributes:
        count: the number of units.
        graph: the graph of the units.
        first: the unit at which the longest interval within the limits begins.
    """

    count: int
    graph: RegionGraph
    first: int = 0
    _seen: dict[ir.Value, int] = field(default_factory=dict[ir.Value, int])
    _made: dict[ir.Value, int] = field(default_factory=dict[ir.Value, int])
    _readers: dict[ir.Value, int] = field(default_factory=dict[ir.Value, int])

    def __post_init__(self) -> None:
        """Set the sizes of all intervals to 0."""
        self.bytes, self.transfer_bytes, self.values = np.zeros((3, self.count), dtype=np.int64)

    def append(self, at: int, unit: Unit, limits: Limits) -> None:
        """Extend all intervals by unit number ``at``.

        ``first`` is raised until the interval that begins there is within ``limits``.
        """
        inputs = set(unit.inputs)
        for value, size in unit.num_bytes.items():
            new = slice(max(self._seen.get(value, -1) + 1, self.first), at + 1)
            self.bytes[new] += size
            if value in inputs:
                self._cross(new, size, 1)
                self._read(value, size)
            self._seen[value] = at
        for value in unit.outputs:
            self._made[value], self._readers[value] = at, self.graph.num_readers[value]
            self._cross(slice(self.first, at + 1), unit.num_bytes[value], 1)
        if limits.operations:
            self.first = max(self.first, at + 1 - limits.operations)
        if limits.bytes:
            self.first += int((self.bytes[self.first : at + 1] > limits.bytes).sum())
        self.first = min(self.first, at)

    def _read(self, value: ir.Value, size: int) -> None:
        """Record that the last appended unit reads a value of ``size`` bytes.

        If it is the last reader of a value that a unit of the sequence computes, the value is no
        longer an output of the intervals that contain the value's producer.
        """
        if value in self._readers:
            self._readers[value] -= 1
            if not self._readers[value]:
                self._cross(slice(self.first, self._made[value] + 1), -size, -1)

    def _cross(self, begins: slice, size: int, values: int) -> None:
        """Count tensors that cross the boundary of some intervals: their inputs or outputs.

        Args:
            begins: the range of the intervals' begins.
            size: the bytes of all tensors together; negative to subtract.
            values: the number of tensors; negative to subtract.
        """
        self.transfer_bytes[begins] += size
        self.values[begins] += values
