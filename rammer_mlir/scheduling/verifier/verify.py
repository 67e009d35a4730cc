"""The rules of a correct schedule, one after the other."""

from __future__ import annotations

from collections.abc import Mapping

from rammer_mlir.scheduling.graph import TaskGraph
from rammer_mlir.scheduling.program import Plan
from rammer_mlir.scheduling.verifier.arena import check_arena
from rammer_mlir.scheduling.verifier.dataflow import check_dataflow
from rammer_mlir.scheduling.verifier.exclusive import check_exclusive
from rammer_mlir.scheduling.verifier.history import history


def verify(
    graph: TaskGraph,
    plan: Plan,
    arena: Mapping[int, int] | None = None,
    arena_bytes: int | None = None,
) -> None:
    """Check a plan.

    Args:
        graph: the rOperators and what their rTasks touch.
        plan: the schedule and the rKernels chosen.
        arena: byte offset of each intermediate buffer that lies in the arena; None before memory
            is planned, when every buffer has memory of its own.
        arena_bytes: size of the arena; None where it grows as needed.

    Raises:
        ScheduleError: naming the rTasks of the first rule that is broken.
    """
    found = history(graph, plan)
    check_exclusive(graph, plan, found)
    check_dataflow(graph, plan, found)
    if arena is not None:
        check_arena(graph, found, arena, arena_bytes)
