"""Chooses the width of indices in a persistent kernel: 32 bits if no index can need more.

A GPU has 32-bit registers: a 64-bit index takes two of them, a sum two instructions and a product
about four. 32 bits suffice if every buffer of the kernel is shorter than ``LIMIT`` bytes, because
an index is one of the following, none larger than the longest buffer:

- the index of an element in a buffer, along a dimension or linearized: at most its elements;
- a byte offset into a buffer of the kernel, from the task table: at most its bytes;
- a position in the task table, or the number of a buffer, an rKernel or a vEU;
- the number of an rTask: each writes at least one separate byte;
- one of these plus a loop step or an address constant, for which ``LIMIT`` leaves room below 2^31.

An index outside of its buffer (padding, the end of a cut tile) is compared with the buffer's size
before use; offsets computed from it are not used. The comparison is unsigned, so negative indices
compare above every size, as with 64 bits.

All of these fit in 31 bits, so sign extension and zero extension agree; LLVM's ``getelementptr``
sign-extends an index to the width of a pointer. Values that may be larger are of type i64 from the
task table on, with either width: step counters, the numbers of runs and the awaited steps of
barriers.
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
        module: contains a gpu module that is not lowered yet, whose kernels have memref arguments.
    """
    for operation in walk(module.operation):
        if operation.name == "gpu.func" and not _has_short_buffers(operation):
            return WIDE
        if operation.name == ADDRESS and not all(map(is_cast_of_address, operation.result.uses)):
            return WIDE
    return NARROW


def rule_out_overflow(module: ir.Module) -> None:
    """Mark all sums, differences and products of indices as free of signed overflow.

    Only then may LLVM exchange sign extension and addition, and so fold a constant part of an index
    into the immediate offset of a load.
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
