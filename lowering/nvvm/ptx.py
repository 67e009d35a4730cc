"""Compiles LLVM IR text to PTX, with LLVM's NVPTX code generator."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rammer_mlir.errors import TargetError
from rammer_mlir.lowering.llvm.codegen import LinkedIr, emit_assembly
from rammer_mlir.lowering.llvm.machine import Machine
from rammer_mlir.lowering.nvvm.target import CHIPS

TRIPLE = "nvptx64-nvidia-cuda"

_SHORT_POINTERS = "-nvptx-short-ptr"
"""LLVM's option for 32-bit pointers to shared memory.

32-bit indices need not be extended to add them to such pointers.
"""


_PARAMETER_BYTES, _MOST_PARAMETER_BYTES = 4352, 32764
"""Bytes of a kernel's parameters, in any version of PTX and from version 8.1 on."""

_PTX_OF_MANY_PARAMETERS = "ptx81"

_KERNEL = re.compile(r"^define [^\n]*ptx_kernel[^\n(]*@[^\n(]*\(([^\n]*)\)", re.MULTILINE)


def nvidia_machine(chip: str, parameter_bytes: int = 0) -> Machine:
    """Return the description of an NVIDIA chip, such as ``sm_90``, for LLVM's code generator.

    ``parameter_bytes`` is the size of the kernel's parameters; large parameters require a newer
    version of PTX.
    """
    ptx = CHIPS[chip].ptx
    if parameter_bytes > _PARAMETER_BYTES:
        ptx = max(ptx, _PTX_OF_MANY_PARAMETERS, key=lambda name: int(name.removeprefix("ptx")))
    return Machine(TRIPLE, chip, f"+{ptx}", 128, _SHORT_POINTERS)


def emit_ptx(ir_text: str, chip: str, linked: Sequence[LinkedIr] = ()) -> str:
    """Optimize LLVM IR text with the external modules ``linked``; return the PTX for ``chip``.

    Raises:
        TargetError: if the kernel has too many parameters.
    """
    # Each parameter is a pointer.
    needed = max((8 * (found.count(",") + 1) for found in _KERNEL.findall(ir_text)), default=0)
    if needed > _MOST_PARAMETER_BYTES:
        raise TargetError(
            f"target {chip}: expected at most {_MOST_PARAMETER_BYTES // 8} inputs, outputs and "
            f"other buffers together, found {needed // 8}; join some of them"
        )
    return emit_assembly(ir_text, nvidia_machine(chip, needed), linked)
