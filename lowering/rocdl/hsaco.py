"""From LLVM IR text to an hsaco code object: LLVM's AMDGPU code generator, and an ELF linker."""

from __future__ import annotations

from rammer_mlir.lowering.llvm.codegen import emit_assembly, emit_object
from rammer_mlir.lowering.llvm.link import link_shared
from rammer_mlir.lowering.llvm.machine import Machine

TRIPLE = "amdgcn-amd-amdhsa"


def amd_machine(chip: str) -> Machine:
    """Describe a chip to LLVM; the size of a wave is the chip's own."""
    return Machine(TRIPLE, chip, "", 128)


def emit_isa(ir_text: str, chip: str) -> str:
    """Optimise LLVM IR text and compile it to AMD assembly text."""
    return emit_assembly(ir_text, amd_machine(chip))


def emit_hsaco(ir_text: str, chip: str) -> bytes:
    """Compile LLVM IR text and link it to a code object that HIP loads.

    Raises:
        TargetError: if no linker is found or it fails.
    """
    return link_shared(emit_object(ir_text, amd_machine(chip)), needs_amdgpu=True)
