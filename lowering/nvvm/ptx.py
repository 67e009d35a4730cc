"""Compiles LLVM IR text to PTX, with LLVM's NVPTX code generator."""

from __future__ import annotations

from collections.abc import Sequence

from rammer_mlir.lowering.llvm.codegen import LinkedIr, emit_assembly
from rammer_mlir.lowering.llvm.machine import Machine
from rammer_mlir.lowering.nvvm.target import CHIPS

TRIPLE = "nvptx64-nvidia-cuda"

_SHORT_POINTERS = "-nvptx-short-ptr"
"""LLVM's option for 32-bit pointers to shared memory.

32-bit indices need not be extended to add them to such pointers.
"""


def nvidia_machine(chip: str) -> Machine:
    """Return the description of an NVIDIA chip, such as ``sm_90``, for LLVM's code generator."""
    return Machine(TRIPLE, chip, f"+{CHIPS[chip].ptx}", 128, _SHORT_POINTERS)


def emit_ptx(ir_text: str, chip: str, linked: Sequence[LinkedIr] = ()) -> str:
    """Optimize LLVM IR text with the external modules ``linked``; return the PTX for ``chip``."""
    return emit_assembly(ir_text, nvidia_machine(chip), linked)
