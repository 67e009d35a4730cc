"""Replaces a plan's barriers so that each rTask waits for all rTasks of earlier stages.

A stage is a set of operators. Within a stage, an rTask waits only for the rTasks that it reads
from.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rammer_mlir.scheduling.device_costs import Device
from rammer_mlir.scheduling.graph import TaskGraph
from rammer_mlir.scheduling.program import Plan, Run
from rammer_mlir.scheduling.tasks import Placement, TaskTable, plan_of, task_table


def with_stage_barriers(
    graph: TaskGraph, plan: Plan, device: Device, stages: Sequence[Sequence[int]]
) -> Plan:
    """Return a plan of one rProgram in which each rTask waits for all rTasks of earlier stages.

    Within a stage, an rTask waits for the rTasks that it reads from.

    Args:
        graph: the task graph of the plan.
        plan: gives the vEU and rKernel of each rTask; several rPrograms become a single one.
        device: the device for which the time is predicted.
        stages: the operators of each stage; all vEUs execute the stages in order.
    """
    table = task_table(graph, device, plan.kernels)
    stage_of = [0] * len(graph.operators)
    for number, stage in enumerate(stages):
        for operator in stage:
            stage_of[operator] = number
    in_order = [
        sorted(tasks, key=lambda task: stage_of[table.operators[task]])
        for tasks in placement_of(plan, table)
    ]
    return plan_of(graph, device, table, in_order, _awaited(in_order, table, stage_of))


def placement_of(plan: Plan, table: TaskTable) -> Placement:
    """Return for each vEU its rTasks in the order of the plan, as indices into ``table``.

    The rTasks of several rPrograms are appended one rProgram after another.
    """
    num_veus = max(program.num_veus for program in plan.programs)
    found: list[list[int]] = [[] for _ in range(num_veus)]
    for program in plan.programs:
        for tasks, items in zip(found, program.veus, strict=False):
            for run in (item for item in items if isinstance(item, Run)):
                first = table.base[run.operator] + run.first
                tasks.extend(range(first, first + run.count))
    return found


def _awaited(
    placement: Placement, table: TaskTable, stage_of: Sequence[int]
) -> list[Collection[int]]:
    """Return for each rTask the rTasks that it waits for.

    An rTask waits for the rTasks of its own stage that it reads from. It also waits for one rTask
    of each vEU: the vEU's last rTask that belongs to an earlier stage. ``stage_of`` has the stage
    of each operator.
    """
    needed: list[Collection[int]] = [()] * len(table.operators)
    num_stages = max(stage_of) + 1
    before: list[list[int]] = [[] for _ in range(num_stages)]
    for tasks in placement:
        last: dict[int, int] = {stage_of[table.operators[task]]: task for task in tasks}
        known = -1
        for stage in range(num_stages):
            if known >= 0:
                before[stage].append(known)
            known = last.get(stage, known)
    for tasks in placement:
        for task in tasks:
            stage = stage_of[table.operators[task]]
            own = [s for s in table.sources[task] if stage_of[table.operators[s]] == stage]
            needed[task] = [*before[stage], *own]
    return needed
