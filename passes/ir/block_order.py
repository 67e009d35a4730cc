"""Topological sorting of a block's operations."""

from __future__ import annotations

from rammer_mlir.bindings import ir


def sort_block(block: ir.Block) -> None:
    """Sort the operations of a block topologically; an operation moves only after its operands.

    A call that replaces several operations stands where the last of them stood, which may be after
    a user of its results.
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
    """Return the values that an operation or an operation in its regions uses."""
    values = list(op.operands)
    for region in op.regions:
        for block in region.blocks:
            for inner in block.operations:
                values.extend(_used(inner.operation))
    return values
