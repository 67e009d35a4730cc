"""Sorts a block's operations topologically."""

from __future__ import annotations

from rammer_mlir.bindings import ir


def sort_block(block: ir.Block) -> None:
    """Sort the operations of a block topologically.

    An operation keeps its position unless it follows a user of its results; it is then moved before
    that user. For example, a pass may replace several operations by one call at the position of the
    last of them. If a user of the call's results precedes the call, the call is moved before the
    user.
    """
    operations = [op.operation for op in block.operations]
    here, placed = set(operations), set[ir.Operation]()
    for op in operations[:-1]:
        pending = [op]
        while pending:
            current = pending[-1]
            missing = [
                owner.operation
                for owner in (value.owner for value in _used(current))
                if not isinstance(owner, ir.Block)
                and owner.operation in here
                and owner.operation not in placed
            ]
            if missing:
                pending.extend(missing)
                continue
            pending.pop()
            if current not in placed:
                placed.add(current)
                current.move_before(operations[-1])


def _used(op: ir.Operation) -> list[ir.Value]:
    """Return the operands of an operation and of all operations nested in it."""
    values = list(op.operands)
    for region in op.regions:
        for block in region.blocks:
            for inner in block.operations:
                values.extend(_used(inner.operation))
    return values
