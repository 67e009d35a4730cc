"""Translates the LLVM dialect to LLVM IR text that llvmlite parses."""

from __future__ import annotations

from rammer_mlir.bindings import ir
from rammer_mlir.bindings import llvm as llvm_dialect
from rammer_mlir.errors import TargetError
from rammer_mlir.lowering.ir_walk import walk
from rammer_mlir.lowering.llvm.ir_text import downgrade

_DIALECTS = frozenset(("llvm", "nvvm", "rocdl"))
"""Dialects that the translation to LLVM IR supports."""


def to_llvm_ir(module: ir.Module | ir.Operation) -> str:
    """Return a module of the LLVM dialect as LLVM IR text that llvmlite parses.

    The module is a ``builtin.module``, or a ``gpu.module`` that may use the GPU's intrinsics.
    Raises ``TargetError`` if the module still has operations of other dialects, because the
    translation would abort the process.
    """
    for operation in walk(module.operation):
        if operation.name.split(".")[0] not in _DIALECTS:
            raise TargetError(
                f"translating to LLVM IR: expected operations of the LLVM dialect, found "
                f"'{operation.name}'; lower it first"
            )
    return downgrade(llvm_dialect.translate_module_to_llvmir(module.operation))
