"""Which operations of the data-flow graph become one rOperator.

A greedy walk in def-before-use order: an operation joins the groups that produce its operands when
the union still cuts into independent rTasks (see ``tiling/space.py``), holds at most one
contraction, loses no parallelism that matters, and leaves the graph acyclic. This is the fusion
that RAMMER section 4 and Dali's boundaries ask for, decided on the loops instead of on operator
names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rammer_mlir.bindings import ir
from rammer_mlir.passes.fusion.spaces import FusedSpace, FusedSpaces
from rammer_mlir.passes.ir.constant_pad import find_constant_pad
from rammer_mlir.passes.ir.structured import Structured, captured_values, is_generic
from rammer_mlir.passes.tiling.space import is_free

VIEWS = frozenset({"tensor.collapse_shape", "tensor.expand_shape", "tensor.extract_slice"})
"""Operations that only re-address a tensor: they stay between rOperators and cost nothing."""

CONCAT = "tensor.concat"
"""Joins tensors; its operands are written in place into the result's buffer."""

OPERATOR = "rtask.operator"
"""An rOperator that exists already, as a region for a code generator does; it is never fused."""

_SMALL_WORK = 200_000
"""Scalar operations below which losing parallelism costs less than one more rOperator."""

_ENOUGH_TASKS = 64
"""Independent pieces that keep every vEU of a small device busy."""

_MOST_OPERANDS = 64
"""Inputs and results of one rOperator: the dialect's operations take no more than 96."""

_TEMPORARY_BYTES = 256 * 1024
"""Largest temporary of one rTask: about what stays in a core's own cache."""


@dataclass(eq=False)
class Group:
    """Operations that become one rOperator, in def-before-use order."""

    operations: list[ir.OpView]
    start: int
    space: FusedSpace | None

    @property
    def is_opaque(self) -> bool:
        """Whether it cannot be tiled: it becomes one rTask."""
        return self.space is None


def is_cloned(op: ir.OpView) -> bool:
    """Whether every user gets its own copy: constants, empty tensors, fills, index arithmetic."""
    name = op.operation.name
    if name in ("arith.constant", "tensor.empty"):
        return True
    operands = list(op.operation.operands)
    if is_generic(op):
        return is_free(Structured(op)) and all(
            _is_cloned_value(value) for value in operands + captured_values(op)
        )
    dialect = name.split(".")[0]
    return dialect in ("arith", "math", "affine") and all(map(_is_cloned_value, operands))


def _is_cloned_value(value: ir.Value) -> bool:
    owner = value.owner
    return not isinstance(owner, ir.Block) and is_cloned(owner.opview)


def is_view(op: ir.OpView) -> bool:
    """Whether the op is a view, concatenation or padding with static parameters."""
    name = op.operation.name
    is_static = name in VIEWS and len(op.operation.operands) == 1
    return is_static or name == CONCAT or find_constant_pad(op) is not None


def group_operations(block: ir.Block) -> list[Group]:
    """Partition the block's computing operations into rOperators, in a valid order."""
    return _Grouping(list(block.operations)[:-1]).groups()


