"""The stages of a program for NVIDIA GPUs."""

from __future__ import annotations

from typing import Any

from rammer_mlir.lowering.gpu.llvm.to_llvm import gpu_llvm_ir
from rammer_mlir.lowering.gpu.target import GpuTarget
from rammer_mlir.lowering.nvvm.gpu_to_nvvm import lower_to_nvvm
from rammer_mlir.lowering.nvvm.ptx import emit_ptx
from rammer_mlir.lowering.nvvm.ptxas import assemble, find_ptxas
from rammer_mlir.lowering.nvvm.target import CHIPS
from rammer_mlir.programs.gpu_image import GpuCode
from rammer_mlir.programs.residency import BlockNeeds, check_residency

BINARY_STAGES = ("ptx", "cubin")


def emit_nvvm(module: Any, target: GpuTarget, num_veus: int, stage: str) -> bytes:
    """Lower a gpu module and return it at a stage: ``llvm``, ``ptx`` or ``cubin``.

    Raises:
        TargetError: if the stage needs ptxas and there is none, or it fails, or its report says
            that the blocks of all vEUs cannot be resident at once.
    """
    lower_to_nvvm(module)
    text = gpu_llvm_ir(module)
    if stage == "llvm":
        return text.encode()
    ptx = emit_ptx(text, target.chip)
    return ptx.encode() if stage == "ptx" else _cubin(ptx, target, num_veus).data


def nvvm_code(module: Any, target: GpuTarget, num_veus: int) -> GpuCode:
    """Lower a gpu module to what an artifact holds: a cubin, or PTX where there is no ptxas.

    Args:
        module: holds the gpu module.
        target: the GPU.
        num_veus: blocks that have to be resident at once.

    Raises:
        TargetError: if ptxas fails, or the blocks cannot be resident at once.
    """
    lower_to_nvvm(module)
    ptx = emit_ptx(gpu_llvm_ir(module), target.chip)
    if find_ptxas() is None:
        return GpuCode("ptx", ptx.encode(), None)
    return _cubin(ptx, target, num_veus)


def _cubin(ptx: str, target: GpuTarget, num_veus: int) -> GpuCode:
    assembled = assemble(ptx, target.chip)
    found = assembled.resources
    needs = BlockNeeds(target.block_threads, found.registers, found.shared_bytes)
    check_residency(target.name, num_veus, CHIPS[target.chip].resources, needs)
    return GpuCode("cubin", assembled.cubin, found)
