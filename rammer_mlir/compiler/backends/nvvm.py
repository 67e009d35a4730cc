"""Compiles for NVIDIA GPUs: target ``nvvm``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from rammer_mlir.compiler.backends.gpu import GpuBackend
from rammer_mlir.compiler.compile_options import CompileOptions
from rammer_mlir.compiler.pipeline import nvvm_stages
from rammer_mlir.compiler.stage import Stage
from rammer_mlir.lowering.nvvm.ptxas import find_ptxas, knows_chip
from rammer_mlir.lowering.nvvm.target import CHIPS
from rammer_mlir.programs.residency import Multiprocessors


@dataclass(frozen=True)
class NvvmBackend(GpuBackend):
    """An NVIDIA GPU, named by LLVM's name of its chip."""

    name: ClassVar[str] = "nvvm"
    spelling: ClassVar[str] = "nvvm[:CHIP[+tf32]]"

    @property
    def multiprocessors(self) -> Multiprocessors:
        """Count of multiprocessors of the most common board with this chip, and their resources.

        The resources of a multiprocessor are threads, registers and shared memory.
        """
        return CHIPS[self.gpu.chip].resources

    def stages(self, options: CompileOptions) -> tuple[Stage, ...]:
        """Return all stages up to a cubin, in order."""
        return nvvm_stages(options, self.gpu, self.multiprocessors)

    def last_stage(self, options: CompileOptions) -> str:
        """Return the name of the last stage: `cubin`, or `ptx` if no ptxas knows the chip.

        In the second case, the CUDA driver compiles the PTX at load time.
        """
        return "cubin" if knows_chip(self.gpu.chip) else "ptx"

    def tools(self) -> str:
        """Return a string that identifies the installed ptxas, for cache keys; empty if missing.

        Artifacts contain a cubin if ptxas is installed, else PTX.
        """
        path = find_ptxas()
        if path is None:
            return ""
        # Size and modification time stand for the version; running ptxas on each lookup is slow.
        found = Path(path).stat()
        return f"{path} {found.st_size} {found.st_mtime_ns}"
