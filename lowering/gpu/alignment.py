"""What is provable of the alignment of buffers and indices, for wide accesses."""

from __future__ import annotations

from math import gcd
from typing import Any

from rammer_mlir.bindings import ir
from rammer_mlir.lowering.gpu.contractions.plan import WIDEST
from rammer_mlir.lowering.ir_walk import constant_integer, producer

ALIGNMENT = "rtask.alignment"
"""Attribute of an rKernel's argument: bytes that its address is always a multiple of."""

_KEEPING = ("memref.cast", "memref.extract_strided_metadata", "memref.memory_space_cast")


def address_alignment(buffer: Any) -> int:
    """Return bytes that the address of a memref's first element is a multiple of, at most 16."""
    owner = buffer.owner
    width = _element_bytes(buffer.type.element_type)
    if isinstance(owner, ir.Block):
        known = _argument_alignment(owner, buffer.arg_number, width)
        offset = buffer.type.get_strides_and_offset()[1]
        dynamic = ir.ShapedType.get_dynamic_stride_or_offset()
        return gcd(known, width if offset == dynamic else offset * width)
    operation = owner.operation
    if operation.name == "memref.view":
        return gcd(address_alignment(operation.operands[0]), divisor(operation.operands[1]))
    if operation.name in _KEEPING:
        return address_alignment(operation.operands[0])
    if operation.name == "memref.reinterpret_cast":
        source = operation.operands[0]
        return gcd(address_alignment(source), _offset_divisor(operation) * width)
    return width


def holds_aligned_runs(buffer: Any, width: int) -> bool:
    """Whether any ``width`` elements from a multiple of it along the last dimension are aligned.

    They are neighbours in memory, and their address is a multiple of their size.
    """
    strides, _ = buffer.type.get_strides_and_offset()
    return (
        strides[-1] == 1
        and all(stride > 0 and stride % width == 0 for stride in strides[:-1])
        and address_alignment(buffer) % (width * _element_bytes(buffer.type.element_type)) == 0
    )


def _argument_alignment(block: Any, number: int, width: int) -> int:
    function = block.owner
    if "arg_attrs" not in function.attributes:
        return width
    given = ir.DictAttr(ir.ArrayAttr(function.attributes["arg_attrs"])[number])
    if ALIGNMENT not in given:
        return width
    return gcd(WIDEST, max(width, ir.IntegerAttr(given[ALIGNMENT]).value))


def _offset_divisor(cast: Any) -> int:
    """Return what a reinterpret_cast's offset is a multiple of, in elements."""
    offset = next(iter(ir.DenseI64ArrayAttr(cast.attributes["static_offsets"])))
    if offset != ir.ShapedType.get_dynamic_stride_or_offset():
        return gcd(WIDEST, offset)
    return divisor(cast.operands[1])


def divisor(value: Any) -> int:
    """Return a power of two, at most 16, that an index value is always a multiple of."""
    name = producer(value)
    if not name:
        return 1
    known = constant_integer(value)
    if known is not None:
        return gcd(WIDEST, known)
    operation = value.owner.operation
    if name == "arith.muli":
        return gcd(WIDEST, divisor(operation.operands[0]) * divisor(operation.operands[1]))
    if name in ("arith.addi", "arith.subi", "arith.select", "arith.minsi", "arith.maxsi"):
        left, right = operation.operands[-2], operation.operands[-1]
        return gcd(divisor(left), divisor(right))
    if name in ("arith.index_cast", "arith.index_castui"):
        return divisor(operation.operands[0])
    return 1


def _element_bytes(kind: Any) -> int:
    return 8 if isinstance(kind, ir.IndexType) else max(1, kind.width // 8)
