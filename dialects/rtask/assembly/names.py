"""Names of the model's nodes in the locations of operations."""

from __future__ import annotations

import re

from rammer_mlir.bindings import ir

NAMED = re.compile(r' *(?:%[^=]*= )?"rtask\.(?:operator|run)"\(')
"""The begin of a line with an operation that is printed with the name of its node."""

_OPERATIONS = ("rtask.operator", "rtask.run")
_NAME = re.compile(r'loc\(("(?:[^"\\]|\\.)*")[()]')


def names_of(root: ir.Operation) -> list[str]:
    """Return the node's name of each rOperator and run in pre-order, as string literals.

    A name is empty if the location has none.
    """
    found: list[str] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name in _OPERATIONS:
            found.append(_name(op.location))
        return ir.WalkResult.ADVANCE

    root.walk(visit, ir.WalkOrder.PRE_ORDER)
    return found


def _name(location: ir.Location) -> str:
    """Return the first name in a location, escaped as MLIR prints it; empty if there is none.

    The location's text is read, because the bindings end the process at a name that is not UTF-8.
    """
    if isinstance(location, ir.FusedLoc):
        return next(filter(None, map(_name, location.locations)), "")
    match = _NAME.match(str(location))
    return match[1] if match is not None else ""
