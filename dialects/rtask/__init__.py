"""The `rtask` dialect: rOperators, rKernels, vEUs and rPrograms as operations of MLIR."""

from __future__ import annotations

from rammer_mlir.bindings import ir
from rammer_mlir.dialects.rtask.accesses import Access, read_accesses
from rammer_mlir.dialects.rtask.barrier_op import BarrierOp
from rammer_mlir.dialects.rtask.dialect import RTask
from rammer_mlir.dialects.rtask.kernel_op import KernelOp
from rammer_mlir.dialects.rtask.operator_op import OperatorOp
from rammer_mlir.dialects.rtask.program_op import ProgramOp
from rammer_mlir.dialects.rtask.run_op import RunOp
from rammer_mlir.dialects.rtask.veu_op import VeuOp

OPERATIONS = (OperatorOp, KernelOp, ProgramOp, VeuOp, RunOp, BarrierOp)


def register(context: ir.Context) -> None:
    """Load the dialect into a context; does nothing where it is loaded already."""
    if context.is_dialect_loaded(RTask.DIALECT_NAMESPACE):
        return
    with context, ir.Location.unknown(context):
        RTask.load()


__all__ = [
    "OPERATIONS",
    "Access",
    "BarrierOp",
    "KernelOp",
    "OperatorOp",
    "ProgramOp",
    "RTask",
    "RunOp",
    "VeuOp",
    "read_accesses",
    "register",
]
