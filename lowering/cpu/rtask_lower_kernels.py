"""`rtask-lower-kernels`: lowers rKernels on memrefs to functions of the LLVM dialect."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rammer_mlir.bindings import arith, func, ir, llvm, memref
from rammer_mlir.lowering.cpu.kernels_to_llvm import lower_kernels
from rammer_mlir.lowering.kernels.functions import find_kernels
from rammer_mlir.lowering.llvm.builders import call, i64, pointer
from rammer_mlir.lowering.llvm.machine import host_machine
from rammer_mlir.passes.base import Pass
from rammer_mlir.passes.ir.kernels import described_kernels

_SUFFIX = ".llvm"
"""Suffix of the name of the LLVM function that an rKernel with an ``rtask.kernel`` calls."""


@dataclass(frozen=True)
class LowerKernels(Pass):
    """Lower every rKernel to an LLVM function for the processor that this process runs on.

    A function that an `rtask.kernel` describes is kept, so that the schedule stays valid; it calls
    the LLVM function, whose name ends with ``.llvm``. Other functions are replaced.
    """

    name: ClassVar[str] = "rtask-lower-kernels"

    def run(self, module: ir.Module) -> None:
        """Replace each rKernel of the module by an LLVM function.

        An rKernel that an ``rtask.kernel`` describes stays, with a body that only calls the LLVM
        function.
        """
        described = described_kernels(module)
        kept: dict[str, ir.FunctionType] = {}
        for kernel in find_kernels(module):
            name = ir.StringAttr(kernel.attributes["sym_name"]).value
            if name in described:
                kind = ir.TypeAttr(kernel.attributes["function_type"]).value
                kept[name] = ir.FunctionType(kind)
                kernel.attributes["sym_name"] = ir.StringAttr.get(name + _SUFFIX, module.context)
        lower_kernels(module, host_machine())
        with module.context, ir.Location.unknown(), ir.InsertionPoint.at_block_begin(module.body):
            for name, kind in kept.items():
                _define_call(name, kind)


def _define_call(name: str, kind: ir.FunctionType) -> None:
    """Define the rKernel ``name`` of type ``kind``, with a body that calls its LLVM function."""
    function = func.FuncOp(name, kind, visibility="private")
    block = function.add_entry_block()
    with ir.InsertionPoint(block):
        task, *buffers = block.arguments
        call(
            name + _SUFFIX,
            arith.IndexCastOp(i64(), task).result,
            *(_begin(buffer) for buffer in buffers),
        )
        func.ReturnOp([])


def _begin(buffer: ir.Value) -> ir.Value:
    """Emit the aligned pointer of a buffer, without the offset in its memref type."""
    address = memref.ExtractAlignedPointerAsIndexOp(buffer).result
    number = arith.IndexCastOp(i64(), address).result
    return llvm.IntToPtrOp(pointer(), number).result
