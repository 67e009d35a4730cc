"""Defines the `rtask` dialect: rOperators, rKernels, vEUs and rPrograms as MLIR operations."""

from __future__ import annotations

import threading

from rammer_mlir.bindings import ir, stablehlo
from rammer_mlir.dialects.rtask.accesses import Access, read_accesses
from rammer_mlir.dialects.rtask.assembly import get_asm, parse
from rammer_mlir.dialects.rtask.barrier_op import BarrierOp
from rammer_mlir.dialects.rtask.dialect import RTask
from rammer_mlir.dialects.rtask.external import External, read_external
from rammer_mlir.dialects.rtask.irdl_form import irdl_text, portable_asm
from rammer_mlir.dialects.rtask.kernel_op import KernelOp
from rammer_mlir.dialects.rtask.module_op import ModuleOp
from rammer_mlir.dialects.rtask.operator_op import OperatorOp
from rammer_mlir.dialects.rtask.program_op import ProgramOp
from rammer_mlir.dialects.rtask.run_op import RunOp
from rammer_mlir.dialects.rtask.veu_op import VeuOp

OPERATIONS = (OperatorOp, KernelOp, ModuleOp, ProgramOp, VeuOp, RunOp, BarrierOp)

_LOADING = threading.Lock()
"""Lock around loading the dialect into a context.

While the bindings load a dialect, they store its definition in an attribute of its class. A second
thread would overwrite the attribute, and the first thread would load the other context's
definition.
"""


def register(context: ir.Context) -> None:
    """Load the dialect into a context, unless it is loaded already.

    Several threads may call this function at the same time. The function disables the context's
    multithreading, which must stay disabled. Otherwise MLIR verifies functions in parallel: its
    threads wait for Python's global interpreter lock to call our verifiers, while the caller holds
    that lock and waits for MLIR's threads.
    """
    with _LOADING:
        context.enable_multithreading(False)
        if context.is_dialect_loaded(RTask.DIALECT_NAMESPACE):
            return
        with context, ir.Location.unknown(context):
            RTask.load()
        if stablehlo is not None:  # so that its text parses
            stablehlo.register_dialect(context, load=False)


__all__ = [
    "OPERATIONS",
    "Access",
    "BarrierOp",
    "External",
    "KernelOp",
    "ModuleOp",
    "OperatorOp",
    "ProgramOp",
    "RTask",
    "RunOp",
    "VeuOp",
    "get_asm",
    "irdl_text",
    "parse",
    "portable_asm",
    "read_accesses",
    "read_external",
    "register",
]
