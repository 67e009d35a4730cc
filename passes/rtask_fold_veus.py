"""`rtask-fold-veus`: redistributes the rTasks of many vEUs to fewer vEUs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rammer_mlir.bindings import ir
from rammer_mlir.passes.base import Pass, check_least
from rammer_mlir.passes.program.program_ir import rewrite_plan
from rammer_mlir.scheduling.supersteps import fold


@dataclass(frozen=True)
class FoldVeus(Pass):
    """Redistribute the rTasks of all vEUs to ``num-veus`` vEUs; programs must not have barriers.

    Each of the ``num-veus`` vEUs runs the rTasks of several original vEUs in sequence.
    """

    name: ClassVar[str] = "rtask-fold-veus"

    num_veus: int = 2

    def check_options(self) -> None:
        """Raise an OptionError if ``num_veus`` is below 1."""
        check_least(self, 1, "num_veus")

    def run(self, module: ir.Module) -> None:
        """Fold every ``rtask.program`` that has more than ``num_veus`` vEUs to ``num_veus`` vEUs.

        Raises:
            ScheduleError: if a program has barriers.
        """
        rewrite_plan(module, lambda plan: fold(plan, self.num_veus))
