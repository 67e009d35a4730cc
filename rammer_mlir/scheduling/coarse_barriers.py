"""Replaces a plan's waits by waits for whole waves, whole operators or tiles, for comparison.

A plan is a schedule of a whole graph. A wave has the operators of equal depth in the graph. A GPU
program that synchronizes its whole grid waits for whole waves, RAMMER's released code waits for
whole operators, and the RAMMER paper describes waits for single tiles (rTasks).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal, get_args

from rammer_mlir.errors import OptionError
from rammer_mlir.scheduling.builder import Context
from rammer_mlir.scheduling.device_costs import Device
from rammer_mlir.scheduling.graph import TaskGraph
from rammer_mlir.scheduling.policies.wavefront import waves
from rammer_mlir.scheduling.program import Plan
from rammer_mlir.scheduling.stage_barriers import placement_of, with_stage_barriers
from rammer_mlir.scheduling.tasks import TaskTable, plan_of, task_table

BarrierMode = Literal["wave", "operator", "tile"]


def with_barriers(graph: TaskGraph, plan: Plan, device: Device, mode: BarrierMode) -> Plan:
    """Return a plan of one rProgram with the same rTasks on each vEU and the waits of ``mode``.

    The modes are:

    - ``wave``: an rTask waits for all rTasks of earlier waves. A wave has the operators of equal
      depth in the graph. All vEUs execute the waves in order.
    - ``operator``: an rTask waits for all rTasks of the operators whose results its operator reads.
    - ``tile``: an rTask waits for the rTasks that write the elements that it reads.

    Redundant waits are dropped in each mode.

    Args:
        graph: the task graph of the plan.
        plan: gives the vEU, order and rKernel of each rTask; several rPrograms become a single one.
        device: the device for which the time is predicted.
        mode: ``wave``, ``operator`` or ``tile``.

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
