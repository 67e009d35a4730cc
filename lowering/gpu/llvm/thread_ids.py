"""Where rKernels learn which of a block's threads executes them."""

from __future__ import annotations

from dataclasses import dataclass

from rammer_mlir.bindings import ir
from rammer_mlir.lowering.gpu.llvm.optimization_barrier import opaque_copy
from rammer_mlir.lowering.ir_walk import walk


@dataclass(frozen=True)
class ThreadId:
    """How a target reads a thread's number.

    Attributes:
        operation: the operation of its dialect.
        register: the kind of register that holds it, as a constraint of LLVM's inline assembly.
    """

    operation: str
    register: str


def read_thread_ids_anew(module: ir.Module, source: ThreadId) -> None:
    """Hide from LLVM, in every function but the kernel, that a thread's number never changes.

    All rKernels are called from one loop. What they compute from the number alone would move in
    front of it, where the values of all rKernels are in registers at the same time. So each call
    takes the number through a piece of assembly that does nothing.
    """
    for operation in walk(module.operation):
        if operation.name != source.operation or is_in_kernel(operation):
            continue
        with ir.InsertionPoint.after(operation), operation.location:
            hidden = opaque_copy(operation.result, source.register)
        operation.result.replace_all_uses_except(hidden, [hidden.owner.operation])


def is_in_kernel(operation: ir.Operation) -> bool:
    """Return whether an operation of the LLVM dialect is in a kernel, not in a function."""
    function = operation
    while function.name != "llvm.func":
        parent = function.parent
        assert parent is not None, "instructions are in functions"
        function = parent.operation
    return any(name in function.attributes for name in ("nvvm.kernel", "rocdl.kernel"))
