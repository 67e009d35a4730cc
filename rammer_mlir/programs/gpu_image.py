"""A program compiled for a GPU as data: everything that launching needs, besides the code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.programs.constants import Constants
from rammer_mlir.programs.modules import CodeModule
from rammer_mlir.programs.proof import Proof
from rammer_mlir.programs.records import Program
from rammer_mlir.programs.residency import KernelResources
from rammer_mlir.programs.signature import Signature

GpuCodeKind = Literal["cubin", "ptx", "hsaco"]


@dataclass(frozen=True)
class GpuCode:
    """A kernel for a GPU's driver.

    Attributes:
        kind: ``cubin`` and ``hsaco`` are loaded as they are, ``ptx`` the driver compiles.
        data: the code.
        resources: what the kernel takes, None where only the driver will know.
    """

    kind: GpuCodeKind
    data: bytes
    resources: KernelResources | None


@dataclass(frozen=True)
class GpuImage:
    """A program for a GPU.

    Attributes:
        target: as the command line spells it, ``nvvm:sm_90``.
        signature: inputs and outputs by name.
        entry: the kernel's symbol.
        block_threads: threads of a block.
        arguments: the kernel's arguments in order, each a pointer: ``inputN``, ``outputN``,
            ``constant``, ``arena``, ``scratches``, ``counters`` (zeroed once, before the first
            launch), ``table``, and with a watchdog ``watch`` (zeroed once).
        argument_bytes: size of each.
        constants: all weights.
        program: the schedule. One launch runs a whole program, whose blocks wait for each other;
            several run an operator each.
        tables: int64 [launches, words], the same, as the kernel reads it.
        proof: memory and accesses, to check the schedule.
        shared_bytes: static shared memory of a block.
        code_kind: kind of the code.
        resources: as the assembler reports them, None where only the driver will know.
        summary: the schedule in words.
        inouts: those of the inputs, ``inputN``, that the kernel changes in place.
        modules: code from elsewhere that rKernels call; it is part of the kernel.
    """

    target: str
    signature: Signature
    entry: str
    block_threads: int
    arguments: tuple[str, ...]
    argument_bytes: tuple[int, ...]
    constants: Constants
    program: Program
    tables: NDArray[np.int64]
    proof: Proof
    shared_bytes: int
    code_kind: GpuCodeKind
    resources: KernelResources | None
    summary: str
    inouts: tuple[str, ...] = ()
    modules: tuple[CodeModule, ...] = ()

    @property
    def num_veus(self) -> int:
        """Return the blocks of a launch."""
        return self.program.num_veus

    @property
    def chip(self) -> str:
        """Return the processor, ``sm_90`` or ``gfx90a``."""
        return self.target.partition(":")[2]

    @property
    def is_persistent(self) -> bool:
        """Whether one launch runs everything, so that all blocks have to be resident at once."""
        return len(self.program.launches) == 1
