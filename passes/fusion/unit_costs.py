"""Predicts the time of a unit (a set of operations) as a separate rOperator on a device."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from rammer_mlir.bindings import ir
from rammer_mlir.passes.fusion.grouping import Units
from rammer_mlir.passes.fusion.operation_graph import OperationGraph
from rammer_mlir.passes.fusion.spaces import FusedSpace
from rammer_mlir.passes.ir.structured import Structured, is_constant
from rammer_mlir.passes.tiling.choice import LoopLimit
from rammer_mlir.passes.tiling.device_tiles import estimated_kernel
from rammer_mlir.passes.tiling.kernel import loop_limits
from rammer_mlir.passes.tiling.space import analyze
from rammer_mlir.passes.tiling.space_cost import SpaceCost
from rammer_mlir.scheduling.costs import runtime
from rammer_mlir.scheduling.device_costs import Device
from rammer_mlir.scheduling.graph import RKernel

_Pattern = tuple[tuple[int, tuple[tuple[int, int], ...], tuple[bool, ...]], ...]
"""A key of a unit for which equal keys have equal costs.

For each operation: the number of its pattern (``Units.kind``), the origin of each used value, and
for each result whether the unit writes it to memory. An origin is a pair: an operation's position
in the unit and a result's index, or ``_OUTSIDE`` and the value's number, or ``_CONSTANT`` and 0.
"""

_OUTSIDE, _CONSTANT = -1, -2
"""Origins of values that no operation of the unit computes: from outside, or a constant."""


class UnitCosts:
    """The predicted seconds of a block's units (sets of operations that may become an rOperator).

    Units with equal computation are estimated once.
    """

    def __init__(
        self, graph: OperationGraph, units: Units, device: Device, *, launches: bool = False
    ) -> None:
        """Start with an empty cache.

        Args:
            graph: the block's operations.
            units: tells which units are legal, and memoizes properties of their operations.
            device: the device whose cost model and tiles are used.
            launches: whether each rOperator is a separate launch; otherwise a barrier precedes it.
        """
        self._graph = graph
        self._units = units
        self._device = device
        self._start = device.launch_seconds if launches else device.barrier_seconds
        self._of_unit: dict[frozenset[int], float] = {}
        self._of_pattern: dict[_Pattern, float] = {}

    @property
    def num_patterns(self) -> int:
        """The count of different units whose time was estimated.

        Two units are equal if corresponding operations have equal loops, types and bodies, read the
        results of corresponding operations, and write the same results to memory.
        """
        return len(self._of_pattern)

    def seconds(self, unit: frozenset[int]) -> float:
        """Return the predicted seconds of a unit, including its barrier or launch.

        The result is infinite if the unit is illegal. It is also infinite if fusion prevents a loop
        of a contraction in the unit from being tiled, because the cost model does not predict how
        much slower such a contraction is.
        """
        if unit not in self._of_unit:
            self._of_unit[unit] = self._seconds(unit)
        return self._of_unit[unit]

    def _seconds(self, unit: frozenset[int]) -> float:
        members = self._graph.members(unit)
        space = self._units.space(members)
        if space is None or self._slows_a_contraction(members, space):
            return inf
        pattern = self._pattern(sorted(unit))
        if pattern not in self._of_pattern:
            kernel = self._estimate(sorted(unit))
            self._of_pattern[pattern] = self._start + runtime(kernel, self._device)
        return self._of_pattern[pattern]

    def _slows_a_contraction(self, members: Sequence[ir.OpView], space: FusedSpace) -> bool:
        """Whether fusion prevents a loop of a contraction in a unit from being tiled.

        The code of such a contraction is not blocked for caches or registers, which the cost model
        ignores: a product whose rTasks also compute a normalization was measured to take twice as
        long. ``members`` are the operations of the unit, ``space`` describes its parallelism.
        """
        alone = (
            self._units.space([op]) for op in members if self._units.structured(op).is_contraction
        )
        return any(one is not None and space.parallelism < one.parallelism for one in alone)

    def _escapes(self, number: int, unit: Sequence[int]) -> list[bool]:
        """Return for each result of operation ``number`` whether the unit writes it to memory."""
        readers = self._graph.readers_of_results[number]
        return [not found <= set(unit) for found in readers]

    def _pattern(self, unit: Sequence[int]) -> _Pattern:
        known: dict[ir.Value, tuple[int, int]] = {}
        found: list[tuple[int, tuple[tuple[int, int], ...], tuple[bool, ...]]] = []
        for place, number in enumerate(unit):
            op = self._graph.operations[number]
            used = self._units.structured(op)
            values = [*used.operands, *used.captures]
            # Outside values are numbered by first use, so that equal computations have equal
            # patterns.
            sources = tuple(known.setdefault(v, _source(v, len(known))) for v in values)
            found.append((self._units.kind(op), sources, tuple(self._escapes(number, unit))))
            known.update((value, (place, n)) for n, value in enumerate(op.operation.results))
        return tuple(found)

    def _estimate(self, unit: Sequence[int]) -> RKernel:
        """Return the rKernel of the unit's fastest tiling by the device's cost model."""
        operations = self._graph.members(unit)
        returned = [
            value
            for number, op in zip(unit, operations, strict=True)
            for value, leaves in zip(op.operation.results, self._escapes(number, unit), strict=True)
            if leaves
        ]
        inputs = self._units.inputs(operations)
        structured = [self._units.structured(op) for op in operations]
        return estimate(structured, inputs, returned, self._device)


def _source(value: ir.Value, number: int) -> tuple[int, int]:
    return (_CONSTANT, 0) if is_constant(value) else (_OUTSIDE, number)


def estimate(
    operations: Sequence[Structured],
    inputs: Sequence[ir.Value],
    returned: Sequence[ir.Value],
    device: Device,
) -> RKernel:
    """Return the rKernel of the tiling that is fastest by the device's cost model.

    The rKernel has only costs: its operands' boxes are not computed.

    Args:
        operations: the operations of the rKernel, which have to be fusable.
        inputs: the values that the operations read and do not compute.
        returned: the results that are written to memory.
        device: the device with the cost model.
    """
    space = analyze(operations, returned)
    assert space is not None, "expected operations whose loops line up"
    limits = [
        limit if limit.contiguous else LoopLimit()
        for limit in loop_limits({*inputs, *returned}, space)
    ]
    cost = SpaceCost(space, set(inputs), set(returned)).of
    extents = [tile_class.extent for tile_class in space.classes]
    return estimated_kernel(device, extents, limits, cost)
