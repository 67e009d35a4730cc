"""Checks that a plan fulfills all rules of a correct schedule."""

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
    """Check that a plan is a correct schedule of a graph.

    Args:
        graph: the rOperators and the elements that their rTasks touch.
        plan: the schedule and the chosen rKernels.
        arena: byte offset of each intermediate buffer in the arena; None before memory is planned,
            when buffers share no memory.
        arena_bytes: size of the arena, in which all buffers must lie; None to allow any size.

    Raises:
        ScheduleError: naming the rTasks that break the first broken rule.
    """
    found = history(graph, plan)
    check_exclusive(graph, plan, found)
    check_dataflow(graph, plan, found)
    if arena is not None:
        check_arena(graph, found, arena, arena_bytes)
