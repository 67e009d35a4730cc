"""Hides rKernels' buffer addresses from LLVM, so that LLVM cannot hoist address arithmetic."""

from __future__ import annotations

from rammer_mlir.bindings import ir
from rammer_mlir.lowering.gpu.llvm.optimization_barrier import opaque_copy
from rammer_mlir.lowering.gpu.llvm.thread_ids import is_in_kernel
from rammer_mlir.lowering.ir_walk import walk

_GENERIC, _GLOBAL = "!llvm.ptr", "!llvm.ptr<1>"


def read_addresses_anew(module: ir.Module) -> None:
    """Pass the buffer addresses of each rKernel through an optimization barrier for LLVM.

    All rKernels are called from the dispatch loop, on slices of the same few buffers. An address is
    the buffer's base, plus an offset from the task table, plus an index. The bases are
    loop-invariant: LLVM would hoist the sum of base and constant index out of the dispatch loop,
    and keep these sums for all rKernels in registers at the same time. So each function except the
    kernel copies its addresses by empty inline assembly. The copies are pointers to device memory,
    so that LLVM does not emit generic accesses.
    """
    for operation in walk(module.operation):
        if operation.name == "llvm.func" and len(operation.regions[0].blocks):
            block = operation.regions[0].blocks[0]
            first = block.operations[0].operation
            if not is_in_kernel(first):
                with ir.InsertionPoint(first), operation.location:
                    for argument in block.arguments:
                        if str(argument.type) == _GENERIC and list(argument.uses):
                            _hide(argument)


def _hide(address: ir.Value) -> None:
    generic, device = ir.Type.parse(_GENERIC), ir.Type.parse(_GLOBAL)
    cast = ir.Operation.create("llvm.addrspacecast", results=[device], operands=[address])
    hidden = opaque_copy(cast.result, "l")
    again = ir.Operation.create("llvm.addrspacecast", results=[generic], operands=[hidden])
    address.replace_all_uses_except(again.result, [cast])
