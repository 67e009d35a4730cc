"""Lists the effects of a kernel's operations on memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rammer_mlir.bindings import ir


@dataclass(frozen=True)
class MemoryOperation:
    """The effect of an operation on a memref operand.

    Attributes:
        buffer: position of the memref among the operation's operands.
        indices: position of the first index operand; None if the whole memref is accessed.
        reads, writes: whether the operation reads, and whether it writes the memref.
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
"""Operations that access memory, by name, with their effect on each memref operand."""

COLLECTIVES = frozenset(("gpu.barrier", "gpu.shuffle", "gpu.subgroup_reduce"))
"""Operations that the threads of a block or a subgroup execute together."""

EXCHANGES = COLLECTIVES - {"gpu.barrier"}
"""Operations by which the lanes of a subgroup exchange values."""

SUBGROUP_OPERATIONS = EXCHANGES | {
    "gpu.lane_id", "gpu.subgroup_id", "gpu.subgroup_size", "gpu.num_subgroups"
}  # fmt: skip
"""Operations whose results depend on the count of lanes of a subgroup."""

VIEWS = frozenset(
    ("memref.subview", "memref.cast", "memref.collapse_shape",
     "memref.expand_shape", "memref.memory_space_cast", "memref.assume_alignment",
     "memref.transpose")
)  # fmt: skip
"""Operations whose result is a view of their first operand."""

WITHOUT_EFFECT = frozenset(
    ("gpu.thread_id", "gpu.block_id", "gpu.block_dim", "gpu.grid_dim", "gpu.global_id",
     "gpu.lane_id", "gpu.subgroup_id", "gpu.subgroup_size", "gpu.num_subgroups", "gpu.return",
     "gpu.yield", "memref.dim", "memref.alloca", "memref.atomic_yield", "scf.for", "scf.if",
     "scf.while", "scf.condition", "scf.yield", "scf.index_switch", "affine.for", "affine.if",
     "affine.yield", "affine.apply", "affine.min", "affine.max", "ub.poison")
)  # fmt: skip
"""Permitted operations without effects on memory, besides those of ``PURE_DIALECTS``."""

PURE_DIALECTS = ("arith.", "math.", "vector.", "index.", "complex.")


def is_known(name: str) -> bool:
    """Return whether this module's tables give all memory effects of the operation ``name``."""
    return (
        name in MEMORY_OPERATIONS
        or name in COLLECTIVES
        or name in VIEWS
        or name in WITHOUT_EFFECT
        or name.startswith(PURE_DIALECTS)
    )


def is_memref(value: ir.Value) -> bool:
    """Return whether a value is a memref."""
    return isinstance(value.type, ir.MemRefType | ir.UnrankedMemRefType)
