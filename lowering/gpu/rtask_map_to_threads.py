"""`rtask-map-to-threads`: each rKernel's tile is computed by the threads of a block."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rammer_mlir.bindings import ir
from rammer_mlir.lowering.cpu.kernels_to_llvm import find_kernels
from rammer_mlir.lowering.gpu.kernels import map_kernels
from rammer_mlir.lowering.gpu.target import NARROW
from rammer_mlir.passes.base import Pass


@dataclass(frozen=True)
class MapToThreads(Pass):
    """Spread linalg operations over a block's threads, with temporaries in its shared memory.

    Contractions stage their operands there, with ``async_copies`` by asynchronous copies. With
    ``matrix_units``, warps compute those of f16 and bf16 by matrix instructions, and with ``tf32``
    those of f32, whose elements they round to tf32. An argument's attribute ``rtask.alignment``
    tells what its address is a multiple of.
    """

    name: ClassVar[str] = "rtask-map-to-threads"

    threads: int = 256
    shared_limit: int = 48 << 10
    async_copies: bool = False
    matrix_units: bool = False
    tf32: bool = False

    def run(self, module: ir.Module) -> None:
        """Rewrite every rKernel of the module; it gets two more arguments, shared and scratch."""
        with ir.Location.unknown(module.context):
            kernels = list(find_kernels(module))
            elements = (*(NARROW if self.matrix_units else ()), *(("f32",) if self.tf32 else ()))
            map_kernels(
                module, kernels, self.shared_limit, self.threads,
                async_copies=self.async_copies, matrix_elements=elements,
            )  # fmt: skip
