"""`rtask-gpu-to-nvvm`: lowers a persistent kernel to the LLVM and NVVM dialects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rammer_mlir.bindings import ir
from rammer_mlir.lowering.nvvm.gpu_to_nvvm import lower_to_nvvm
from rammer_mlir.passes.base import Pass


@dataclass(frozen=True)
class GpuToNvvm(Pass):
    """Lower the gpu module that `rtask-lower-to-gpu` made for an NVIDIA GPU."""

    name: ClassVar[str] = "rtask-gpu-to-nvvm"

    def run(self, module: ir.Module) -> None:
        """Lower the module's ``gpu.module`` to the NVVM and LLVM dialects, in place."""
        lower_to_nvvm(module)
