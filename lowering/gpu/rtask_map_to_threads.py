"""`rtask-map-to-threads`: each rKernel's tile is computed by the threads of a block."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rammer_mlir.bindings import ir
from rammer_mlir.lowering.cpu.kernels_to_llvm import find_kernels
from rammer_mlir.lowering.gpu.kernels import map_kernels
from rammer_mlir.passes.base import Pass


@dataclass(frozen=True)
class MapToThreads(Pass):
    """Spread linalg operations over a block's threads, with temporaries in its shared memory.

    Contractions stage their operands there, with ``async_copies`` by asynchronous copies. An
    argument's attribute ``rtask.alignment`` tells what its address is a multiple of.
    """

    name: ClassVar[str] = "rtask-map-to-threads"

    threads: int = 256
    shared_limit: int = 48 << 10
    async_copies: bool = False

    def run(self, module: ir.Module) -> None:
        """Rewrite every rKernel of the module; it gets two more arguments, shared and scratch."""
        with ir.Location.unknown(module.context):
            kernels = list(find_kernels(module))
            map_kernels(
                module, kernels, self.shared_limit, self.threads, async_copies=self.async_copies
            )
