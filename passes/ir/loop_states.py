"""Finds the initial values of loop-carried values."""

from __future__ import annotations

from rammer_mlir.bindings import ir

REGION = "scf.execute_region"
"""The operation around control flow that becomes an rOperator of one rTask."""

_FIRST = {"scf.for": 3, "scf.while": 0}
"""The index of a loop's first initial value among its operands, by the loop's name.

The first operands of ``scf.for`` are the bounds and the step.
"""


def initial_operand(value: ir.Value) -> tuple[ir.Operation, int] | None:
    """Return the loop whose result is ``value``, and the index of the corresponding initial value.

    The index counts the operands of the loop. The results of an ``scf.while`` have to be its
    loop-carried values. Return None if ``value`` is no result of an ``scf.for`` or ``scf.while``.
    """
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name not in _FIRST:
        return None
    return owner.operation, _FIRST[owner.name] + ir.OpResult(value).result_number
