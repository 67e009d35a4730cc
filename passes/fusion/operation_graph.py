"""Builds the data-flow graph of an MLIR block: finds the sources and readers of each operation."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cached_property

from rammer_mlir.bindings import ir
from rammer_mlir.passes.fusion.grouping import Units, enclosing, is_computed
from rammer_mlir.passes.ir.structured import captured_values, is_generic


class OperationGraph:
    """The data-flow graph of an MLIR block.

    Operations are numbered in the order of the block; the terminator is no node of the graph.
    """

    def __init__(self, block: ir.Block, units: Units) -> None:
        """Store the operations of a block, which must not change afterwards.

        ``units`` memoizes properties of operations; the graph reads and extends this cache.
        """
        *self.operations, self._terminator = list(block.operations)
        self._units = units
        everything = [*self.operations, self._terminator]
        self._position = {op.operation: number for number, op in enumerate(everything)}

    @cached_property
    def sources(self) -> list[set[int]]:
        """For each operation, the numbers of the operations that compute its operands."""
        return [
            {
                self._position[value.owner.operation]
                for value in [*op.operation.operands, *captured_values(op)]
                if not isinstance(value.owner, ir.Block)
            }
            for op in self.operations
        ]

    @cached_property
    def readers(self) -> list[set[int]]:
        """For each operation, the numbers of the operations that read its results.

        The terminator counts as a reader; its number is the count of the other operations.
        """
        found: list[set[int]] = [set() for _ in self.operations]
        for number, results in enumerate(self.readers_of_results):
            found[number].update(*results)
        return found

    @cached_property
    def readers_of_results(self) -> list[list[set[int]]]:
        """For each result of each operation, the numbers of the operations that read the result."""
        return [
            [
                {self._position[enclosing(use.owner, self._position)] for use in result.uses}
                for result in op.operation.results
            ]
            for op in self.operations
        ]

    @cached_property
    def scalar_groups(self) -> list[list[int]]:
        """Groups of operations that pass scalars to each other, each a list of operation numbers.

        Each group has to become one rOperator, because the operands of an rOperator are tensors.
        """
        group_of: dict[int, set[int]] = {}
        for number, op in enumerate(self.operations):
            for value in self._units.values(op) if is_computed(op) else ():
                owner = value.owner
                if isinstance(value.type, ir.RankedTensorType) or isinstance(owner, ir.Block):
                    continue
                source = self._position[owner.operation]
                merged = group_of.get(source, {source}) | group_of.get(number, {number})
                group_of.update(dict.fromkeys(merged, merged))
        unique = {id(group): sorted(group) for group in group_of.values()}
        return sorted(unique.values())

    @cached_property
    def fusable(self) -> list[int]:
        """The numbers of the operations that can be tiled into rTasks and therefore be fused."""
        taken = {number for group in self.scalar_groups for number in group}
        return [
            number
            for number, op in enumerate(self.operations)
            if number not in taken
            and is_generic(op)
            and is_computed(op)
            and self._units.space([op]) is not None
        ]

    @cached_property
    def alone(self) -> list[list[int]]:
        """The rOperators that fusion leaves as they are, each a list of its operations' numbers.

        They are the ``scalar_groups``, and a separate rOperator for each other operation that
        cannot be fused. Views, and operations that are cloned for each user, such as constants, are
        left out.
        """
        grouped = {number for group in self.scalar_groups for number in group}
        others = grouped.union(self.fusable)
        single = [
            [number]
            for number, op in enumerate(self.operations)
            if number not in others and is_computed(op)
        ]
        return sorted([*self.scalar_groups, *single])

    def members(self, unit: Collection[int]) -> Sequence[ir.OpView]:
        """Return the operations whose numbers are in ``unit``, in the order of the block."""
        return [self.operations[number] for number in sorted(unit)]
