"""Defines ``rtask.veu``, the ordered runs and barriers of one vEU."""

from rammer_mlir.bindings import ext, ir
from rammer_mlir.dialects.rtask.diagnostics import holds_only, inside, integer, verified
from rammer_mlir.dialects.rtask.dialect import RTask


class VeuOp(RTask.Operation, name="veu", traits=[ir.NoTerminatorTrait]):
    """The ordered list of runs and barriers of a virtual execution unit (RAMMER section 3.2)."""

    id: ir.IntegerAttr
    body: ext.Region

    @staticmethod
    def verify_invariants(op: ir.OpView) -> bool:
        """Whether the parent is an rProgram, the id is valid, and runs and barriers are inside.

        No other operations may be inside. A broken rule becomes a diagnostic.
        """
        return verified(lambda: _check(op.operation))


def _check(op: ir.Operation) -> None:
    inside(op, "rtask.program")
    integer(op, "id", at_least=0, rule="ids count from 0")
    holds_only(op, ("rtask.run", "rtask.barrier"))
