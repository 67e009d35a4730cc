"""Describes the properties of a GPU that the lowering depends on."""

from __future__ import annotations

from dataclasses import dataclass

from rammer_mlir.lowering.gpu.contractions.matrix_unit import MatrixUnit


@dataclass(frozen=True)
class GpuTarget:
    """A GPU as a code generation target.

    Attributes:
        kind: the lowering that continues from the gpu dialect, ``nvvm`` or ``rocdl``.
        chip: LLVM's name of the processor, such as ``sm_90`` or ``gfx90a``.
        warp_size: number of lanes that execute together (a warp, or a wave).
        block_threads: number of threads of a vEU's block.
        num_veus: default number of vEUs, one per multiprocessor of the chip's most common board.
        shared_limit: most bytes of shared memory that a kernel declares statically.
        scope: LLVM's synchronization scope of all threads of the device.
        fences: whether each thread of a block executes a fence at device scope in addition to the
            block barrier, because one thread's release does not cover other threads' accesses.
        async_copies: whether threads copy to shared memory asynchronously.
        matrix_unit: the instruction by which warps multiply matrices; None if there is none. It
            supports f32 only if rounding to tf32 was requested.
    """

    kind: str
    chip: str
    warp_size: int
    block_threads: int
    num_veus: int
    shared_limit: int
    scope: str
    fences: bool
    async_copies: bool = False
    matrix_unit: MatrixUnit | None = None

    @property
    def name(self) -> str:
        """The target as users write it in the option ``--target``, such as ``nvvm:sm_90``.

        A feature that a user may append, such as ``+tf32``, is left out.
        """
        return f"{self.kind}:{self.chip}"
