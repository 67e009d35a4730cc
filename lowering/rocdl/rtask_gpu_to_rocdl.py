"""`rtask-gpu-to-rocdl`: lowers a persistent kernel to the LLVM and ROCDL dialects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rammer_mlir.bindings import ir
from rammer_mlir.lowering.rocdl.gpu_to_rocdl import lower_to_rocdl
from rammer_mlir.lowering.rocdl.target import DEFAULT_CHIP, rocdl_target
from rammer_mlir.passes.base import Pass


@dataclass(frozen=True)
class GpuToRocdl(Pass):
    """Lower the output of `rtask-lower-to-gpu` for an AMD GPU, to the LLVM and ROCDL dialects."""

    name: ClassVar[str] = "rtask-gpu-to-rocdl"

    chip: str = DEFAULT_CHIP

    def run(self, module: ir.Module) -> None:
        """Lower the module's ``gpu.module`` to the ROCDL and LLVM dialects, in place."""
        lower_to_rocdl(module, rocdl_target(self.chip).chip)
