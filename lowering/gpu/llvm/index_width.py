"""Chooses the width of indices in a persistent kernel: 32 bits if no index can need more.

A GPU has 32-bit registers: a 64-bit index takes two registers, its addition two instructions and
its multiplication about four. 32 bits suffice if every buffer of the kernel is shorter than
``LIMIT`` bytes, because every index is at most the byte length of the longest buffer. An index is
one of:

- the index of an element in a buffer, along a dimension or linearized: at most the element count;
- a byte offset into a buffer, from the task table: at most the byte length;
- a position in the task table, or the index of a buffer, an rKernel or a vEU;
- the index of an rTask: each rTask writes at least one byte that no other rTask writes;
- one of the above plus a loop's step or a constant offset of an address, for which ``LIMIT`` leaves
  room below 2^31.

An index may be outside of its buffer (padding, or a tile that extends beyond the buffer's end).
Such an index is compared with the buffer's size before use, and offsets computed from it are not
used. The comparison is unsigned, so that a negative index exceeds every size, with 32 bits as with
64 bits.

Index arithmetic that a model writes in a body may exceed 32 bits, such as a hash of an index: the
pass `rtask-widen-indices` computes it as i64 before.

All valid indices fit in 31 bits, so sign extension and zero extension agree; LLVM's
``getelementptr`` sign-extends an index to the width of a pointer. Three kinds of values may be
larger and are always of type i64: step counters, the counts of completed runs, and the step counts
that barriers wait for.
"""

from __future__ import annotations

from math import prod

from rammer_mlir.bindings import ir
from rammer_mlir.lowering.gpu.llvm.pointers import ADDRESS, is_cast_of_address
from rammer_mlir.lowering.ir_walk import walk
from rammer_mlir.passes.ir.structured import element_bytes

WIDE, NARROW = 64, 32

_ARITHMETIC = frozenset(("arith.addi", "arith.subi", "arith.muli"))

LIMIT = (1 << 31) - (1 << 24)
"""Size in bytes below which all buffers of a kernel with 32-bit indices must be.

It is 2^31 less the largest step: of a loop, of a block's threads with several elements each, or of
an address (``pointers``).
"""


def index_width(module: ir.Module) -> int:
    """Return the number of bits of an index in a module's kernels, 32 or 64.

    Args:
        module: contains a gpu module that is not lowered yet: its kernels have memref arguments.
    """
    for operation in walk(module.operation):
        if operation.name == "gpu.func" and not _has_short_buffers(operation):
            return WIDE
        if any(map(_stores_indices, operation.results)):
            return WIDE
        if operation.name == ADDRESS and not all(map(is_cast_of_address, operation.result.uses)):
            return WIDE
    return NARROW


def rule_out_overflow(module: ir.Module) -> None:
    """Mark all sums, differences and products of indices as free of signed overflow.

    With this mark, LLVM may exchange sign extension and addition, and so fold a constant part of an
    index into the immediate offset of a load.
    """
    never = ir.Attribute.parse("#arith.overflow<nsw>")
    for operation in walk(module.operation):
        if operation.name in _ARITHMETIC and isinstance(operation.result.type, ir.IndexType):
            operation.attributes["overflowFlags"] = never


def _has_short_buffers(kernel: ir.Operation) -> bool:
    arguments = list(kernel.regions[0].blocks[0].arguments)
    if any(map(_stores_indices, arguments)):
        return False
    kinds = (ir.MemRefType(argument.type) for argument in arguments)
    return all(kind.has_static_shape and _bytes(kind) < LIMIT for kind in kinds)


def _stores_indices(value: ir.Value) -> bool:
    """Whether a value is a buffer of indices, which have 64 bits in memory."""
    kind = value.type
    return isinstance(kind, ir.MemRefType) and isinstance(kind.element_type, ir.IndexType)


def _bytes(kind: ir.MemRefType) -> int:
    return prod(kind.shape) * element_bytes(kind)
