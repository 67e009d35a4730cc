"""Hides thread indices in rKernels from LLVM, so that LLVM cannot hoist computations on them."""

from __future__ import annotations

from dataclasses import dataclass

from rammer_mlir.bindings import ir
from rammer_mlir.lowering.gpu.llvm.optimization_barrier import opaque_copy
from rammer_mlir.lowering.ir_walk import walk


@dataclass(frozen=True)
class ThreadId:
    """The operation by which a target reads a thread's index in the block.

    Attributes:
        operation: the name of the operation, in the target's dialect.
        register: the register class, as a constraint of LLVM's inline assembly.
    """

    operation: str
    register: str


def read_thread_ids_anew(module: ir.Module, source: ThreadId) -> None:
    """Pass the thread's index in each rKernel through an optimization barrier for LLVM.

    All rKernels are called from the dispatch loop. LLVM would hoist computations on the thread's
    index out of the loop, and keep their results for all rKernels in registers at the same time.
    So each function except the kernel copies the thread's index by empty inline assembly.
    """
    for operation in walk(module.operation):
        if operation.name != source.operation or is_in_kernel(operation):
            continue
        with ir.InsertionPoint.after(operation), operation.location:
            hidden = opaque_copy(operation.result, source.register)
        operation.result.replace_all_uses_except(hidden, [hidden.owner.operation])


def is_in_kernel(operation: ir.Operation) -> bool:
    """Return whether an operation of the LLVM dialect is in a kernel, not in another function."""
    function = operation
    while function.name != "llvm.func":
        parent = function.parent
        assert parent is not None, "instructions are in functions"
        function = parent.operation
    return any(name in function.attributes for name in ("nvvm.kernel", "rocdl.kernel"))
