"""Compiles for AMD GPUs: target ``rocdl``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rammer_mlir.compiler.backends.gpu import GpuBackend
from rammer_mlir.compiler.compile_options import CompileOptions
from rammer_mlir.compiler.pipeline import rocdl_stages
from rammer_mlir.compiler.stage import Stage
from rammer_mlir.lowering.rocdl.target import CHIPS
from rammer_mlir.programs.residency import Multiprocessors


@dataclass(frozen=True)
class RocdlBackend(GpuBackend):
    """An AMD GPU, named by LLVM's name of its chip."""

    name: ClassVar[str] = "rocdl"
    spelling: ClassVar[str] = "rocdl[:CHIP]"

    @property
    def multiprocessors(self) -> Multiprocessors:
        """Count of compute units of the most common board with this chip, and their resources.

        The resources of a compute unit are threads, registers and LDS (shared memory).
        """
        return CHIPS[self.gpu.chip].resources

    def stages(self, options: CompileOptions) -> tuple[Stage, ...]:
        """Return the stages up to a code object."""
        return rocdl_stages(options, self.gpu, self.multiprocessors)