class _Grouping:
    def __init__(self, operations: Sequence[ir.OpView]) -> None:
        self._operations = operations
        self._position = {op.operation: i for i, op in enumerate(operations)}
        self._group_of: dict[ir.Operation, Group] = {}
        self._root: dict[ir.Value, int] = {}
        self._spaces = FusedSpaces()
        self._used: dict[ir.Operation, list[ir.Value]] = {}

    def groups(self) -> list[Group]:
        for position, op in enumerate(self._operations):
            if is_view(op):
                self._root[op.operation.results[0]] = max(
                    (self._root_position(value) for value in op.operation.operands), default=-1
                )
            elif op.operation.name != OPERATOR and not is_cloned(op):
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
        space = self._spaces.of([op]) if is_generic(op) else None
        group = Group([op], position, space)
        self._group_of[op.operation] = group
        for producer in self._producer_groups(op):
            if producer is not group:
                group = self._try_merge(producer, group, op)

    def _values(self, op: ir.OpView) -> list[ir.Value]:
        """Return what an operation uses that is made elsewhere and not copied to every user."""
        if op.operation not in self._used:
            captured = self._spaces.captures(op) if is_generic(op) else captured_values(op)
            self._used[op.operation] = [
                value
                for value in [*op.operation.operands, *captured]
                if not _is_cloned_value(value)
            ]
        return self._used[op.operation]

    def _producer_groups(self, op: ir.OpView) -> list[Group]:
        found: dict[Group, None] = {}
        for value in self._values(op):
            owner = value.owner
            if not isinstance(owner, ir.Block) and owner.operation in self._group_of:
                found[self._group_of[owner.operation]] = None
        return sorted(found, key=self._latest_input, reverse=True)

    def _latest_input(self, group: Group) -> int:
        """Return where the last of a group's inputs is made.

        A sum of two products can join one of them only: that which has to wait for its inputs
        anyway. The other product can then run early, next to what the first waits for.
        """
        inside = {op.operation for op in group.operations}
        return max(
            (
                self._root_position(value)
                for op in group.operations
                for value in self._values(op)
                if not _defined_in(value, inside)
            ),
            default=-1,
        )

    def _try_merge(self, producer: Group, consumer: Group, op: ir.OpView) -> Group:
        forced = self._passes_scalar(producer, op)
        if not forced and (producer.is_opaque or consumer.is_opaque):
            return consumer
        operations = sorted(
            producer.operations + consumer.operations, key=lambda o: self._position[o.operation]
        )
        space = None if forced else self._spaces.of(operations)
        merged = Group(operations, min(producer.start, consumer.start), space)
        if not forced and not (
            space is not None
            and self._num_values(operations) <= _MOST_OPERANDS
            and _keeps_parallelism(producer, consumer, space)
            and self._stays_acyclic(producer, consumer)
        ):
            return consumer
        for member in operations:
            self._group_of[member.operation] = merged
        return merged

    def _num_values(self, operations: Sequence[ir.OpView]) -> int:
        """Bound the number of tensors that go into or come out of a group."""
        inside = {op.operation for op in operations}
        values = {
            value for op in operations for value in self._values(op)
            if not _defined_in(value, inside)
        }  # fmt: skip
        return len(values) + len(operations)

    def _passes_scalar(self, producer: Group, op: ir.OpView) -> bool:
        return any(
            not isinstance(value.type, ir.RankedTensorType)
            and not isinstance(value.owner, ir.Block)
            and self._group_of.get(value.owner.operation) is producer
            for value in self._values(op)
        )

    def _stays_acyclic(self, producer: Group, consumer: Group) -> bool:
        """Whether no path leaves ``producer`` and comes back through ``consumer``'s operands."""
        inside = {op.operation for op in producer.operations + consumer.operations}
        if self._used_only_in(producer, inside):
            return True
        return all(
            self._root_position(value) < producer.start
            for op in consumer.operations
            for value in self._values(op)
            if not _defined_in(value, inside)
        )

    def _used_only_in(self, group: Group, inside: set[ir.Operation]) -> bool:
        return all(
            _enclosing(use.owner, self._position) in inside
            for op in group.operations
            for result in op.operation.results
            for use in result.uses
        )


def _defined_in(value: ir.Value, inside: set[ir.Operation]) -> bool:
    owner = value.owner
    return not isinstance(owner, ir.Block) and owner.operation in inside


def _enclosing(user: ir.OpView, top: dict[ir.Operation, int]) -> ir.Operation:
    operation = user.operation
    while operation not in top and operation.parent is not None:
        operation = operation.parent.operation
    return operation


def _keeps_parallelism(producer: Group, consumer: Group, merged: FusedSpace) -> bool:
    if merged.contractions > 1 or merged.temporary_bytes > _TEMPORARY_BYTES:
        return False
    parts = [group.space for group in (producer, consumer) if group.space is not None]
    before = max(part.parallelism for part in parts)
    if merged.parallelism >= before:
        return True
    if merged.contractions:
        return False
    return merged.parallelism >= _ENOUGH_TASKS or merged.work <= _SMALL_WORK
