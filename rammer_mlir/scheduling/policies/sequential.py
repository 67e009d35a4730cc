"""The `sequential` policy: runs operators in order without overlap (RammerBase)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rammer_mlir.scheduling.assignment import spread_evenly
from rammer_mlir.scheduling.builder import Context, Needs, ProgramBuilder, finish_plan
from rammer_mlir.scheduling.costs import fastest
from rammer_mlir.scheduling.device_costs import Device
from rammer_mlir.scheduling.graph import TaskGraph
from rammer_mlir.scheduling.program import Plan


@dataclass(frozen=True)
class Sequential:
    """Run one operator after another, each on the whole device with its fastest rKernel.

    Every rTask waits for all rTasks of the previous operator. All operators share one launch,
    whereas a framework launches each operator separately. This policy is RammerBase of the RAMMER
    paper, and the baseline of all comparisons.
    """

    name: ClassVar[str] = "sequential"

    def schedule(self, graph: TaskGraph, device: Device) -> Plan:
        """Return a plan of one rProgram with the operators in the graph's order."""
        context = Context(graph, device)
        context.kernels = [fastest(operator, device) for operator in graph.operators]
        builder = ProgramBuilder(context)
        for number in range(len(graph.operators)):
            kernel = context.kernel(number)
            shape = (kernel.num_rtasks, device.num_veus)
            everything = Needs(
                np.broadcast_to(builder.steps(), shape),
                np.broadcast_to(builder.available.copy(), shape),
            )
            veus = spread_evenly(kernel.num_rtasks, device.num_veus)
            builder.append(number, veus, everything)
        programs, seconds, requested = finish_plan([builder])
        return Plan(programs, tuple(context.kernels), seconds, requested)
