"""The stages of a program for NVIDIA GPUs."""

from __future__ import annotations

from typing import Any

from rammer_mlir.lowering.gpu.target import GpuTarget
from rammer_mlir.lowering.gpu.to_llvm import gpu_llvm_ir
from rammer_mlir.lowering.nvvm.gpu_to_nvvm import lower_to_nvvm
from rammer_mlir.lowering.nvvm.ptx import emit_ptx
from rammer_mlir.lowering.nvvm.ptxas import assemble

BINARY_STAGES = ("ptx", "cubin")


def emit_nvvm(module: Any, target: GpuTarget, stage: str) -> bytes:
    """Lower a gpu module and return it at a stage: ``llvm``, ``ptx`` or ``cubin``.

    Raises:
        TargetError: if the stage needs ptxas and there is none, or it fails.
    """
    lower_to_nvvm(module)
    text = gpu_llvm_ir(module)
    if stage == "llvm":
        return text.encode()
    ptx = emit_ptx(text, target.chip)
    return ptx.encode() if stage == "ptx" else assemble(ptx, target.chip).cubin
