"""Compiles for CPUs: for this machine's processor, or for a processor that the user names."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Self

from rammer_mlir.compiler.backends.backend import Backend, Code
from rammer_mlir.compiler.compile_options import CompileOptions
from rammer_mlir.compiler.loading import load_program
from rammer_mlir.compiler.pipeline import cpu_stages
from rammer_mlir.compiler.stage import Stage
from rammer_mlir.errors import OptionError
from rammer_mlir.lowering.llvm.link import link_shared
from rammer_mlir.lowering.llvm.named_machines import NamedMachine, named_machine
from rammer_mlir.programs.cpu_image import CpuImage
from rammer_mlir.runtime.executable import Executable
from rammer_mlir.support.usable_cores import usable_cores


@dataclass(frozen=True)
class CpuBackend(Backend):
    """A CPU target: this machine's processor, or a named one; each vEU is a thread."""

    named: NamedMachine | None = None

    name: ClassVar[str] = "cpu"
    spelling: ClassVar[str] = "cpu[:CPU]"
    lacks: ClassVar[tuple[str, ...]] = ("Code is for Linux; that for aarch64 was never run.",)
    takes: ClassVar[frozenset[str]] = frozenset(
        {
            "rkernels", "offload", "offload_choice", "offload_seconds", "offload_check", "fallback",
            "module_options", "quantize", "calibration", "quantize_bound", "quantize_method",
            "quantize_dynamic",
        }
    )  # fmt: skip
    repacks_weights: ClassVar[bool] = True
    measures: ClassVar[bool] = True
    has_supersteps: ClassVar[bool] = True

    @classmethod
    def of(cls, rest: str) -> Self:
        """Return the backend for processor ``rest``, or for this machine if ``rest`` is empty."""
        return cls(named_machine(rest)) if rest else cls()

    @property
    def target(self) -> str:
        """The target's name: ``cpu``, or ``cpu:NAME`` if the user names a processor."""
        return self.name if self.named is None else f"{self.name}:{self.named.name}"

    @property
    def runs_here(self) -> bool:
        """Whether this machine supports the instructions that the code uses."""
        return self.named is None or self.named.is_this

    def check(self, options: CompileOptions) -> None:
        """Raise OptionError if costs are to be measured but the target is ``cpu:NAME``.

        Costs can be measured only for the target ``cpu``, which is the machine that compiles.
        """
        if options.measured and self.named is not None:
            raise OptionError(
                f"costs: 'measured' is for the target cpu, this machine, found {self.target}; "
                "leave it out"
            )

    @property
    def default_veus(self) -> int:
        """Count of vEUs if the user gives none: the count of whole cores that this process may use.

        CPU affinity and CPU quota limit this count, which is at least 1.
        """
        return usable_cores()

    def stages(self, options: CompileOptions) -> tuple[Stage, ...]:
        """Return the stages up to an object file."""
        return cpu_stages(options, self.named)

    def load(self, code: Code, device: int = 0) -> Executable:
        """Load the object file of ``code`` into this process, and return the executable.

        If the code is for a processor other than this machine's, it is not loaded. The executable
        can then only be saved, which links the object file to a shared library.
        """
        image = code.image
        assert isinstance(image, CpuImage)
        if self.named is not None and not self.named.is_this:
            needs_lld = self.named.architecture != platform.machine()
            link = partial(link_shared, code.binary, *code.objects, needs_lld=needs_lld)
            return Executable(image, None, link, code.stats, lacking=self.named.lacking)
        return load_program(image, code.binary, code.objects, code.stats)
