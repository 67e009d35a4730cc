"""Drops every wait of a plan (a schedule) that other waits imply, as in RAMMER, section 3.3."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rammer_mlir.scheduling.clocks import Clocks
from rammer_mlir.scheduling.execution_order import execution_order
from rammer_mlir.scheduling.graph import Int64Array
from rammer_mlir.scheduling.program import Barrier, Item, Plan, RProgram, Run


def minimize(plan: Plan) -> Plan:
    """Return the plan with the fewest waits that keep the same happens-before order.

    This set of waits is unique, because happens-before is a partial order. A wait for an rTask is
    dropped exactly if earlier waits and other waits of the same barrier imply that this rTask is
    complete. Consecutive barriers are merged, and barriers at the end of a vEU's list are removed.

    Raises:
        ScheduleError: if a wait of the plan can block forever.
    """
    programs = tuple(_minimize(program) for program in plan.programs)
    requested = max(plan.requested_waits, plan.num_waits)
    return replace(plan, programs=programs, requested_waits=requested)


def _minimize(program: RProgram) -> RProgram:
    clocks = Clocks(program.num_veus)
    veus: list[list[Item]] = [[] for _ in range(program.num_veus)]
    pending: dict[int, Int64Array] = {}
    for veu, item in execution_order(program):
        if isinstance(item, Barrier):
            required = pending.setdefault(veu, np.zeros(program.num_veus, dtype=np.int64))
            for other, order in item.waits:
                required[other] = max(int(required[other]), order + 1)
            continue
        if veu in pending:
            waits = clocks.wait(veu, clocks.goal(pending.pop(veu)))
            if waits:
                veus[veu].append(Barrier(waits))
        append_run(veus[veu], item)
        clocks.done[veu] += item.count
    return RProgram(program.num_veus, tuple(tuple(items) for items in veus))


def append_run(items: list[Item], run: Run) -> None:
    """Append a run to a vEU's items, or extend the last item if ``run`` continues that item.

    The run continues the last item if the last item is a run of the same operator that ends just
    before the first rTask of ``run``.
    """
    last = items[-1] if items else None
    if (
        isinstance(last, Run)
        and last.operator == run.operator
        and last.first + last.count == run.first
    ):
        items[-1] = Run(run.operator, last.first, last.count + run.count)
    else:
        items.append(run)
