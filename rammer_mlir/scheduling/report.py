"""Describes a plan as text: its counts, predicted time and memory."""

from __future__ import annotations

from rammer_mlir.scheduling.graph import TaskGraph
from rammer_mlir.scheduling.memory import MemorySizes
from rammer_mlir.scheduling.program import Barrier, Plan


def summary(graph: TaskGraph, plan: Plan, memory: MemorySizes | None = None) -> str:
    """Return a description of a plan as text of a few lines.

    The text has the counts of rPrograms, vEUs, rTasks and barriers, the predicted time, and the
    sizes in ``memory`` if given.
    """
    num_veus = max((program.num_veus for program in plan.programs), default=0)
    rtasks = sum(program.num_rtasks for program in plan.programs)
    barriers = sum(
        isinstance(item, Barrier)
        for program in plan.programs
        for veu in program.veus
        for item in veu
    )
    kernels = {
        operator.kernels[kernel].name
        for operator, kernel in zip(graph.operators, plan.kernels, strict=True)
    }
    lines = [
        f"rPrograms        {len(plan.programs)} on {num_veus} vEUs",
        f"rOperators       {len(graph.operators)} with {len(kernels)} distinct rKernels",
        f"rTasks           {rtasks}",
        f"barriers         {barriers} with {plan.num_waits} waits "
        f"({plan.requested_waits} before minimizing)",
    ]
    if plan.predicted_seconds:
        lines.append(f"predicted time   {plan.predicted_seconds * 1e3:.3f} ms")
    lines.extend(f"policy           {note}" for note in plan.notes)
    if memory is not None:
        lines.append(
            f"arena            {memory.arena_bytes / 2**20:.2f} MiB for "
            f"{memory.sum_bytes / 2**20:.2f} MiB of intermediates "
            f"(lower bound on the sequential order {memory.live_bytes / 2**20:.2f} MiB)"
        )
    return "\n".join(lines)
