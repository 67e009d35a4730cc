"""Adds to external code modules the rKernels that call them, and their operation counts."""

from __future__ import annotations

from dataclasses import replace

from rammer_mlir.passes.program.program_ir import ScheduledModule
from rammer_mlir.programs.modules import CodeModule
from rammer_mlir.programs.records import Program


def completed(module: CodeModule, program: Program, scheduled: ScheduledModule) -> CodeModule:
    """Return a copy of an external code module that names the rKernels calling it.

    Its field ``kernels`` has the numbers of these rKernels in ``program``, and its field
    ``operations`` the number of scalar operations of all their rTasks in a run.
    """
    kernels = {
        number
        for number, kernel in enumerate(program.kernels)
        if scheduled.builder.kernel(kernel.name).module == module.name
    }
    operations = sum(
        kernel.flops_per_rtask * kernel.num_rtasks
        for operator in program.operators
        if operator.kernel in kernels
        for kernel in [scheduled.builder.kernel(program.kernels[operator.kernel].name)]
    )
    return replace(module, kernels=tuple(sorted(kernels)), operations=operations)
