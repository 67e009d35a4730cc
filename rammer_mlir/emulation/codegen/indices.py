"""Inserts checks that the indices of memory accesses are inside their dimensions.

Memrefs have the sizes of dimensions, so the checks are inserted before the lowering to the LLVM
dialect. An index outside its dimension may well be inside its buffer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rammer_mlir.bindings import arith, func, ir, memref
from rammer_mlir.emulation.codegen.i64_language import constant_word, i64
from rammer_mlir.emulation.codegen.sites import Sites
from rammer_mlir.lowering.ir_walk import walk
from rammer_mlir.lowering.nvvm.nvgpu_views import async_copy

_MEMREFS = {
    "memref.load": 0, "memref.store": 1, "vector.load": 0, "vector.store": 1,
    "memref.atomic_rmw": 1, "nvgpu.ldmatrix": 0,
}  # fmt: skip
"""Index of a checked operation's memref operand, by operation name; the indices follow it."""

_MATRIX_ROW = 8
"""Count of contiguous elements that each lane's address of ``ldmatrix`` refers to."""


@dataclass(frozen=True)
class _Box:
    """The elements of a memref that an operation accesses: the first index, and the counts.

    ``shape`` has the counts along the last dimensions; along the others, the count is 1.
    """

    buffer: ir.Value
    indices: Sequence[ir.Value]
    shape: Sequence[int]


def check_indices(module: ir.Module, sites: Sites) -> None:
    """Insert checks that the indices of memref accesses are less than the memref's sizes.

    ``sites`` assigns site indices to the accesses, for fault messages.
    """
    for operation in list(walk(module.operation)):
        with ir.InsertionPoint(operation), operation.location:
            if operation.name in _MEMREFS:
                _check(_box(operation), sites.add(operation))
            elif operation.name == "nvgpu.device_async_copy":
                _check_copy(operation, sites.add(operation))


def _box(operation: ir.Operation) -> _Box:
    number = _MEMREFS[operation.name]
    value = operation.results[0] if len(operation.results) else operation.operands[0]
    element = ir.MemRefType(operation.operands[number].type).element_type
    shape = value.type.shape if isinstance(value.type, ir.VectorType) else []
    if isinstance(element, ir.VectorType):
        shape = []
    if operation.name == "nvgpu.ldmatrix":
        shape = [_MATRIX_ROW]
    return _Box(operation.operands[number], list(operation.operands)[number + 1 :], shape)


def _check_copy(operation: ir.Operation, site: int) -> None:
    """Insert the checks of an asynchronous copy; a copy of 0 elements may have any source index."""
    copy = async_copy(operation)
    _check(_Box(copy.dst, list(copy.dstIndices), [copy.dstElements.value]), site)
    if copy.srcElements is None:
        shape = [copy.dstElements.value]
        _check(_Box(copy.src, list(copy.srcIndices), shape), site)
    else:
        zero = arith.constant(ir.IndexType.get(), 0)
        is_empty = arith.cmpi(arith.CmpIPredicate.eq, copy.srcElements, zero)
        indices = [arith.select(is_empty, zero, index) for index in copy.srcIndices]
        _check(_Box(copy.src, indices, []), site)


def _check(box: _Box, site: int) -> None:
    extra = [0] * (len(box.indices) - len(box.shape)) + [size - 1 for size in box.shape]
    for dimension, (index, more) in enumerate(zip(box.indices, extra, strict=True)):
        size = _size(box.buffer, dimension)
        if isinstance(size, int):
            limit = constant_word(max(size - more, 0))
        else:
            limit = arith.maxsi(arith.subi(size, constant_word(more)), constant_word(0))
        word = arith.index_cast(i64(), index)
        func.CallOp(
            [], "emulator_index", [word, limit, constant_word(site), constant_word(dimension)]
        )


def _size(buffer: ir.Value, dimension: int) -> ir.Value | int:
    size = ir.MemRefType(buffer.type).shape[dimension]
    if size != ir.ShapedType.get_dynamic_size():
        return size
    place = arith.constant(ir.IndexType.get(), dimension)
    return arith.index_cast(i64(), memref.dim(buffer, place))
