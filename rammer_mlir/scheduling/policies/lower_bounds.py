"""Computes lower bounds on the makespan of a set of rTasks over all schedules."""

from __future__ import annotations

from rammer_mlir.scheduling.policies.heads_tails import heads, tails
from rammer_mlir.scheduling.policies.packing_bounds import cuts, packing_bound
from rammer_mlir.scheduling.tasks import TaskTable


def makespan_bound(table: TaskTable, num_veus: int, barrier: float) -> float:
    """Return a lower bound on the seconds of an rProgram of all rTasks, without the launch.

    The result is the larger of the critical path and the best bound by packing. The head of an
    rTask is a lower bound on its start; its tail is a lower bound on the time from its end to the
    program's end. For a limit h on heads and a limit t on tails, the bound by packing is h + p + t,
    where p is a lower bound on the time in which the vEUs can run all rTasks whose head is at least
    h and whose tail is at least t.

    Args:
        table: the rTasks with their times and dependencies.
        num_veus: number of vEUs.
        barrier: seconds of a barrier.
    """
    seconds = table.seconds
    head = heads(seconds, table.sources, num_veus, barrier)
    tail = tails(seconds, table.readers, num_veus, barrier)
    tasks = sorted(range(len(seconds)), key=lambda task: -seconds[task])
    best = max((head[task] + seconds[task] + tail[task] for task in tasks), default=0.0)
    for least_tail in cuts(tail):
        behind = [task for task in tasks if tail[task] >= least_tail]
        for least_head in cuts(head):
            inside = [seconds[task] for task in behind if head[task] >= least_head]
            if inside:
                packed = packing_bound(inside, num_veus)
                best = max(best, least_head + packed + least_tail)
    return best
