"""Divides a plan into supersteps, for devices that synchronize only as a whole (RAMMER 4.2).

Such devices are bulk-synchronous. A superstep is an rProgram without waits between vEUs; each
superstep ends before the next begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rammer_mlir.errors import ScheduleError
from rammer_mlir.scheduling.device_costs import Device
from rammer_mlir.scheduling.execution_order import execution_order
from rammer_mlir.scheduling.graph import TaskGraph
from rammer_mlir.scheduling.minimize import append_run
from rammer_mlir.scheduling.program import Barrier, Item, Plan, RProgram, Run
from rammer_mlir.scheduling.simulator import simulate
from rammer_mlir.scheduling.tasks import TaskTable, task_table


def supersteps(graph: TaskGraph, plan: Plan, device: Device) -> Plan:
    """Return a plan with the same rKernels, vEUs and orders, in the fewest supersteps.

    An rTask goes to the earliest superstep that satisfies two conditions:

    - the previous rTask on the same vEU is in this superstep or in an earlier superstep;
    - all rTasks on other vEUs that the rTask reads from are in earlier supersteps.

    An exclusive rTask gets a superstep without other rTasks.
    """
    table = task_table(graph, device, plan.kernels)
    veu_of = [-1] * len(table.operators)
    step_of = [0] * len(table.operators)
    exclusive = [
        o.kernels[k].is_exclusive for o, k in zip(graph.operators, plan.kernels, strict=True)
    ]
    reached = [0] * max((program.num_veus for program in plan.programs), default=0)
    steps: list[list[list[Item]]] = []
    for program in plan.programs:
        for veu, item in execution_order(program):
            if isinstance(item, Barrier):
                continue
            for rtask in range(item.first, item.first + item.count):
                task = table.base[item.operator] + rtask
                step = max([reached[veu], *_ready(table.sources[task], veu, veu_of, step_of)])
                if exclusive[item.operator]:
                    step = len(steps)
                    reached = [step + 1] * len(reached)
                else:
                    reached[veu] = step
                veu_of[task], step_of[task] = veu, step
                while len(steps) <= step:
                    steps.append([[] for _ in reached])
                append_run(steps[step][veu], Run(item.operator, rtask, 1))
    programs = tuple(RProgram(len(reached), tuple(map(tuple, veus))) for veus in steps)
    split = replace(plan, programs=programs, requested_waits=_crossings(table, veu_of))
    return replace(split, predicted_seconds=simulate(graph, split, device).seconds)


def _ready(
    sources: Sequence[int], veu: int, veu_of: Sequence[int], step_of: Sequence[int]
) -> list[int]:
    """Return for each rTask in ``sources`` the first superstep in which ``veu`` may use its result.

    If the rTask in ``sources`` runs on ``veu``, the result is the superstep of this rTask,
    otherwise the next superstep. ``veu_of`` and ``step_of`` have the vEU and the superstep of each
    rTask.
    """
    return [step_of[source] + (veu_of[source] != veu) for source in sources]


def _crossings(table: TaskTable, veu_of: Sequence[int]) -> int:
    """Return the number of dependencies between rTasks of different vEUs.

    ``veu_of`` has the vEU of each rTask.
    """
    return sum(
        veu_of[source] != veu_of[task]
        for task, sources in enumerate(table.sources)
        for source in sources
    )


def fold(plan: Plan, num_veus: int) -> Plan:
    """Return the plan on at most ``num_veus`` vEUs, for a machine with fewer threads than vEUs.

    Each of the new vEUs executes the rTasks of several old vEUs, one old vEU after another.

    Raises:
        ScheduleError: if an rProgram has waits between vEUs. A wait could block forever, because
            the awaited rTask could follow on the same new vEU.
    """
    for number, program in enumerate(plan.programs):
        if program.num_waits:
            raise ScheduleError(
                f"rProgram {number}: expected no barriers between vEUs that are folded into one, "
                f"found {program.num_waits} waits; schedule for a bulk-synchronous device"
            )
    return replace(plan, programs=tuple(_fold(program, num_veus) for program in plan.programs))


def _fold(program: RProgram, num_veus: int) -> RProgram:
    folded: list[list[Item]] = [[] for _ in range(min(num_veus, program.num_veus))]
    busy = [items for items in program.veus if items]
    for number, items in enumerate(busy):
        folded[number * len(folded) // len(busy)].extend(items)
    return RProgram(len(folded), tuple(map(tuple, folded)))
