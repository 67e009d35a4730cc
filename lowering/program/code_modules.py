"""Completes the record of a foreign code module: its callers, and its operations in a run."""

from __future__ import annotations

from dataclasses import replace

from rammer_mlir.passes.program.program_ir import ScheduledModule
from rammer_mlir.programs.modules import CodeModule
from rammer_mlir.programs.records import Program


def completed(module: CodeModule, program: Program, scheduled: ScheduledModule) -> CodeModule:
    """Return a copy of a foreign code module with its ``kernels`` and ``operations`` set.

    ``kernels`` lists the rKernels that call this code, by their indices in ``program``.
    ``operations`` is the number of scalar operations that all rTasks of these rKernels execute in
    one run.
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
