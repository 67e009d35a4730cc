"""A compiled program for a CPU as data: everything for a run except addresses of code."""

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
        signature: inputs and outputs by name.
        program: the schedule.
        table: the schedule as words that the dispatch code executes.
        proof: memory layout and accesses, from which a checker proves the schedule.
        constants: all weights, each aligned to 64 bytes.
        arena_bytes: size of the arena that holds the intermediates.
        features: CPU features that the code uses, as Linux names them.
        machine: the processor family, as ``platform.machine()`` names it.
        summary: the schedule as text for users.
        target: the processor's name on the command line; ``cpu`` is the machine that compiled it.
        modules: external code that rKernels call.
        entries: stateful functions of these modules, in the order of their table.
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
        """Threads that run the program, including the caller's."""
        return self.program.num_veus

    @property
    def may_lack(self) -> bool:
        """Whether external code has requirements that another machine may not meet."""
        return bool(self.entries) or any(module.needs for module in self.modules)

    @cached_property
    def module_names(self) -> Mapping[int, str]:
        """The external module of an rKernel, by the rKernel's number."""
        return {number: module.name for module in self.modules for number in module.kernels}

    @property
    def launch(self) -> Launch:
        """Return the single launch of the program."""
        return self.program.launches[0]
