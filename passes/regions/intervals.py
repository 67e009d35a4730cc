"""Computes the bytes, and the count of inputs and outputs, of all intervals of consecutive units.

Each interval is a candidate for a region. A unit is a composite (a match of a code generator's
pattern), or the IR operations of a recognized tensor operation, or any other single operation.
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
    """The sizes of the intervals of consecutive units that end with the same unit.

    A unit is a composite (a match of a code generator's pattern) or a single tensor operation.

    Each array has an element for each interval, the longest interval first; the last element is
    that of the interval with a single unit.

    Attributes:
        bytes: bytes of all tensors that the interval reads, writes and computes, each counted once.
        transfer_bytes: bytes of the interval's inputs and outputs.
        values: count of the interval's inputs and outputs.
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
    """Yield, for each unit in order, the sizes of the intervals that end with this unit.

    Intervals above the limit on operations or bytes are omitted, except for the interval of one
    unit. The limit on inputs and outputs omits no interval, because a longer interval may have
    fewer inputs and outputs.

    Args:
        graph: the graph of the units.
        numbers: the indices in ``graph`` of the units of the sequence, in order.
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

    A unit is a composite (a match of a code generator's pattern) or a single tensor operation.

    Element ``b`` of the arrays ``bytes``, ``transfer_bytes`` and ``values`` belongs to the interval
    that begins with unit ``b`` of the sequence.

    Attributes:
        count: count of the units in the whole sequence.
        graph: the graph of the units.
        first: index of the unit at which the longest interval within the limits on operations
            and bytes begins.
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
        """Extend all intervals by ``unit``, which has index ``at`` in the sequence.

        Increase the index ``first`` until the interval of the units ``first`` to ``at`` is within
        the limits on operations and bytes, or contains only ``unit``.
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
        """Record that the last appended unit reads ``value``, a tensor of ``size`` bytes.

        If the unit is the last reader of ``value`` and a unit of the sequence computes ``value``,
        then ``value`` is no longer an output of the intervals that contain its producer.
        """
        if value in self._readers:
            self._readers[value] -= 1
            if not self._readers[value]:
                self._cross(slice(self.first, self._made[value] + 1), -size, -1)

    def _cross(self, begins: slice, size: int, values: int) -> None:
        """Add to the bytes and the count of the inputs and outputs of some intervals.

        Args:
            begins: the indices of the first units of these intervals.
            size: bytes to add; negative to subtract.
            values: count of inputs and outputs to add; negative to subtract.
        """
        self.transfer_bytes[begins] += size
        self.values[begins] += values
