"""Instruments a kernel so that launches record each lane's memory accesses."""

from __future__ import annotations

from rammer_mlir.bindings import ir
from rammer_mlir.emulation.codegen.accesses import (
    address_word,
    call_runtime,
    is_atomic,
    kernel_operations,
    number_word,
    root_of,
)
from rammer_mlir.emulation.codegen.gpu_to_func import element_bytes
from rammer_mlir.emulation.codegen.i64_language import Record, Word, define, when
from rammer_mlir.emulation.codegen.scheduler import current, world
from rammer_mlir.emulation.codegen.sites import location_names
from rammer_mlir.emulation.records import (
    TRACE_ACCESS_SHIFT,
    TRACE_BLOCK_SHIFT,
    Lane,
    TracedAccess,
    TraceRecord,
    World,
)
from rammer_mlir.lowering.ir_walk import producer

_COPY = "emulator_copy"


def trace_accesses(module: ir.Module) -> tuple[TracedAccess, ...]:
    """Insert a call that records the access before each load, store and asynchronous copy.

    Return a description of each such operation, by access index. Atomic operations and accesses of
    a lane's private memory are excluded.
    """
    found: list[TracedAccess] = []
    for operation in kernel_operations(module):
        known = _access(operation)
        if known is not None:
            address, num_bytes = known
            kind = "copy" if operation.name == "llvm.call" else operation.name
            with ir.InsertionPoint(operation), operation.location:
                word = address if kind == "copy" else address_word(address)
                call_runtime("emulator_trace", word, number_word(len(found)))
            found.append(
                TracedAccess(_function(operation), kind, location_names(operation), num_bytes)
            )
    return tuple(found)


def _access(operation: ir.Operation) -> tuple[ir.Value, int] | None:
    """Return the pointer that an operation accesses, and the count of bytes; None if not traced.

    For an asynchronous copy, return the source's address, an i64, instead of a pointer.
    """
    if operation.name == "llvm.call":
        return _copy_source(operation)
    if operation.name not in ("llvm.load", "llvm.store") or is_atomic(operation):
        return None
    is_load = operation.name == "llvm.load"
    pointer = operation.operands[0 if is_load else 1]
    if producer(root_of(pointer)) == "llvm.alloca":
        return None
    value = operation.results[0] if is_load else operation.operands[0]
    return pointer, element_bytes(value.type)


def _copy_source(call: ir.Operation) -> tuple[ir.Value, int] | None:
    callee = call.attributes["callee"] if "callee" in call.attributes else None
    if callee is None or ir.FlatSymbolRefAttr(callee).value != _COPY:
        return None
    _, _, source, _, size, *_ = call.operands
    return source, ir.IntegerAttr(ir.OpResult(size).owner.attributes["value"]).value


def _function(operation: ir.Operation) -> str:
    while operation.name != "llvm.func":
        assert operation.parent is not None
        operation = operation.parent.operation
    return ir.StringAttr(operation.attributes["sym_name"]).value.removeprefix("kernel.")


def _trace(address: Word, access: Word) -> None:
    launch, lane = world(), current()
    record = Record(launch[World.TRACE])
    with when(record.address < launch[World.TRACE_END]):
        who = (access << TRACE_ACCESS_SHIFT) | (lane[Lane.BLOCK] << TRACE_BLOCK_SHIFT)
        record[TraceRecord.ADDRESS] = address
        record[TraceRecord.WHO] = who | lane[Lane.LANE]
        launch[World.TRACE] = record.at(len(TraceRecord))


def emit_trace() -> None:
    """Emit the runtime's function ``emulator_trace``, which records an access in the trace.

    If the trace is full, the function does nothing.
    """
    define("emulator_trace", 2, _trace)
