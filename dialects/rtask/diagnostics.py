"""Gives verifiers access to attributes, and reports the first broken rule as a diagnostic.

MLIR runs the verifiers of this package before the verifiers that IRDL derives from an operation's
declaration, so the package's verifiers cannot assume that an attribute or region is present.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from rammer_mlir.bindings import ir

_A = TypeVar("_A", bound=ir.Attribute)


class Broken(Exception):
    """An error of a verifier: an operation breaks a rule.

    The message is "expected X, got Y: rule".
    """

    def __init__(self, op: ir.Operation, expected: str, got: object, rule: str) -> None:
        self.location = op.location
        super().__init__(f"'{op.name}' op expected {expected}, got {got}: {rule}")


def verified(check: Callable[[], None]) -> bool:
    """Call ``check``; return True if it finds no broken rule.

    ``check`` raises ``Broken`` for a broken rule. This function then emits the error as an MLIR
    diagnostic at the location of the operation that breaks the rule, and returns False.
    """
    try:
        check()
    except Broken as broken:
        broken.location.emit_error(str(broken))
        return False
    return True


def attribute(op: ir.Operation, key: str, kind: type[_A]) -> _A:
    """Return the attribute ``key`` of an operation.

    Raises:
        Broken: if the operation has no such attribute, or one of another class than ``kind``.
    """
    found = op.attributes[key] if key in op.attributes else None
    if not isinstance(found, kind):
        got = "none" if found is None else found
        name = kind.__name__.removesuffix("Attr")
        raise Broken(op, f"attribute '{key}' ({name})", got, "the operation is described by it")
    return found


def integer(op: ir.Operation, key: str, *, at_least: int, rule: str) -> int:
    """Return the value of the integer attribute ``key`` of ``op``.

    Raises:
        Broken: if the attribute is missing, no integer, or below ``at_least``. ``rule`` is the text
            of the rule that a value below ``at_least`` breaks; the message ends with it.
    """
    value = attribute(op, key, ir.IntegerAttr).value
    if value < at_least:
        raise Broken(op, f"{key} >= {at_least}", value, rule)
    return value


def symbol(op: ir.Operation, key: str) -> str:
    """Return the name in the symbol reference attribute ``key``.

    Raises:
        Broken: if the attribute is missing or of another class.
    """
    return attribute(op, key, ir.FlatSymbolRefAttr).value


def symbols(op: ir.Operation, key: str) -> list[str]:
    """Return the names in the attribute ``key``, an array of symbol references.

    Raises:
        Broken: if the attribute is missing, empty or of another class.
    """
    entries = list(attribute(op, key, ir.ArrayAttr))
    names = [entry.value for entry in entries if isinstance(entry, ir.FlatSymbolRefAttr)]
    if not names or len(names) != len(entries):
        raise Broken(op, f"symbols in {key}", entries or "none", "an rOperator has an rKernel")
    return names


def holds_only(op: ir.Operation, names: tuple[str, ...]) -> list[ir.Operation]:
    """Return the operations in the only block of ``op``, after checking their names.

    Raises:
        Broken: if ``op`` has not exactly one region with one block, or an operation inside it has a
            name that is not in ``names``.
    """
    expected = " and ".join(f"'{name}'" for name in names)
    if len(op.regions) != 1:
        raise Broken(op, "one region", len(op.regions), f"it holds the operations {expected}")
    blocks = list(op.regions[0].blocks)
    if len(blocks) != 1:
        raise Broken(op, "one block", len(blocks), f"it holds the operations {expected}")
    children = [child.operation for child in blocks[0].operations]
    for child in children:
        if child.name not in names:
            raise Broken(op, f"only {expected} inside", f"'{child.name}'", "it is a plain list")
    return children


def inside(op: ir.Operation, parent: str) -> None:
    """Check that the parent operation of ``op`` has the name ``parent``.

    Raises:
        Broken: if ``op`` has no parent, or a parent with another name.
    """
    found = op.parent
    if found is None or found.operation.name != parent:
        got = "none" if found is None else f"'{found.operation.name}'"
        raise Broken(op, f"parent '{parent}'", got, "the operation has no meaning elsewhere")


def module_of(op: ir.Operation) -> ir.Operation:
    """Return the innermost module that contains ``op``, or ``op`` if it is a module.

    Raises:
        Broken: if no module contains ``op``.
    """
    found = op
    while found.name != "builtin.module":
        if found.parent is None:
            raise Broken(op, "a module around the operation", "none", "rKernels are its functions")
        found = found.parent.operation
    return found
