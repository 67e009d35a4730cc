"""Proves the alignment of buffers and indices at compile time, for wide accesses."""

from __future__ import annotations

from math import gcd

from rammer_mlir.bindings import ir
from rammer_mlir.lowering.gpu.contractions.plan import WIDEST
from rammer_mlir.lowering.ir_walk import constant_integer, producer
from rammer_mlir.passes.ir.structured import Buffer, element_bytes, is_buffer

ALIGNMENT = "rtask.alignment"
"""Attribute of an rKernel's argument: a number of bytes that divides the buffer's address."""

_KEEPING = ("memref.cast", "memref.extract_strided_metadata", "memref.memory_space_cast")


def address_alignment(buffer: Buffer) -> int:
    """Return a divisor, at most 16, of the address of a memref's first element, in bytes."""
    owner = buffer.owner
    width = element_bytes(buffer.type)
    if isinstance(owner, ir.Block):
        known = _argument_alignment(owner, ir.BlockArgument(buffer).arg_number, width)
        offset = buffer.type.get_strides_and_offset()[1]
        dynamic = ir.ShapedType.get_dynamic_stride_or_offset()
        return gcd(known, width if offset == dynamic else offset * width)
    operation = owner.operation
    if operation.name == "memref.view":
        return gcd(_source_alignment(operation), divisor(operation.operands[1]))
    if operation.name in _KEEPING:
        return _source_alignment(operation)
    if operation.name == "memref.reinterpret_cast":
        return gcd(_source_alignment(operation), _offset_divisor(operation) * width)
    return width


def _source_alignment(view: ir.Operation) -> int:
    source = view.operands[0]
    assert is_buffer(source)
    return address_alignment(source)


def holds_aligned_runs(buffer: Buffer, width: int) -> bool:
    """Return whether rows of a memref can be accessed by aligned vectors of ``width`` elements.

    They can if every vector along the last dimension that begins at a multiple of ``width`` is
    contiguous and has an address that is a multiple of the vector's size.
    """
    strides, _ = buffer.type.get_strides_and_offset()
    return (
        strides[-1] == 1
        and all(stride > 0 and stride % width == 0 for stride in strides[:-1])
        and address_alignment(buffer) % (width * element_bytes(buffer.type)) == 0
    )


def _argument_alignment(block: ir.Block, number: int, width: int) -> int:
    function = block.owner
    if "arg_attrs" not in function.attributes:
        return width
    given = ir.DictAttr(ir.ArrayAttr(function.attributes["arg_attrs"])[number])
    if ALIGNMENT not in given:
        return width
    return gcd(WIDEST, max(width, ir.IntegerAttr(given[ALIGNMENT]).value))


def _offset_divisor(cast: ir.Operation) -> int:
    """Return a power of two, at most 16, that divides a ``memref.reinterpret_cast``'s offset.

    The offset is in elements.
    """
    offset = next(iter(ir.DenseI64ArrayAttr(cast.attributes["static_offsets"])))
    if offset != ir.ShapedType.get_dynamic_stride_or_offset():
        return gcd(WIDEST, offset)
    return divisor(cast.operands[1])


def divisor(value: ir.Value) -> int:
    """Return a power of two, at most 16, that divides an index value."""
    if isinstance(value.owner, ir.Block):
        return 1
    known = constant_integer(value)
    if known is not None:
        return gcd(WIDEST, known)
    operation, name = value.owner.operation, producer(value)
    if name == "arith.muli":
        return gcd(WIDEST, divisor(operation.operands[0]) * divisor(operation.operands[1]))
    if name in ("arith.addi", "arith.subi", "arith.select", "arith.minsi", "arith.maxsi"):
        left, right = operation.operands[-2], operation.operands[-1]
        return gcd(divisor(left), divisor(right))
    if name in ("arith.index_cast", "arith.index_castui"):
        return divisor(operation.operands[0])
    return 1
