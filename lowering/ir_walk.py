"""Walks over operations, and finds the definitions of values.

Walks yield ``ir.Operation``, because the classes of individual dialects redefine ``name``
(``func.FuncOp.name`` is its symbol).
"""

from __future__ import annotations

from collections.abc import Iterator

from rammer_mlir.bindings import ir


def walk(operation: ir.Operation | ir.OpView) -> Iterator[ir.Operation]:
    """Yield the operations nested in ``operation``, at any depth, in pre-order.

    The caller may erase the last yielded operation before it requests the next one; the walk then
    skips the operations nested in the erased operation.
    """
    for region in operation.regions:
        for block in region.blocks:
            for nested in list(block.operations):
                inner = len(nested.regions) > 0
                yield nested.operation
                if inner and nested.operation.attached:
                    yield from walk(nested)


def producer(value: ir.Value) -> str:
    """Return the name of the operation that defines ``value``, '' for a block argument."""
    owner = value.owner
    return "" if isinstance(owner, ir.Block) else owner.operation.name


def constant_integer(value: ir.Value) -> int | None:
    """Return the integer of a value defined by an ``arith.constant``, None for other values."""
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.operation.name != "arith.constant":
        return None
    attribute = owner.operation.attributes["value"]
    return attribute.value if isinstance(attribute, ir.IntegerAttr) else None
