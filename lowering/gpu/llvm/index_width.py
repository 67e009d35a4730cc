"""How wide an index is in a persistent kernel: 32 bits where no index can need more.

A GPU computes with registers of 32 bits: an index of 64 bits takes two of them, a sum two
instructions and a product some four. 32 bits suffice where every buffer of the kernel is shorter
than ``LIMIT`` bytes, because an index is one of these, none larger than the longest buffer:

- the place of an element in a buffer, along one of its dimensions or in all: at most its elements;
- a byte offset into one of the kernel's buffers, from the task table: at most its bytes;
- a position in the task table, or the number of a buffer, an rKernel or a vEU;
- the number of an rTask: each writes at least one byte of its own;
- one step of a loop, or the constant of an address, beyond those: ``LIMIT`` leaves room for that
  below 2^31.

Where an index is outside of its buffer - a pad, the end of a tile that is cut - it is compared with
the buffer's size before it is used; an offset that was computed from it is not used. Compared
unsigned, what is below zero is beyond every size, as with 64 bits.

All of these fit in 31 bits, so that it does not matter whether they are extended with their sign
or with zeros; LLVM's ``getelementptr`` extends an index with its sign to the width of a pointer.
What may be larger is of type i64 from the task table on, with either width: step counters, the
numbers of runs and the steps that barriers wait for.
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
"""Bytes: 2^31, less what a step adds: that of a loop, of a block's threads with some elements each,
or that of an address (``pointers``)."""


def index_width(module: ir.Module) -> int:
    """Return the bits of an index in a module's kernels, 32 or 64.

    Args:
        module: holds a gpu module in front of its lowering; its kernels' arguments are memrefs.
    """
    for operation in walk(module.operation):
        if operation.name == "gpu.func" and not _has_short_buffers(operation):
            return WIDE
        if operation.name == ADDRESS and not all(map(is_cast_of_address, operation.result.uses)):
            return WIDE
    return NARROW


def rule_out_overflow(module: ir.Module) -> None:
    """Tell LLVM that no sum, difference or product of indices overflows.

    Only so does it know that extending a sum is the same as adding to what was extended, and that a
    constant may go from an index to the offset that a load's instruction has.
    """
    never = ir.Attribute.parse("#arith.overflow<nsw>")
    for operation in walk(module.operation):
        if operation.name in _ARITHMETIC and isinstance(operation.result.type, ir.IndexType):
            operation.attributes["overflowFlags"] = never


def _has_short_buffers(kernel: ir.Operation) -> bool:
    kinds = (ir.MemRefType(argument.type) for argument in kernel.regions[0].blocks[0].arguments)
    return all(kind.has_static_shape and _bytes(kind) < LIMIT for kind in kinds)


def _bytes(kind: ir.MemRefType) -> int:
    return prod(kind.shape) * element_bytes(kind)
