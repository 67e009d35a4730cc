"""Finds the names of the model's nodes in the locations of operations."""

from __future__ import annotations

import re

from rammer_mlir.bindings import ir

NAMED = re.compile(r' *(?:%[^=]*= )?"rtask\.(?:operator|run)"\(')
"""Matches the start of MLIR's line for an ``rtask.operator`` or ``rtask.run``.

These operations are printed with the name of the model's node.
"""

_OPERATIONS = ("rtask.operator", "rtask.run")
_NAME = re.compile(r'loc\(("(?:[^"\\]|\\.)*")[()]')


def names_of(root: ir.Operation) -> list[str]:
    """Return the model node's name of each ``rtask.operator`` and ``rtask.run`` in ``root``.

    The names are in pre-order of the operations. Each name is a string literal with quotes, or an
    empty string if the operation's location has no name.
    """
    found: list[str] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name in _OPERATIONS:
            found.append(_name(op.location))
        return ir.WalkResult.ADVANCE

    root.walk(visit, ir.WalkOrder.PRE_ORDER)
    return found


def _name(location: ir.Location) -> str:
    """Return the first name in a location, quoted and escaped as MLIR prints it; "" without a name.

    The name is taken from the location's text, because the bindings end the process when they
    return a name that is not UTF-8.
    """
    if isinstance(location, ir.FusedLoc):
        return next(filter(None, map(_name, location.locations)), "")
    match = _NAME.match(str(location))
    return match[1] if match is not None else ""
