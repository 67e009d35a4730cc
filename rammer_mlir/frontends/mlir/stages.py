"""Detects a module's compiler stage from its content."""

from __future__ import annotations

from collections.abc import Iterator

from rammer_mlir.bindings import ir
from rammer_mlir.passes.ir.entry import CODEGEN, functions

LINALG, REGIONS, OPERATORS, TASKS, BUFFERS, PROGRAM = STAGES = (
    "linalg", "regions", "operators", "tasks", "buffers", "program",
)  # fmt: skip
"""Stages at which a module can enter the compiler, in order."""

LOWERED = ("llvm.func", "gpu.module", "gpu.func")
"""Operations of stages after `program`, whose schedule and weights are not in the IR."""


def stage_of(module: ir.Module) -> str | None:
    """Return the name of a module's compiler stage, at most `program`; None for any later stage."""
    top = {op.operation.name for op in module.body.operations}
    if top & set(LOWERED):
        return None
    entry = list(_entry_operations(module))
    names = {op.name for op in entry}
    if "rtask.program" in names:
        return PROGRAM
    operators = [op for op in entry if op.name == "rtask.operator"]
    if any(isinstance(value.type, ir.MemRefType) for op in operators for value in op.operands):
        return BUFFERS
    if operators:
        return TASKS if "rtask.kernel" in top else OPERATORS
    is_divided = any(CODEGEN in function.operation.attributes for function in functions(module))
    return REGIONS if is_divided else LINALG


def _entry_operations(module: ir.Module) -> Iterator[ir.Operation]:
    """Yield the top-level operations of all functions' bodies, not operations in nested regions."""
    for function in functions(module):
        for block in function.operation.regions[0].blocks:
            yield from (op.operation for op in block.operations)
