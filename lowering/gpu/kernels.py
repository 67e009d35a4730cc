"""Maps all rKernels of a module to the threads of a block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rammer_mlir.bindings import ir, passmanager
from rammer_mlir.lowering.gpu.contractions.matrix_unit import MatrixUnit
from rammer_mlir.lowering.gpu.contractions.plan_matching import plan_contractions
from rammer_mlir.lowering.gpu.contractions.staging import AsyncCopies, RegisterCopies
from rammer_mlir.lowering.gpu.result_chains import mark_chains
from rammer_mlir.lowering.gpu.temporaries import (
    ALIGNMENT,
    add_buffers,
    place_temporaries,
)
from rammer_mlir.lowering.gpu.thread_mapping import Staging, map_to_threads
from rammer_mlir.lowering.kernels.buffers import (
    expand_copies,
    store_boolean_constants_as_bytes,
    store_booleans_as_bytes,
)
from rammer_mlir.passes.ir.structured import as_buffer

BLOCK_THREADS = "rtask.block_threads"
"""Attribute of an rKernel written for a block's threads: the number of threads."""

MOST_THREADS = 1024
"""Largest number of threads of a block, on every GPU."""

SUBGROUP = "rtask.subgroup"
"""Attribute of an rKernel that uses shuffles: the number of lanes of its warps or waves."""


@dataclass(frozen=True)
class BufferType:
    """A memref type of an rKernel's argument: static, with any strides.

    ``text`` and ``element`` are the memref type and its element type in MLIR syntax; ``strides``
    and ``offset`` are in elements.
    """

    text: str
    element: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int

    @property
    def elements(self) -> int:
        """The number of elements of the underlying buffer up to the memref's last element."""
        pairs = zip(self.shape, self.strides, strict=True)
        return 1 + self.offset + sum((size - 1) * stride for size, stride in pairs)


@dataclass(frozen=True)
class MappedKernels:
    """The arguments of rKernels besides the rTask's id: buffers, shared memory and scratch.

    Scratch memory is a vEU's part of device memory, for temporaries too large for shared memory.

    Attributes:
        signatures: types of each rKernel's buffers, by symbol.
        with_temporaries: symbols of rKernels that use shared memory or scratch.
        shared_bytes: size of the block's shared memory, the maximum over rKernels.
        scratch_bytes: size of a vEU's scratch memory, the maximum over rKernels.
    """

    signatures: Mapping[str, Sequence[BufferType]]
    with_temporaries: frozenset[str]
    shared_bytes: int
    scratch_bytes: int


def map_kernels(
    module: ir.Module,
    kernels: Sequence[ir.Operation],
    shared_limit: int,
    block_threads: int,
    *,
    async_copies: bool = False,
    matrix_unit: MatrixUnit | None = None,
) -> MappedKernels:
    """Map the rKernels of a module to the threads of a block, in place; return their arguments.

    An rKernel with the attribute ``rtask.block_threads`` is already code of a single thread: only
    its temporaries are placed in shared memory or scratch memory.

    Args:
        module: the module that contains the rKernels.
        kernels: functions ``(rTask id, memrefs...)`` on linalg operations.
        shared_limit: most bytes of shared memory for temporaries and staged operands; temporaries
            that do not fit go to scratch memory.
        block_threads: count of threads of a block, a multiple of 64.
        async_copies: whether the target copies to shared memory asynchronously.
        matrix_unit: the target's matrix instruction, restricted to permitted element types.

    Raises:
        UnsupportedError: if a temporary has no static bound.
    """
    run_passes(module, "linalg-generalize-named-ops")
    distributed = [kernel for kernel in kernels if BLOCK_THREADS not in kernel.attributes]
    for kernel in distributed:
        expand_copies(kernel)
        store_booleans_as_bytes(kernel)
    store_boolean_constants_as_bytes(module, distributed)
    signatures = {symbol(kernel): _buffer_types(kernel) for kernel in kernels}
    for kernel in distributed:
        mark_chains(kernel)
    memories = [place_temporaries(kernel, shared_limit) for kernel in kernels]
    copies = AsyncCopies() if async_copies else RegisterCopies()

    def staging_of(kernel: ir.Operation, temporaries: int) -> Staging:
        left = shared_limit - temporaries
        plans = plan_contractions(kernel, block_threads, left, matrix_unit=matrix_unit)
        return Staging(plans, temporaries, copies)

    stagings = [
        staging_of(kernel, memory.shared_bytes)
        for kernel, memory in zip(kernels, memories, strict=True)
    ]
    shared = max([ALIGNMENT, *(staging.end for staging in stagings)])
    scratch = max([ALIGNMENT, *(memory.scratch_bytes for memory in memories)])
    for kernel, memory in zip(kernels, memories, strict=True):
        add_buffers(kernel, memory, shared, scratch)
    run_passes(module, "affine-expand-index-ops,expand-strided-metadata,lower-affine,cse")
    for kernel, staging in zip(kernels, stagings, strict=True):
        *_, shared_buffer, _ = kernel.regions[0].blocks[0].arguments
        if BLOCK_THREADS not in kernel.attributes:
            map_to_threads(kernel, as_buffer(shared_buffer), block_threads, staging)
        if "arg_attrs" in kernel.attributes:
            del kernel.attributes["arg_attrs"]
    busy = frozenset(
        symbol(kernel)
        for kernel, memory, staging in zip(kernels, memories, stagings, strict=True)
        if memory.placements or staging.plans
    )
    return MappedKernels(signatures, busy, shared, scratch)


def symbol(operation: ir.Operation | ir.OpView) -> str:
    """Return the name of a symbol operation."""
    return ir.StringAttr(operation.attributes["sym_name"]).value


def run_passes(module: ir.Module, pipeline: str) -> None:
    """Run the textual pipeline ``pipeline`` of upstream passes on a module."""
    passes = passmanager.PassManager.parse(f"builtin.module({pipeline})")
    passes.run(module.operation)


def _buffer_types(kernel: ir.Operation) -> list[BufferType]:
    arguments = ir.FunctionType(ir.TypeAttr(kernel.attributes["function_type"]).value).inputs
    kinds = [ir.MemRefType(kind) for kind in arguments[1:]]
    return [
        BufferType(
            text=str(kind),
            element=str(kind.element_type),
            shape=tuple(kind.shape),
            strides=tuple(kind.get_strides_and_offset()[0]),
            offset=kind.get_strides_and_offset()[1],
        )
        for kind in kinds
    ]
