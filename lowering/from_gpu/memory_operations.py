"""Which operations of a kernel touch memory, how, and where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rammer_mlir.bindings import ir


@dataclass(frozen=True)
class MemoryOperation:
    """An operation on one memref.

    Attributes:
        buffer: the memref's number among the operands.
        indices: the first index's number; None where the whole memref is touched.
        reads, writes: what it does.
    """

    buffer: int
    indices: int | None
    reads: bool
    writes: bool


MEMORY_OPERATIONS: Mapping[str, Sequence[MemoryOperation]] = {
    "memref.load": (MemoryOperation(0, 1, True, False),),
    "memref.store": (MemoryOperation(1, 2, False, True),),
    "memref.atomic_rmw": (MemoryOperation(1, 2, True, True),),
    "memref.generic_atomic_rmw": (MemoryOperation(0, 1, True, True),),
    "affine.load": (MemoryOperation(0, 1, True, False),),
    "affine.store": (MemoryOperation(1, 2, False, True),),
    "vector.load": (MemoryOperation(0, 1, True, False),),
    "vector.store": (MemoryOperation(1, 2, False, True),),
    "vector.transfer_read": (MemoryOperation(0, None, True, False),),
    "vector.transfer_write": (MemoryOperation(1, None, False, True),),
    "memref.copy": (MemoryOperation(0, None, True, False), MemoryOperation(1, None, False, True)),
}
"""Operations that touch memory, each operand of them that does."""

COLLECTIVES = frozenset(("gpu.barrier", "gpu.shuffle", "gpu.subgroup_reduce"))
"""Operations that several threads execute together."""

SUBGROUP_OPERATIONS = COLLECTIVES - {"gpu.barrier"}

VIEWS = frozenset(
    ("memref.subview", "memref.cast", "memref.collapse_shape",
     "memref.expand_shape", "memref.memory_space_cast", "memref.assume_alignment",
     "memref.transpose")
)  # fmt: skip
"""Operations whose result is a part of their first operand."""

WITHOUT_EFFECT = frozenset(
    ("gpu.thread_id", "gpu.block_id", "gpu.block_dim", "gpu.grid_dim", "gpu.global_id",
     "gpu.lane_id", "gpu.subgroup_id", "gpu.subgroup_size", "gpu.num_subgroups", "gpu.return",
     "gpu.yield", "memref.dim", "memref.alloca", "memref.atomic_yield", "scf.for", "scf.if",
     "scf.while", "scf.condition", "scf.yield", "scf.index_switch", "affine.for", "affine.if",
     "affine.yield", "affine.apply", "affine.min", "affine.max", "ub.poison")
)  # fmt: skip
"""Other operations that may be in a kernel, besides all of the dialects below."""

PURE_DIALECTS = ("arith.", "math.", "vector.", "index.", "complex.")


def is_known(name: str) -> bool:
    """Whether all that an operation may do is known from this table."""
    return (
        name in MEMORY_OPERATIONS
        or name in COLLECTIVES
        or name in VIEWS
        or name in WITHOUT_EFFECT
        or name.startswith(PURE_DIALECTS)
    )


def is_memref(value: ir.Value) -> bool:
    """Whether a value is a memref."""
    return isinstance(value.type, ir.MemRefType | ir.UnrankedMemRefType)
