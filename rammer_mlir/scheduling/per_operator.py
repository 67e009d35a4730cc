"""Makes plans that launch each operator separately, as frameworks do: the baseline of RAMMER."""

from __future__ import annotations

from dataclasses import replace

from rammer_mlir.scheduling.device_costs import Device
from rammer_mlir.scheduling.graph import TaskGraph
from rammer_mlir.scheduling.program import Plan, RProgram, Run
from rammer_mlir.scheduling.simulator import simulate


def one_by_one(graph: TaskGraph, plan: Plan, device: Device) -> Plan:
    """Return a plan that launches each operator as a separate rProgram, in the graph's order.

    Each operator keeps its rKernel of ``plan``, and each rTask its vEU. A launch begins after all
    earlier launches have ended.
    """
    num_veus = max((program.num_veus for program in plan.programs), default=0)
    of_operator: list[list[list[Run]]] = [[[] for _ in range(num_veus)] for _ in graph.operators]
    for program in plan.programs:
        for veu, items in enumerate(program.veus):
            for run in (item for item in items if isinstance(item, Run)):
                of_operator[run.operator][veu].append(run)
    programs = tuple(RProgram(num_veus, tuple(tuple(veu) for veu in veus)) for veus in of_operator)
    split = replace(plan, programs=programs, requested_waits=0)
    return replace(split, predicted_seconds=simulate(graph, split, device).seconds)
