"""Loads and stores of memrefs become those of the LLVM dialect, at pointers of our making."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rammer_mlir.bindings import ir, llvm
from rammer_mlir.lowering.gpu.llvm.pointers import Pointers
from rammer_mlir.lowering.gpu.temporaries import PRIVATE
from rammer_mlir.lowering.ir_walk import walk
from rammer_mlir.passes.ir.structured import element_bytes


def lower_memory_accesses(module: Any, index_bits: int) -> None:
    """Replace loads and stores of numbers and of vectors of numbers.

    Args:
        module: holds a gpu module in front of its conversion.
        index_bits: width of an index in the module.
    """
    pointers = Pointers(index_bits)
    for operation in walk(module.operation):
        lower = _LOWERINGS.get(operation.name)
        if lower is not None and _is_plain(operation):
            with ir.InsertionPoint(operation), operation.location:
                lower(operation, pointers)
            operation.erase()


def _is_plain(operation: Any) -> bool:
    """Return whether the LLVM dialect has the type that is accessed, and stores it as it is.

    Private memory is left to the conversion: which address space it becomes differs by target.
    """
    values = [*operation.results, *operation.operands]
    buffer = next(value.type for value in values if isinstance(value.type, ir.MemRefType))
    element = buffer.element_type
    if str(buffer.memory_space) == PRIVATE:
        return False
    is_vector = operation.name.startswith("vector.")
    if isinstance(element, ir.IntegerType):
        return element.is_signless and (element.width >= 8 or not is_vector)
    return isinstance(element, ir.FloatType)


def _load(operation: Any, pointers: Pointers) -> None:
    buffer, *indices = operation.operands
    pointer = pointers.element(buffer, indices)
    loaded = llvm.load(operation.result.type, pointer, alignment=_alignment(operation, buffer))
    operation.result.replace_all_uses_with(loaded)


def _store(operation: Any, pointers: Pointers) -> None:
    value, buffer, *indices = operation.operands
    pointer = pointers.element(buffer, indices)
    llvm.store(value, pointer, alignment=_alignment(operation, buffer))


def _alignment(operation: Any, buffer: Any) -> int:
    """Return what an access says of its address, in bytes, at least that of an element."""
    attributes = operation.attributes
    if "alignment" in attributes:
        return ir.IntegerAttr(attributes["alignment"]).value
    return element_bytes(buffer.type)


_LOWERINGS: dict[str, Callable[[Any, Pointers], None]] = {
    "memref.load": _load,
    "memref.store": _store,
    "vector.load": _load,
    "vector.store": _store,
}
