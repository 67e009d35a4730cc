"""`rtask-fold-veus`: supersteps of many vEUs on few."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rammer_mlir.bindings import ir
from rammer_mlir.errors import OptionError
from rammer_mlir.passes.base import Pass
from rammer_mlir.passes.program.program_ir import rewrite_plan
from rammer_mlir.scheduling.supersteps import fold


@dataclass(frozen=True)
class FoldVeus(Pass):
    """Let each vEU do what several did, in programs without barriers, to execute them elsewhere."""

    name: ClassVar[str] = "rtask-fold-veus"

    num_veus: int = 2

    def check_options(self) -> None:
        """Refuse values of options that have no meaning."""
        if self.num_veus < 1:
            raise OptionError(f"number of vEUs: expected at least 1, found {self.num_veus}")

    def run(self, module: ir.Module) -> None:
        """Rewrite every ``rtask.program`` that has more vEUs."""
        rewrite_plan(module, lambda plan: fold(plan, self.num_veus))
