"""Lowers memref loads and stores to the LLVM dialect, with custom pointer arithmetic."""

from __future__ import annotations

from collections.abc import Callable

from rammer_mlir.bindings import ir, llvm
from rammer_mlir.lowering.gpu.llvm.pointers import Pointers
from rammer_mlir.lowering.gpu.temporaries import PRIVATE
from rammer_mlir.lowering.ir_walk import walk
from rammer_mlir.passes.ir.structured import Buffer, as_buffer, element_bytes, is_buffer


def lower_memory_accesses(module: ir.Module, index_bits: int) -> None:
    """Replace memref and vector loads and stores by loads and stores of the LLVM dialect.

    Some accesses remain for MLIR's own conversion: those of private memory, those of elements other
    than floats and signless integers, and those of vectors of elements narrower than a byte.

    Args:
        module: contains a gpu module before its conversion.
        index_bits: width of an index in the module.
    """
    pointers = Pointers(index_bits)
    for operation in walk(module.operation):
        lower = _LOWERINGS.get(operation.name)
        if lower is not None and _is_plain(operation):
            with ir.InsertionPoint(operation), operation.location:
                lower(operation, pointers)
            operation.erase()


def _is_plain(operation: ir.Operation) -> bool:
    """Return whether ``lower_memory_accesses`` replaces a load or store.

    The elements must be floats or signless integers. The elements of a vector must be at least a
    byte wide. The memory must not be private memory, whose address space differs by target.
    """
    values = [*operation.results, *operation.operands]
    kind = next(value.type for value in values if is_buffer(value))
    element = kind.element_type
    if str(kind.memory_space) == PRIVATE:
        return False
    is_vector = operation.name.startswith("vector.")
    if isinstance(element, ir.IntegerType):
        return element.is_signless and (element.width >= 8 or not is_vector)
    return isinstance(element, ir.FloatType)


def _load(operation: ir.Operation, pointers: Pointers) -> None:
    source, *indices = operation.operands
    buffer = as_buffer(source)
    pointer = pointers.element(buffer, indices)
    loaded = llvm.load(operation.result.type, pointer, alignment=_alignment(operation, buffer))
    operation.result.replace_all_uses_with(loaded)


def _store(operation: ir.Operation, pointers: Pointers) -> None:
    value, target, *indices = operation.operands
    buffer = as_buffer(target)
    pointer = pointers.element(buffer, indices)
    llvm.store(value, pointer, alignment=_alignment(operation, buffer))


def _alignment(operation: ir.Operation, buffer: Buffer) -> int:
    """Return the guaranteed alignment of an access in bytes.

    The alignment is the attribute ``alignment`` of the operation or, without this attribute, the
    size of an element.
    """
    given = operation.attributes.get("alignment")
    return element_bytes(buffer.type) if given is None else ir.IntegerAttr(given).value


_LOWERINGS: dict[str, Callable[[ir.Operation, Pointers], None]] = {
    "memref.load": _load,
    "memref.store": _store,
    "vector.load": _load,
    "vector.store": _store,
}
