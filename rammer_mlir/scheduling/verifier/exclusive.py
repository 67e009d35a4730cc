"""Checks that no rTask runs at the same time as an rTask that uses the whole device."""

from __future__ import annotations

import numpy as np

from rammer_mlir.errors import ScheduleError
from rammer_mlir.scheduling.graph import TaskGraph
from rammer_mlir.scheduling.program import Plan
from rammer_mlir.scheduling.verifier.history import History


def check_exclusive(graph: TaskGraph, plan: Plan, found: History) -> None:
    """Check that no rTask may run at the same time as an exclusive rTask.

    An exclusive rTask uses the whole device (``RKernel.is_exclusive``). ``found`` is the
    happens-before order of the plan's rTasks.

    Raises:
        ScheduleError: naming an rTask that may run at the same time as an exclusive rTask.
    """
    tasks = np.arange(int(found.base[-1]))
    for operator, chosen in enumerate(plan.kernels):
        if not graph.operators[operator].kernels[chosen].is_exclusive:
            continue
        for task in found.tasks(operator).tolist():
            same = np.full(len(tasks), task)
            ordered = found.precedes(tasks, same) | found.precedes(same, tasks) | (tasks == task)
            if not ordered.all():
                other = found.describe(int(np.argmin(ordered)))
                raise ScheduleError(
                    f"{other} may run beside {found.describe(task)}, which uses the whole device: "
                    "expected each other rTask to end before it starts, or to start behind it"
                )
