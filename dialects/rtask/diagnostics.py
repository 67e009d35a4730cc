"""How a verifier of the dialect reads attributes and reports the first rule that is broken."""

from __future__ import annotations

from collections.abc import Callable

from rammer_mlir.bindings import ir


class Broken(Exception):  # noqa: N818 - a verdict, which `verified` turns into a diagnostic
    """An operation breaks a rule: "expected X, got Y: rule"."""

    def __init__(self, op: ir.OpView | ir.Operation, expected: str, got: object, rule: str) -> None:
        self.location = op.operation.location
        super().__init__(f"'{op.operation.name}' op expected {expected}, got {got}: {rule}")


def verified(check: Callable[[], None]) -> bool:
    """Run a check as MLIR wants it: a diagnostic at the operation and False if a rule is broken."""
    try:
        check()
    except Broken as broken:
        broken.location.emit_error(str(broken))
        return False
    return True


def integer(op: ir.OpView | ir.Operation, key: str, *, at_least: int, rule: str) -> int:
    """Return an integer attribute that must not be below a bound."""
    value = ir.IntegerAttr(op.operation.attributes[key]).value
    if value < at_least:
        raise Broken(op, f"{key} >= {at_least}", value, rule)
    return value


def symbol(op: ir.OpView | ir.Operation, key: str) -> str:
    """Return the name that a symbol attribute refers to."""
    return _flat(op, op.operation.attributes[key], key)


def symbols(op: ir.OpView | ir.Operation, key: str) -> list[str]:
    """Return the names in an array of symbols, at least one."""
    names = [_flat(op, entry, key) for entry in ir.ArrayAttr(op.operation.attributes[key])]
    if not names:
        raise Broken(op, f"at least one symbol in {key}", "none", "an rOperator needs an rKernel")
    return names


def _flat(op: ir.OpView | ir.Operation, attribute: ir.Attribute, key: str) -> str:
    if not isinstance(attribute, ir.FlatSymbolRefAttr):
        raise Broken(
            op, f"a flat symbol in {key}", attribute, "rKernels are functions of the same module"
        )
    return attribute.value


def integers(op: ir.OpView | ir.Operation, key: str) -> list[int]:
    """Return an ``array<i64: ...>`` attribute."""
    attribute = op.operation.attributes[key]
    if not isinstance(attribute, ir.DenseI64ArrayAttr):
        raise Broken(op, f"array<i64> in {key}", attribute, "waits are pairs of integers")
    return list(attribute)


def only_block(op: ir.OpView | ir.Operation) -> ir.Block:
    """Return the one block of the operation's one region."""
    blocks = list(op.operation.regions[0].blocks)
    if len(blocks) != 1 or list(blocks[0].arguments):
        got = f"{len(blocks)} blocks" if len(blocks) != 1 else "a block with arguments"
        raise Broken(op, "one block without arguments", got, "the region is a plain list")
    return blocks[0]


def holds_only(op: ir.OpView | ir.Operation, names: tuple[str, ...]) -> list[ir.Operation]:
    """Return the operations of the only block, which must have one of the names."""
    children = [child.operation for child in only_block(op).operations]
    for child in children:
        if child.name not in names:
            expected = " or ".join(f"'{name}'" for name in names)
            raise Broken(op, expected, f"'{child.name}'", "the region holds nothing else")
    return children


def inside(op: ir.OpView | ir.Operation, parent: str) -> ir.Operation:
    """Return the parent operation, which must have the name."""
    found = op.operation.parent
    if found is None or found.operation.name != parent:
        got = "no parent" if found is None else f"'{found.operation.name}'"
        raise Broken(op, f"parent '{parent}'", got, "the operation has no meaning elsewhere")
    return found.operation


def module_of(op: ir.OpView | ir.Operation) -> ir.Operation:
    """Return the outermost operation around the operation, the module that holds its symbols."""
    found = op.operation
    while (parent := found.parent) is not None:
        found = parent.operation
    return found
