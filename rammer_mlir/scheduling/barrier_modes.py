"""A plan's rTasks with other barriers, to compare with: between waves, operators or tiles.

Global barriers between waves are what a GPU program has that synchronises its whole grid; waits
between operators are what RAMMER's released code has; waits between tiles are what the paper has.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal, get_args

from rammer_mlir.errors import OptionError
from rammer_mlir.scheduling.builder import Context
from rammer_mlir.scheduling.device import Device
from rammer_mlir.scheduling.graph import TaskGraph
from rammer_mlir.scheduling.policies.wavefront import waves
from rammer_mlir.scheduling.program import Plan
from rammer_mlir.scheduling.stage_barriers import placement_of, with_stage_barriers
from rammer_mlir.scheduling.tasks import TaskTable, plan_of, task_table

BarrierMode = Literal["wave", "operator", "tile"]


def with_barriers(graph: TaskGraph, plan: Plan, device: Device, mode: BarrierMode) -> Plan:
    """Return one rProgram with each rTask on the plan's vEU, in its order, and other waits.

    Args:
        graph: the graph.
        plan: where rTasks run, and with which rKernels; several rPrograms become one.
        device: what the result is predicted for.
        mode: ``wave``: every rTask waits for all of earlier waves, which all vEUs go through in
            order; ``operator``: for all of the operators that it reads from; ``tile``: for the
            rTasks that write what it reads. Waits that others imply are dropped in each mode.

    Raises:
        OptionError: if there is no such mode.
    """
    if mode not in get_args(BarrierMode):
        raise OptionError(
            f"barriers: expected one of {', '.join(get_args(BarrierMode))}, found '{mode}'"
        )
    if mode == "wave":
        found = waves(Context(graph, device, list(plan.kernels)))
        return with_stage_barriers(graph, plan, device, found)
    table = task_table(graph, device, plan.kernels)
    placement = placement_of(plan, table)
    if mode == "operator":
        return plan_of(graph, device, table, placement, _whole_operators(graph, plan, table))
    return plan_of(graph, device, table, placement)


def _whole_operators(graph: TaskGraph, plan: Plan, table: TaskTable) -> list[Collection[int]]:
    producers = [{table.operators[s] for s in sources} for sources in table.sources]
    sizes = [o.kernels[k].num_rtasks for o, k in zip(graph.operators, plan.kernels, strict=True)]
    by_operator: dict[int, set[int]] = {}
    for operator, found in zip(table.operators, producers, strict=True):
        by_operator.setdefault(operator, set()).update(found)
    needed = {
        operator: [t for p in sorted(found) for t in range(table.base[p], table.base[p] + sizes[p])]
        for operator, found in by_operator.items()
    }
    return [needed[operator] for operator in table.operators]
