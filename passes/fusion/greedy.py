"""Groups operations into rOperators greedily, in def-before-use order.

An operation is merged with the groups that compute its operands if the union may be an rOperator
(``grouping.Units``), the boundary admits it, and the graph of groups stays acyclic.
"""

from __future__ import annotations

from collections.abc import Sequence

from rammer_mlir.bindings import ir
from rammer_mlir.passes.fusion.boundaries import Boundary, Joined, Parallelism
from rammer_mlir.passes.fusion.grouping import (
    Group,
    Units,
    enclosing,
    is_computed,
    is_defined_in,
    is_view,
)
from rammer_mlir.passes.ir.structured import is_generic

_DEFAULT = Parallelism()


def group_operations(
    block: ir.Block, boundary: Boundary = _DEFAULT, units: Units | None = None
) -> list[Group]:
    """Return the block's computed operations, grouped into rOperators.

    The groups are in the order of their last operations in the block. Views and operations that are
    cloned for each user, such as constants, are left out.

    Args:
        block: the block of the entry function.
        boundary: the rule that decides whether two groups are merged.
        units: a cache of properties of units, which is read and extended; its ``gathers`` has to
            equal that of ``boundary``. None to start with an empty cache.
    """
    units = units or Units(gathers=boundary.gathers)
    return _Grouping(list(block.operations)[:-1], boundary, units).groups()


class _Grouping:
    def __init__(self, operations: Sequence[ir.OpView], boundary: Boundary, units: Units) -> None:
        self._operations = operations
        self._boundary = boundary
        self._units = units
        self._position = {op.operation: i for i, op in enumerate(operations)}
        self._group_of: dict[ir.Operation, Group] = {}
        self._root: dict[ir.Value, int] = {}

    def groups(self) -> list[Group]:
        for position, op in enumerate(self._operations):
            if is_view(op):
                self._root[op.operation.results[0]] = max(
                    (self._root_position(value) for value in op.operation.operands), default=-1
                )
            elif is_computed(op):
                self._place(position, op)
        unique = dict.fromkeys(self._group_of.values())
        return sorted(unique, key=lambda group: self._position[group.operations[-1].operation])

    def _root_position(self, value: ir.Value) -> int:
        if value in self._root:
            return self._root[value]
        owner = value.owner
        if isinstance(owner, ir.Block):
            return -1
        return self._position.get(owner.operation, -1)

    def _place(self, position: int, op: ir.OpView) -> None:
        space = self._units.space([op]) if is_generic(op) else None
        group = Group([op], position, space)
        self._group_of[op.operation] = group
        for producer in self._producer_groups(op):
            if producer is not group:
                group = self._try_merge(producer, group, op)

    def _producer_groups(self, op: ir.OpView) -> list[Group]:
        found: dict[Group, None] = {}
        for value in self._units.values(op):
            owner = value.owner
            if not isinstance(owner, ir.Block) and owner.operation in self._group_of:
                found[self._group_of[owner.operation]] = None
        return sorted(found, key=self._latest_input, reverse=True)

    def _latest_input(self, group: Group) -> int:
        """Return the position in the block of the last operation that computes an input of a group.

        Return -1 if no operation computes an input. The position orders the producers with which an
        operation may be merged. For example, a sum of two products can be merged with only one of
        the products: it is merged with the product whose inputs are ready last, so that the other
        product can run early.
        """
        return max(map(self._root_position, self._units.inputs(group.operations)), default=-1)

    def _try_merge(self, producer: Group, consumer: Group, op: ir.OpView) -> Group:
        forced = self._passes_scalar(producer, op)
        if not forced and (producer.is_opaque or consumer.is_opaque):
            return consumer
        operations = sorted(
            producer.operations + consumer.operations, key=lambda o: self._position[o.operation]
        )
        merged = Group(operations, min(producer.start, consumer.start), None)
        if not forced:
            merged.space = self._units.space(operations)
            if not (
                self._admits(producer, consumer, merged) and self._stays_acyclic(producer, consumer)
            ):
                return consumer
        for member in operations:
            self._group_of[member.operation] = merged
        return merged

    def _admits(self, producer: Group, consumer: Group, merged: Group) -> bool:
        if merged.space is None:
            return False
        parts = [group.space for group in (producer, consumer) if group.space is not None]
        return self._boundary.admits(Joined(parts, merged.space, merged.operations, self._units))

    def _passes_scalar(self, producer: Group, op: ir.OpView) -> bool:
        return any(
            not isinstance(value.type, ir.RankedTensorType)
            and not isinstance(value.owner, ir.Block)
            and self._group_of.get(value.owner.operation) is producer
            for value in self._units.values(op)
        )

    def _stays_acyclic(self, producer: Group, consumer: Group) -> bool:
        """Whether merging two groups is known to create no dependence cycle.

        The merge creates a cycle if a path leads from ``producer`` through other groups to an
        operand of ``consumer``. The check is conservative: if the result is False, there may be no
        cycle.
        """
        inside = {op.operation for op in producer.operations + consumer.operations}
        if self._used_only_in(producer, inside):
            return True
        return all(
            self._root_position(value) < producer.start
            for value in self._units.inputs(consumer.operations)
            if not is_defined_in(value, inside)
        )

    def _used_only_in(self, group: Group, inside: set[ir.Operation]) -> bool:
        return all(
            enclosing(use.owner, self._position) in inside
            for op in group.operations
            for result in op.operation.results
            for use in result.uses
        )
