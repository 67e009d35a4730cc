"""The stages of a program for AMD GPUs."""

from __future__ import annotations

from typing import Any

from rammer_mlir.lowering.gpu.target import GpuTarget
from rammer_mlir.lowering.gpu.to_llvm import gpu_llvm_ir
from rammer_mlir.lowering.llvm.codegen import emit_object
from rammer_mlir.lowering.rocdl.gpu_to_rocdl import lower_to_rocdl
from rammer_mlir.lowering.rocdl.hsaco import amd_machine, emit_hsaco

BINARY_STAGES = ("object", "hsaco")


def emit_rocdl(module: Any, target: GpuTarget, num_veus: int, stage: str) -> bytes:
    """Lower a gpu module and return it at a stage: ``llvm``, ``object`` or ``hsaco``.

    Raises:
        TargetError: if the stage needs a linker and there is none, or it fails.
    """
    del num_veus  # the launch checks that the blocks are resident: no tool reports registers here
    lower_to_rocdl(module, target.chip)
    text = gpu_llvm_ir(module)
    if stage == "llvm":
        return text.encode()
    if stage == "object":
        return emit_object(text, amd_machine(target.chip))
    return emit_hsaco(text, target.chip)
