"""Defines a CPU program as data: everything that a run needs, except loaded code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from rammer_mlir.programs.constants import Constants
from rammer_mlir.programs.cpu_table import CpuTable
from rammer_mlir.programs.modules import CodeModule, ModuleEntry
from rammer_mlir.programs.proof import Proof
from rammer_mlir.programs.records import Launch, Program
from rammer_mlir.programs.signature import Signature


@dataclass(frozen=True)
class CpuImage:
    """A program for the CPU.

    Attributes:
        signature: names, shapes and types of inputs and outputs.
        program: the schedule as records.
        table: the schedule as arrays of integers that the dispatch code reads.
        proof: memory layout and accesses, from which a checker proves the schedule.
        constants: all weights.
        arena_bytes: size in bytes of the arena.
        features: CPU features that the code uses, as Linux names them.
        machine: the processor family, as ``platform.machine()`` names it.
        summary: the schedule as text for users.
        target: the value of ``--target``; ``cpu`` is the machine that compiled the program.
        modules: foreign code that rKernels call.
        entries: stateful functions of these modules. Native code has a table ``rammer_modules`` of
            the functions' addresses and states; row ``i`` belongs to ``entries[i]``.
    """

    signature: Signature
    program: Program
    table: CpuTable
    proof: Proof
    constants: Constants
    arena_bytes: int
    features: tuple[str, ...]
    machine: str
    summary: str
    target: str = "cpu"
    modules: tuple[CodeModule, ...] = ()
    entries: tuple[ModuleEntry, ...] = ()

    @property
    def num_veus(self) -> int:
        """Number of the program's vEUs, which is the maximum number of threads that run it."""
        return self.program.num_veus

    @property
    def may_lack(self) -> bool:
        """Whether foreign code needs packages or an engine that another machine may lack."""
        return bool(self.entries) or any(module.needs for module in self.modules)

    @cached_property
    def module_names(self) -> Mapping[int, str]:
        """Names of the external modules that implement rKernels, by index of the rKernel."""
        return {number: module.name for module in self.modules for number in module.kernels}

    @property
    def launch(self) -> Launch:
        """Return the single launch of the program."""
        return self.program.launches[0]
