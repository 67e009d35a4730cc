"""Finds a kernel's memory accesses in the LLVM dialect, and emits calls of the emulator runtime."""

from __future__ import annotations

from rammer_mlir.bindings import ir, llvm
from rammer_mlir.emulation.codegen.i64_language import i64
from rammer_mlir.lowering.ir_walk import producer, walk

ATOMICS = ("llvm.atomicrmw", "llvm.cmpxchg")
"""Operations that read and write memory atomically."""


def _is_runtime(function: ir.OpView) -> bool:
    return ir.StringAttr(function.attributes["sym_name"]).value.startswith("emulator_")


def kernel_operations(module: ir.Module) -> list[ir.Operation]:
    """Return all operations in a module's functions, except in those of the emulator's runtime."""
    return [
        nested
        for function in module.body.operations
        if function.operation.name == "llvm.func" and not _is_runtime(function)
        for nested in walk(function.operation)
    ]


def is_atomic(operation: ir.Operation) -> bool:
    """Whether an operation is an atomic load, store, read-modify-write or compare-and-exchange."""
    if operation.name in ATOMICS:
        return True
    ordering = operation.attributes["ordering"] if "ordering" in operation.attributes else None
    return operation.name in ("llvm.load", "llvm.store") and bool(
        ordering is not None and ir.IntegerAttr(ordering).value
    )


def root_of(pointer: ir.Value) -> ir.Value:
    """Return the pointer from which ``getelementptr`` operations and casts compute ``pointer``."""
    while producer(pointer) in ("llvm.getelementptr", "llvm.bitcast", "llvm.addrspacecast"):
        pointer = ir.OpResult(pointer).owner.operands[0]
    return pointer


def number_word(value: int) -> ir.Value:
    """Emit the i64 constant ``value`` in the LLVM dialect and return it."""
    return llvm.mlir_constant(ir.IntegerAttr.get(i64(), value))


def address_word(pointer: ir.Value) -> ir.Value:
    """Emit the conversion of a pointer to an i64, and return this i64."""
    return llvm.ptrtoint(i64(), pointer)


def call_runtime(function: str, *arguments: ir.Value) -> None:
    """Emit a call of the runtime's function ``function``, with i64 arguments and no result."""
    llvm.CallOp(None, list(arguments), [], [], callee=ir.FlatSymbolRefAttr.get(function))
