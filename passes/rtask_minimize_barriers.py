"""`rtask-minimize-barriers`: removes waits that other waits already imply."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rammer_mlir.bindings import ir
from rammer_mlir.passes.base import Pass
from rammer_mlir.passes.program.program_ir import rewrite_plan
from rammer_mlir.scheduling.minimize import minimize


@dataclass(frozen=True)
class MinimizeBarriers(Pass):
    """Drop every wait that other waits already imply (vector clocks; RAMMER section 3.3)."""

    name: ClassVar[str] = "rtask-minimize-barriers"

    def run(self, module: ir.Module) -> None:
        """Remove the implied waits of every ``rtask.program``."""
        rewrite_plan(module, minimize)
