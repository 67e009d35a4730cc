"""Finds nested operations, replaces operations, and reads integer constants."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rammer_mlir.bindings import ir


def nested_operations(op: ir.Operation) -> list[ir.Operation]:
    """Return all operations nested in ``op``, without ``op`` itself.

    Each operation precedes the operations that are nested in it.
    """
    found: list[ir.Operation] = []
    pending = [op]
    while pending:
        current = pending.pop()
        inner = [
            each.operation
            for region in current.regions
            for block in region.blocks
            for each in block.operations
        ]
        found.extend(inner)
        pending.extend(reversed(inner))
    return found


def operations_named(root: ir.Operation, *names: str) -> Iterator[ir.Operation]:
    """Yield the operations nested in ``root`` whose name is one of ``names``.

    ``root`` itself is left out. The caller may erase each operation when it is yielded.
    """
    yield from [op for op in nested_operations(root) if op.name in names]


def first_named(root: ir.Operation, prefix: str) -> ir.Operation | None:
    """Return the first operation nested in ``root`` whose name starts with ``prefix``.

    The order is that of ``nested_operations``. Return None if there is no such operation.
    """
    return next((op for op in nested_operations(root) if op.name.startswith(prefix)), None)


def replace(op: ir.Operation, values: list[ir.Value]) -> None:
    """Replace all uses of an operation's results by ``values``, and erase the operation."""
    for old, new in zip(op.results, values, strict=True):
        old.replace_all_uses_with(new)
    op.erase()


Rewrite = Callable[[ir.Operation], bool]
"""A function that rewrites and erases an operation if possible, and then returns True."""


def constant_integer(value: ir.Value) -> int | None:
    """Return the integer of an ``arith.constant``; None for any other value."""
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name != "arith.constant":
        return None
    attribute = owner.attributes["value"]
    return ir.IntegerAttr(attribute).value if isinstance(attribute, ir.IntegerAttr) else None
