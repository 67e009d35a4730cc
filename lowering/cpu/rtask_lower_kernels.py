"""`rtask-lower-kernels`: rKernels on memrefs become functions of the LLVM dialect."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rammer_mlir.bindings import ir
from rammer_mlir.lowering.cpu.kernels_to_llvm import lower_kernels
from rammer_mlir.lowering.llvm.machine import host_machine
from rammer_mlir.passes.base import Pass


@dataclass(frozen=True)
class LowerKernels(Pass):
    """Lower every rKernel to an LLVM function for the processor that this process runs on."""

    name: ClassVar[str] = "rtask-lower-kernels"

    def run(self, module: ir.Module) -> None:
        """Replace the rKernels of the module by LLVM functions of the same names."""
        lower_kernels(module, host_machine())
