"""Defines ``rtask.run``, a run of rTasks on a vEU."""

from rammer_mlir.bindings import ir
from rammer_mlir.dialects.rtask.diagnostics import inside, integer, symbol
from rammer_mlir.dialects.rtask.effects import BufferEffects
from rammer_mlir.dialects.rtask.mixed_types import MixedTypesOp, verified_with_segments


class RunOp(MixedTypesOp, name="run", traits=[BufferEffects]):
    """Run the rTasks ``first``, ``first + 1``, ... (``count`` of them) of an rKernel in order.

    ``operator_id`` is the number of the rOperator of these rTasks; the operands are its buffers.
    The verifier of the enclosing program checks that the rKernel exists, has these rTasks and takes
    these operands.
    """

    kernel: ir.FlatSymbolRefAttr
    operator_id: ir.IntegerAttr
    first: ir.IntegerAttr
    count: ir.IntegerAttr

    @staticmethod
    def verify_invariants(op: ir.OpView) -> bool:
        """Whether the parent is a vEU, and the attributes have valid types and values.

        A broken rule becomes a diagnostic.
        """
        return verified_with_segments(op.operation, _check)


def _check(op: ir.Operation) -> None:
    inside(op, "rtask.veu")
    symbol(op, "kernel")
    integer(op, "operator_id", at_least=0, rule="ids count from 0")
    integer(op, "first", at_least=0, rule="ids count from 0")
    integer(op, "count", at_least=1, rule="counts are positive")
