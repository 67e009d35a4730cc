"""The CPU of this machine."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Self

from rammer_mlir.compiler.backends.backend import Backend, Code
from rammer_mlir.compiler.compile_options import CompileOptions
from rammer_mlir.compiler.pipeline import cpu_stages
from rammer_mlir.compiler.stage import Stage
from rammer_mlir.errors import OptionError
from rammer_mlir.lowering.llvm.jit import load_object
from rammer_mlir.lowering.llvm.link import link_shared
from rammer_mlir.programs.cpu_image import CpuImage
from rammer_mlir.runtime.executable import Executable
from rammer_mlir.runtime.pool import native_code


@dataclass(frozen=True)
class CpuBackend(Backend):
    """Threads of this machine's processor, one for each vEU."""

    name: ClassVar[str] = "cpu"
    spelling: ClassVar[str] = "cpu"
    lacks: ClassVar[tuple[str, ...]] = ("Code is for x86-64 and Linux.",)
    takes: ClassVar[frozenset[str]] = frozenset({"rkernels"})
    measures: ClassVar[bool] = True
    has_supersteps: ClassVar[bool] = True

    @classmethod
    def of(cls, rest: str) -> Self:
        """Return the only one."""
        if rest:
            raise OptionError(f"unknown target 'cpu:{rest}': expected cpu, without a processor")
        return cls()

    @property
    def target(self) -> str:
        """The target's name."""
        return self.name

    @property
    def default_veus(self) -> int:
        """The cores that this process may use."""
        return len(os.sched_getaffinity(0))

    def stages(self, options: CompileOptions) -> tuple[Stage, ...]:
        """Return the way to an object."""
        return cpu_stages(options)

    def load(self, code: Code, device: int = 0) -> Executable:
        """Load an object into this process; linking waits until somebody saves it."""
        image = code.image
        assert isinstance(image, CpuImage)
        library = load_object(code.binary)
        native = native_code(library.address, library)
        return Executable(image, native, partial(link_shared, code.binary), code.stats)
