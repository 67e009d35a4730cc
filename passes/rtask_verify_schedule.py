"""`rtask-verify-schedule`: proves that every schedule in the module is correct."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rammer_mlir.bindings import ir
from rammer_mlir.passes.base import Pass
from rammer_mlir.passes.ir.entry import entry_function
from rammer_mlir.passes.program.program_ir import read_plan
from rammer_mlir.passes.rtask_plan_memory import arena_offsets, memory_sizes
from rammer_mlir.scheduling.verifier import verify


@dataclass(frozen=True)
class VerifySchedule(Pass):
    """Check that each rTask runs exactly once, conflicts are ordered and no wait blocks forever."""

    name: ClassVar[str] = "rtask-verify-schedule"

    def run(self, module: ir.Module) -> None:
        """Verify the schedules of all rPrograms in the module.

        Raises:
            ScheduleError: at the first broken rule; the message names the rTasks or buffers that
                break it.
        """
        scheduled = read_plan(module)
        offsets = arena_offsets(scheduled.builder.roots)
        arena_bytes = memory_sizes(entry_function(module)).arena_bytes if offsets else None
        verify(scheduled.builder.graph(), scheduled.plan, offsets, arena_bytes)
