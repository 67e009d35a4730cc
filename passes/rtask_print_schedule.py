"""`rtask-print-schedule`: prints a module's rPrograms as tables of rTasks and times."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import ClassVar

from rammer_mlir.bindings import ir
from rammer_mlir.passes.base import Pass
from rammer_mlir.passes.program.program_ir import read_plan
from rammer_mlir.scheduling.devices.catalog import find_device
from rammer_mlir.scheduling.schedule_text import schedule_table


@dataclass(frozen=True)
class PrintSchedule(Pass):
    """Print a timetable of each vEU's rTasks on standard error; the module is unchanged.

    Times are predicted for ``device``, a name or a file.
    """

    name: ClassVar[str] = "rtask-print-schedule"

    device: str = "cpu"

    def run(self, module: ir.Module) -> None:
        """Print the module's rPrograms on standard error, with times predicted for ``device``."""
        scheduled = read_plan(module)
        num_veus = max(program.num_veus for program in scheduled.plan.programs)
        device = find_device(self.device).device(num_veus)
        table = schedule_table(scheduled.builder.graph(), scheduled.plan, device)
        print(table, file=sys.stderr)
