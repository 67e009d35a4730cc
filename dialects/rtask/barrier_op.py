"""Defines ``rtask.barrier``, which waits for rTasks of other vEUs."""

from typing import Any

from rammer_mlir.bindings import ir
from rammer_mlir.dialects.rtask.diagnostics import Broken, attribute, inside, verified
from rammer_mlir.dialects.rtask.dialect import RTask


class BarrierOp(RTask.Operation, name="barrier"):
    """A barrier-rTask: wait for rTasks of other vEUs (RAMMER section 3.3).

    ``waits`` is a list of pairs (vEU, order): rTask number ``order`` of that vEU must have
    finished. A vEU's rTasks are counted from 0; its barriers do not count. The verifier of the
    enclosing program checks that these rTasks exist.
    """

    waits: Any  # `ext` has no constraint for array<i64>: the verifier checks it

    @staticmethod
    def verify_invariants(op: ir.OpView) -> bool:
        """Whether the parent is a vEU, and ``waits`` has an even count of numbers.

        Each pair of numbers is a vEU and an order. A broken rule becomes a diagnostic.
        """
        return verified(lambda: _check(op.operation))


def _check(op: ir.Operation) -> None:
    inside(op, "rtask.veu")
    numbers = len(attribute(op, "waits", ir.DenseI64ArrayAttr))
    if numbers % 2:
        raise Broken(op, "pairs in waits", f"{numbers} numbers", "a wait is a vEU and an order")
