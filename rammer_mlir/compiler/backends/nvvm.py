"""NVIDIA GPUs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from rammer_mlir.compiler.backends.gpu import GpuBackend
from rammer_mlir.compiler.compile_options import CompileOptions
from rammer_mlir.compiler.pipeline import nvvm_stages
from rammer_mlir.compiler.stage import Stage
from rammer_mlir.lowering.nvvm.ptxas import find_ptxas
from rammer_mlir.lowering.nvvm.target import CHIPS
from rammer_mlir.programs.residency import Multiprocessors


@dataclass(frozen=True)
class NvvmBackend(GpuBackend):
    """An NVIDIA GPU, by LLVM's name of its chip."""

    name: ClassVar[str] = "nvvm"
    spelling: ClassVar[str] = "nvvm[:CHIP[+tf32]]"

    @property
    def multiprocessors(self) -> Multiprocessors:
        """What the usual board has."""
        return CHIPS[self.gpu.chip].resources

    def stages(self, options: CompileOptions) -> tuple[Stage, ...]:
        """Return the way to a cubin."""
        return nvvm_stages(options, self.gpu, self.multiprocessors)

    def last_stage(self, options: CompileOptions) -> str:
        """Return PTX where there is no ptxas: the driver compiles it."""
        return "ptx" if find_ptxas() is None else "cubin"

    def tools(self) -> str:
        """Identify ptxas, which decides whether an artifact holds PTX or a cubin, and which."""
        path = find_ptxas()
        if path is None:
            return ""
        found = Path(path).stat()
        return f"{path} {found.st_size} {found.st_mtime_ns}"
