"""The stages of a program for AMD GPUs."""

from __future__ import annotations

from typing import Any

from rammer_mlir.lowering.gpu.llvm.to_llvm import gpu_llvm_ir
from rammer_mlir.lowering.gpu.target import GpuTarget
from rammer_mlir.lowering.llvm.codegen import emit_object
from rammer_mlir.lowering.rocdl.gpu_to_rocdl import lower_to_rocdl
from rammer_mlir.lowering.rocdl.hsaco import amd_machine, emit_hsaco, read_resources
from rammer_mlir.lowering.rocdl.target import CHIPS
from rammer_mlir.programs.gpu_image import GpuCode
from rammer_mlir.programs.residency import BlockNeeds, check_residency

BINARY_STAGES = ("object", "hsaco")


def emit_rocdl(module: Any, target: GpuTarget, num_veus: int, stage: str) -> bytes:
    """Lower a gpu module and return it at a stage: ``llvm``, ``object`` or ``hsaco``.

    Raises:
        TargetError: if the stage needs a linker and there is none, or it fails, or the blocks of
            all vEUs cannot be resident at once.
    """
    lower_to_rocdl(module, target.chip)
    text = gpu_llvm_ir(module)
    if stage == "llvm":
        return text.encode()
    if stage == "object":
        return emit_object(text, amd_machine(target.chip))
    return _hsaco(text, target, num_veus).data


def rocdl_code(module: Any, target: GpuTarget, num_veus: int) -> GpuCode:
    """Lower a gpu module to what an artifact holds, a code object.

    Args:
        module: holds the gpu module.
        target: the GPU.
        num_veus: blocks that have to be resident at once.

    Raises:
        TargetError: if there is no linker or it fails, or the blocks cannot be resident at once.
    """
    lower_to_rocdl(module, target.chip)
    return _hsaco(gpu_llvm_ir(module), target, num_veus)


def _hsaco(text: str, target: GpuTarget, num_veus: int) -> GpuCode:
    code = emit_hsaco(text, target.chip)
    found = read_resources(code)
    needs = BlockNeeds(target.block_threads, found.registers, found.shared_bytes)
    check_residency(target.name, num_veus, CHIPS[target.chip].resources, needs)
    return GpuCode("hsaco", code, found)
