"""A compiled program for a CPU: everything that running it needs, besides the code's addresses."""

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
        table: the same, as the dispatch code executes it.
        proof: memory and accesses, to check the schedule.
        constants: all weights, each aligned.
        arena_bytes: size of the memory that intermediates share.
        features: CPU features that the code uses, as Linux names them.
        machine: the processor family, as ``platform.machine()`` says.
        summary: the schedule in words.
        target: what users call the processor: ``cpu`` for the machine that compiled it.
        modules: code from elsewhere that rKernels call.
        entries: functions with a state among it, in the order of their table.
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
        """Threads that run it, the caller's included."""
        return self.program.num_veus

    @property
    def may_lack(self) -> bool:
        """Whether a machine may lack what its code from elsewhere needs to be opened there."""
        return bool(self.entries) or any(module.needs for module in self.modules)

    @cached_property
    def module_names(self) -> Mapping[int, str]:
        """The module of each rKernel that is code from elsewhere, by the rKernel's number."""
        return {number: module.name for module in self.modules for number in module.kernels}

    @property
    def launch(self) -> Launch:
        """Return what one call of the code runs."""
        return self.program.launches[0]
