"""Operations of functions, nested ones too."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rammer_mlir.bindings import ir


def nested_operations(op: ir.Operation) -> list[ir.Operation]:
    """Return all operations within an operation, outer ones first."""
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
    """Yield the nested operations of some names; they may be replaced meanwhile."""
    yield from [op for op in nested_operations(root) if op.name in names]


def first_named(root: ir.Operation, prefix: str) -> ir.Operation | None:
    """Return the first nested operation whose name begins so, None if there is none."""
    return next((op for op in nested_operations(root) if op.name.startswith(prefix)), None)


def replace(op: ir.Operation, values: list[ir.Value]) -> None:
    """Put values in place of an operation's results, and erase it."""
    for old, new in zip(op.results, values, strict=True):
        old.replace_all_uses_with(new)
    op.erase()


Rewrite = Callable[[ir.Operation], bool]
"""Rewrites an operation if it can; whether it did, so that the operation is gone."""


def constant_integer(value: ir.Value) -> int | None:
    """Return the number that ``arith.constant`` gives a value; None if it is not known."""
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name != "arith.constant":
        return None
    attribute = owner.attributes["value"]
    return ir.IntegerAttr(attribute).value if isinstance(attribute, ir.IntegerAttr) else None
