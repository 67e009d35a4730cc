"""Divides a block into units, the groups of operations that are never in different regions.

A unit is a composite (a match of a code generator's pattern), the IR operations of a recognized
tensor operation such as a convolution, or any other single operation. Constants, empty tensors and
fills are not units, because every user gets a copy.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

from rammer_mlir.bindings import ir
from rammer_mlir.passes.base import OperationError
from rammer_mlir.passes.fusion.grouping import is_cloned
from rammer_mlir.passes.ir.structured import captured_values, element_bytes, shape_of
from rammer_mlir.passes.regions.annotations import COMPOSITE, REGION, Mark, mark_of
from rammer_mlir.passes.regions.reading import Reading
from rammer_mlir.passes.regions.readings import read_all
from rammer_mlir.passes.regions.weights import Weights


@dataclass(frozen=True)
class Unit:
    """Operations of a block that belong to the same region or to none.

    A unit is a composite (a match of a code generator's pattern), the IR operations of a recognized
    tensor operation such as a convolution, or any other single operation.

    Attributes:
        operations: the operations in the block's order; operations outside of the unit use only
            results of the last operation.
        readings: the recognized tensor operations in order; empty if none is recognized.
        composite: the composite's name and number (``rtask.composite``); None if the unit is no
            composite.
        region: code generator and number (``rtask.region``) of the region that contains the unit;
            None outside of regions.
    """

    operations: tuple[ir.Operation, ...]
    readings: tuple[Reading, ...]
    composite: Mark | None
    region: Mark | None

    @property
    def root(self) -> ir.Operation:
        """The last operation of the unit, whose results are used elsewhere."""
        return self.operations[-1]

    @property
    def macs(self) -> int:
        """The number of multiply-accumulates of the unit."""
        return sum(reading.macs for reading in self.readings)

    @cached_property
    def inputs(self) -> tuple[ir.Value, ...]:
        """The values that the unit reads but does not compute.

        Values that are cloned for every user, such as constants, are left out.
        """
        inside = set(self.operations)
        return tuple(value for value in used_values(self.operations) if not _is_in(value, inside))

    @cached_property
    def outputs(self) -> tuple[ir.Value, ...]:
        """The results of the unit that are used outside of the unit."""
        inside = set(self.operations)
        return tuple(v for op in self.operations for v in op.results if is_used_outside(v, inside))

    @cached_property
    def num_bytes(self) -> dict[ir.Value, int]:
        """The bytes of each tensor that the unit reads or computes, by value."""
        results = (value for op in self.operations for value in op.results)
        return {value: value_bytes(value) for value in (*self.inputs, *results)}


def value_bytes(value: ir.Value) -> int:
    """Return the size of a value in memory, in bytes."""
    return prod(shape_of(value)) * element_bytes(value.type)


def used_values(operations: Sequence[ir.Operation]) -> list[ir.Value]:
    """Return the values that operations use, in order of first use.

    Values that are cloned for every user, such as constants, are left out.
    """
    found: dict[ir.Value, None] = {}
    for op in operations:
        for value in [*op.operands, *captured_values(op.opview)]:
            owner = value.owner
            if isinstance(owner, ir.Block) or not is_cloned(owner.opview):
                found[value] = None
    return list(found)


def _is_in(value: ir.Value, inside: Collection[ir.Operation]) -> bool:
    owner = value.owner
    return not isinstance(owner, ir.Block) and owner.operation in inside


def is_used_outside(value: ir.Value, inside: Collection[ir.Operation]) -> bool:
    """Whether ``value`` has a user outside of the operations ``inside``.

    A user that is nested in one of these operations is not outside.
    """
    return any(_enclosing(use.owner.operation, value) not in inside for use in value.uses)


def _enclosing(user: ir.Operation, value: ir.Value) -> ir.Operation:
    """Return ``user`` itself, or the operation around it that is in the block of ``value``."""
    block = value.owner if isinstance(value.owner, ir.Block) else value.owner.operation.block
    while user.block != block:
        assert user.parent is not None
        user = user.parent.operation
    return user


def units_of(block: ir.Block, weights: Weights) -> list[Unit]:
    """Return the units of a block in topological order.

    Raises:
        OperationError: in these cases:
            - An ``rtask.composite`` or ``rtask.region`` attribute is malformed.
            - An operation with such an attribute is cloned for every user, like a constant.
            - An operation of a region has a result that is not a static tensor.
            - The operations of a unit are in different regions.
            - A composite's last operation has no user outside of the composite.
            - An earlier operation of a composite has a user outside of the composite.
    """
    order = {op.operation: place for place, op in enumerate(block.operations)}
    single: list[ir.OpView] = []
    matched: dict[Mark, list[ir.Operation]] = {}
    for op in list(block.operations)[:-1]:
        composite = _checked_mark(op.operation)
        if composite is not None:
            matched.setdefault(composite, []).append(op.operation)
        elif not is_cloned(op):
            single.append(op)
    units = [_composite(mark, ops, weights) for mark, ops in matched.items()]
    readings = read_all(single, weights)
    known = {op for reading in readings for op in reading.operations}
    units += [_reading(reading) for reading in readings]
    units += [
        Unit((op.operation,), (), None, mark_of(op.operation, REGION))
        for op in single
        if op.operation not in known
    ]
    return sorted(units, key=lambda unit: order[unit.root])


def _checked_mark(op: ir.Operation) -> Mark | None:
    composite, region = mark_of(op, COMPOSITE), mark_of(op, REGION)
    if (composite or region) and is_cloned(op.opview):
        attribute = COMPOSITE if composite else REGION
        raise OperationError(
            op,
            f"attribute '{attribute}': expected an operation that computes a tensor, found one "
            "that every user gets a copy of; remove the attribute",
        )
    if region is not None and not _has_tensors_only(op):
        raise OperationError(
            op,
            f"attribute '{REGION}': expected results that are static tensors, found "
            f"{', '.join(str(value.type) for value in op.results)}; remove the attribute",
        )
    return composite


def _has_tensors_only(op: ir.Operation) -> bool:
    return all(
        isinstance(value.type, ir.RankedTensorType) and value.type.has_static_shape
        for value in op.results
    )


def _composite(mark: Mark, ops: list[ir.Operation], weights: Weights) -> Unit:
    inside = set(ops)
    escaping = [op for op in ops if any(is_used_outside(v, inside) for v in op.results)]
    if escaping != ops[-1:]:
        names = ", ".join(op.name for op in escaping) or "none"
        raise OperationError(
            ops[-1],
            f"composite '{mark.name}', match {mark.number}: expected one operation whose result "
            f"is used outside, the last one, found {names}; match less",
        )
    return Unit(tuple(ops), tuple(read_all([op.opview for op in ops], weights)), mark, _region(ops))


def _reading(reading: Reading) -> Unit:
    ops = [op for op in reading.operations if isinstance(op, ir.Operation)]
    return Unit(tuple(ops), (reading,), None, _region(ops))


def _region(ops: Sequence[ir.Operation]) -> Mark | None:
    """Return the region that contains all of ``ops``: its code generator and its number.

    Return None if no region contains any of the operations.

    Raises:
        OperationError: if the operations are in different regions, or only some of them are in a
            region.
    """
    regions = {mark_of(op, REGION) for op in ops}
    if len(regions) == 1:
        return regions.pop()
    found = ", ".join(sorted("none" if mark is None else str(mark.number) for mark in regions))
    raise OperationError(
        ops[-1],
        f"attribute '{REGION}': expected one region for operations that belong together, found "
        f"{found}; run rtask-annotate-regions on operations without the attribute",
    )
