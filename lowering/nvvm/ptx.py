"""From LLVM IR text to PTX, through LLVM's NVPTX code generator."""

from __future__ import annotations

from collections.abc import Sequence

from rammer_mlir.lowering.llvm.codegen import LinkedIr, emit_assembly
from rammer_mlir.lowering.llvm.machine import Machine
from rammer_mlir.lowering.nvvm.target import CHIPS

TRIPLE = "nvptx64-nvidia-cuda"

_SHORT_POINTERS = "-nvptx-short-ptr"
"""Pointers to shared memory have 32 bits, so that indices of 32 need not be extended for it."""


def nvidia_machine(chip: str) -> Machine:
    """Describe a chip to LLVM."""
    return Machine(TRIPLE, chip, f"+{CHIPS[chip].ptx}", 128, _SHORT_POINTERS)


def emit_ptx(ir_text: str, chip: str, linked: Sequence[LinkedIr] = ()) -> str:
    """Optimise LLVM IR text, and IR from elsewhere with it, and compile both to PTX for a chip."""
    return emit_assembly(ir_text, nvidia_machine(chip), linked)
