"""Defines a GPU program as data: everything that a launch needs, except loaded code."""

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
    """Code of a kernel in a form that a GPU's driver loads.

    Attributes:
        kind: ``cubin`` (NVIDIA) and ``hsaco`` (AMD) are machine code; the driver compiles ``ptx``.
        data: the code.
        resources: registers and memory of the kernel; None if only the driver determines them.
    """

    kind: GpuCodeKind
    data: bytes
    resources: KernelResources | None


@dataclass(frozen=True)
class GpuImage:
    """A program for a GPU.

    Attributes:
        target: the value of ``--target``, such as ``nvvm:sm_90``.
        signature: names, shapes and types of inputs and outputs.
        entry: the kernel's symbol.
        block_threads: number of threads per block.
        arguments: names of the kernel's arguments in order, each a pointer: ``inputN``,
            ``outputN``, ``constant``, ``arena``, ``scratches``, ``counters`` (zeroed once, before
            the first launch), ``table``, and, with a watchdog, ``watch`` (zeroed once).
        argument_bytes: size in bytes of each argument's buffer.
        constants: all weights.
        program: the schedule. If the program has a single launch, the launch runs all rOperators,
            with barriers between blocks. If it has several launches, each launch runs one
            rOperator.
        tables: int64 [launches, words], the schedule as the kernel reads it.
        proof: memory layout and accesses, from which a checker proves the schedule.
        shared_bytes: bytes of static shared memory per block.
        code_kind: kind of the kernel's code: ``cubin``, ``hsaco`` or ``ptx``.
        resources: the kernel's registers and memory, as the assembler reports them; None if only
            the driver determines them.
        summary: the schedule as text for users.
        inouts: names (``inputN``) of the inputs that the kernel updates in place.
        modules: foreign code that rKernels call; it is linked into the kernel.
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
        """The number of vEUs; it equals the number of blocks of a launch."""
        return self.program.num_veus

    @property
    def chip(self) -> str:
        """The chip that the target names, for example ``sm_90`` or ``gfx90a``."""
        return self.target.partition(":")[2]

    @property
    def is_persistent(self) -> bool:
        """Whether a single launch runs the program.

        All blocks of this launch must be resident at the same time.
        """
        return len(self.program.launches) == 1
