"""Lowers nvgpu's asynchronous copies and matrix loads to the LLVM and NVVM dialects.

MLIR's pass ``convert-nvgpu-to-nvvm`` treats every index as 64-bit, and computes addresses in 64
bits. So this file lowers the memory accesses, and leaves to that pass only operations on registers,
such as ``nvgpu.mma.sync``.
"""

from __future__ import annotations

from collections.abc import Callable

from rammer_mlir.bindings import arith, ir, llvm, nvvm
from rammer_mlir.lowering.gpu.llvm.pointers import Pointers
from rammer_mlir.lowering.ir_walk import constant_integer, producer, walk
from rammer_mlir.lowering.nvvm.nvgpu_views import (
    async_copy,
    copied_bytes,
    matrix_load,
    pending_groups,
)

_GLOBAL = "!llvm.ptr<1>"
_SELECT = "arith.select"
_REGISTER = 32
"""Number of bits of a register."""


def lower_shared_memory(module: ir.Module, index_bits: int) -> None:
    """Replace nvgpu's copies to shared memory and ``ldmatrix`` operations by NVVM operations.

    The copies are asynchronous. The operations that form groups of copies, and those that wait for
    a group, are replaced as well.

    Args:
        module: contains a gpu module. Only groups may use the tokens of copies, and only waits may
            use the tokens of groups.
        index_bits: width of an index in the module.
    """
    pointers = Pointers(index_bits)
    # users of tokens before their producers
    for operation in reversed(list(walk(module.operation))):
        lower = _LOWERINGS.get(operation.name)
        if lower is not None:
            with ir.InsertionPoint(operation), operation.location:
                lower(operation, pointers)
            operation.erase()


def _copy(operation: ir.Operation, pointers: Pointers) -> None:
    """Emit NVVM's asynchronous copy for nvgpu's copy of 4, 8 or 16 bytes.

    Bytes after the first ``srcElements`` elements become zeros. If ``srcElements`` is zero, nothing
    is read, so the source index may be outside of the buffer. A select that replaces an invalid
    index by a valid index is therefore dropped, as in CUTLASS (``cp_async_zfill``).
    """
    copy = async_copy(operation)
    width = copied_bytes(copy)
    size = copy.dstElements.value * width
    to = pointers.element(copy.dst, list(copy.dstIndices))
    at = [_read_index(index, copy.srcElements) for index in copy.srcIndices]
    source = pointers.element(copy.src, at)
    source = llvm.addrspacecast(ir.Type.parse(_GLOBAL), source)
    taken = copy.srcElements
    if taken is not None:
        read = arith.muli(taken, arith.constant(taken.type, width))
        taken = arith.index_cast(ir.IntegerType.get_signless(_REGISTER), read)
    caches = nvvm.LoadCacheModifierKind
    modifier = caches.CG if copy.bypassL1 else caches.CA
    nvvm.cp_async_shared_global(to, source, size, modifier, cp_size=taken)


def _read_index(index: ir.Value, taken: ir.Value | None) -> ir.Value:
    """Return the index from which a copy reads, without a select that only avoids invalid indices.

    If ``index`` is ``c ? i : j`` and ``taken`` is ``c ? n : 0``, return ``i``, because nothing is
    read if ``c`` is false. Otherwise return ``index``.

    Args:
        index: the source index of the copy.
        taken: the number of elements that the copy reads; None for all elements.
    """
    if taken is None or not producer(index) == producer(taken) == _SELECT:
        return index
    condition, inside, _ = ir.OpResult(index).owner.operands
    read, _, nothing = ir.OpResult(taken).owner.operands
    return inside if condition == read and constant_integer(nothing) == 0 else index


def _group(operation: ir.Operation, pointers: Pointers) -> None:
    nvvm.cp_async_commit_group()


def _wait(operation: ir.Operation, pointers: Pointers) -> None:
    nvvm.cp_async_wait_group(pending_groups(operation))


def _matrices(operation: ir.Operation, pointers: Pointers) -> None:
    """Emit NVVM's load for an ``nvgpu.ldmatrix``, which loads matrices of 8x8 16-bit elements.

    Each lane gets one 32-bit register per matrix.
    """
    load = matrix_load(operation)
    count = load.numTiles.value
    fragment = load.res.type
    register = ir.IntegerType.get_signless(_REGISTER)
    loaded = nvvm.ldmatrix(
        pointers.element(load.srcMemref, list(load.indices)),
        count,
        ir.Attribute.parse(f"#nvvm.mma_layout<{'col' if load.transpose.value else 'row'}>"),
        ir.Attribute.parse("#nvvm.ld_st_matrix_shape<m = 8, n = 8>"),
        ir.Attribute.parse("#nvvm.ld_st_matrix_elt_type<b16>"),
        results=[_struct(register, count)],
    )
    pair = ir.VectorType.get(fragment.shape[1:], fragment.element_type)
    array = llvm.mlir_poison(ir.Type.parse(f"!llvm.array<{count} x {pair}>"))
    for n in range(count):
        part = loaded if count == 1 else llvm.extractvalue(register, loaded, [n])
        array = llvm.insertvalue(array, llvm.bitcast(pair, part), [n])
    # The representation of a rank-2 vector after conversion to LLVM's dialect.
    cast = ir.Operation.create(
        "builtin.unrealized_conversion_cast", results=[fragment], operands=[array]
    )
    load.res.replace_all_uses_with(cast.result)


def _struct(kind: ir.Type, count: int) -> ir.Type:
    """Return the type of ``count`` registers of type ``kind``.

    The type is ``kind`` for one register, else a struct with a field for each register.
    """
    if count == 1:
        return kind
    return ir.Type.parse(f"!llvm.struct<({', '.join([str(kind)] * count)})>")


_LOWERINGS: dict[str, Callable[[ir.Operation, Pointers], None]] = {
    "nvgpu.device_async_copy": _copy,
    "nvgpu.device_async_create_group": _group,
    "nvgpu.device_async_wait": _wait,
    "nvgpu.ldmatrix": _matrices,
}
