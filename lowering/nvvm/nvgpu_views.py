"""Adds types to the properties of nvgpu operations, which are untyped in the Python bindings."""

from __future__ import annotations

from typing import Protocol, cast

from rammer_mlir.bindings import ir


class AsyncCopy(Protocol):
    """The properties of an ``nvgpu.device_async_copy``, as the bindings name them."""

    dst: ir.Value[ir.MemRefType]
    dstIndices: ir.OpOperandList
    dstElements: ir.IntegerAttr
    src: ir.Value[ir.MemRefType]
    srcIndices: ir.OpOperandList
    srcElements: ir.Value | None
    bypassL1: ir.UnitAttr | None


class MatrixLoad(Protocol):
    """The properties of an ``nvgpu.ldmatrix``, as the bindings name them."""

    res: ir.Value[ir.VectorType]
    srcMemref: ir.Value[ir.MemRefType]
    indices: ir.OpOperandList
    numTiles: ir.IntegerAttr
    transpose: ir.BoolAttr


def async_copy(operation: ir.Operation) -> AsyncCopy:
    """Return an ``nvgpu.device_async_copy`` with typed properties."""
    return cast(AsyncCopy, operation.opview)


def matrix_load(operation: ir.Operation) -> MatrixLoad:
    """Return an ``nvgpu.ldmatrix`` with typed properties."""
    return cast(MatrixLoad, operation.opview)


def copied_bytes(copy: AsyncCopy) -> int:
    """Return the size in bytes of one of the elements that ``copy`` copies."""
    element = copy.dst.type.element_type
    assert isinstance(element, ir.IntegerType | ir.FloatType)
    return element.width // 8


def pending_groups(wait: ir.Operation) -> int:
    """Return the number of copy groups that an ``nvgpu.device_async_wait`` leaves in flight."""
    attributes = wait.attributes
    return ir.IntegerAttr(attributes["numGroups"]).value if "numGroups" in attributes else 0
