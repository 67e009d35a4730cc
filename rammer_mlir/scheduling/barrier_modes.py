"""A plan's rTasks with other barriers, to compare with: between waves, operators or tiles.

Global barriers between waves are what a GPU program has that synchronises its whole grid; waits
between operators are what RAMMER's released code has; waits between tiles are what the paper has.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal, get_args

from rammer_mlir.errors import OptionError
from rammer_mlir.scheduling.builder import Context
from rammer_mlir.scheduling.device import Device
from rammer_mlir.scheduling.graph import TaskGraph
from rammer_mlir.scheduling.policies.wavefront import waves
from rammer_mlir.scheduling.program import Plan, Run
from rammer_mlir.scheduling.tasks import Placement, TaskTable, plan_of, task_table

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
    table = task_table(graph, device, plan.kernels)
    placement = _placement(plan, table)
    if mode == "tile":
        return plan_of(graph, device, table, placement)
    if mode == "operator":
        return plan_of(graph, device, table, placement, _whole_operators(graph, plan, table))
    wave_of = _wave_numbers(graph, plan, device)
    in_order = [
        sorted(tasks, key=lambda task: wave_of[table.operators[task]]) for tasks in placement
    ]
    return plan_of(graph, device, table, in_order, _earlier_waves(in_order, table, wave_of))


def _placement(plan: Plan, table: TaskTable) -> Placement:
    num_veus = max(program.num_veus for program in plan.programs)
    found: list[list[int]] = [[] for _ in range(num_veus)]
    for program in plan.programs:
        for tasks, items in zip(found, program.veus, strict=False):
            for run in (item for item in items if isinstance(item, Run)):
                first = table.base[run.operator] + run.first
                tasks.extend(range(first, first + run.count))
    return found


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


def _wave_numbers(graph: TaskGraph, plan: Plan, device: Device) -> list[int]:
    found = waves(Context(graph, device, list(plan.kernels)))
    numbers = [0] * len(graph.operators)
    for number, wave in enumerate(found):
        for operator in wave:
            numbers[operator] = number
    return numbers


def _earlier_waves(
    placement: Placement, table: TaskTable, wave_of: Sequence[int]
) -> list[Collection[int]]:
    """Return, for each rTask, the last rTask of every vEU in an earlier wave."""
    needed: list[Collection[int]] = [()] * len(table.operators)
    num_waves = max(wave_of) + 1
    before: list[list[int]] = [[] for _ in range(num_waves)]
    for tasks in placement:
        last: dict[int, int] = {wave_of[table.operators[task]]: task for task in tasks}
        known = -1
        for wave in range(num_waves):
            if known >= 0:
                before[wave].append(known)
            known = last.get(wave, known)
    for tasks in placement:
        for task in tasks:
            needed[task] = before[wave_of[table.operators[task]]]
    return needed
