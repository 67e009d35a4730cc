"""Compiles GPU programs that are emulated on this machine's processor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

from rammer_mlir.compiler.backends.backend import Backend, Code
from rammer_mlir.compiler.backends.gpu import GpuBackend
from rammer_mlir.compiler.backends.registry import find_backend
from rammer_mlir.compiler.compile_options import CompileOptions
from rammer_mlir.compiler.pipeline import emulated_stages
from rammer_mlir.compiler.stage import Stage
from rammer_mlir.emulation.codegen.kernel import load_kernel
from rammer_mlir.emulation.device.executable import EmulatedExecutable
from rammer_mlir.errors import OptionError
from rammer_mlir.programs.gpu_image import GpuImage


@dataclass(frozen=True)
class EmulatorBackend(Backend):
    """A target that emulates a GPU: the GPU's kernel is compiled to native code of this machine.

    The stages up to the gpu dialect are the same as for the GPU itself.

    Attributes:
        emulated: the GPU's backend.
        checked: whether the emulator checks memory accesses, which makes a run many times slower.
        traced: whether launches record memory accesses.
    """

    emulated: GpuBackend
    checked: bool = False
    traced: bool = False

    name: ClassVar[str] = "emulator"
    spelling: ClassVar[str] = "emulator[:GPU]"
    is_cached: ClassVar[bool] = False
    takes: ClassVar[frozenset[str]] = GpuBackend.takes
    lacks: ClassVar[tuple[str, ...]] = (
        "Its times say nothing about a GPU, and what it compiles is not saved.",
    )

    @classmethod
    def of(cls, rest: str) -> Self:
        """Return the emulator of the GPU target ``rest``, or of ``nvvm`` if ``rest`` is empty."""
        return cls.of_backend(find_backend(rest or "nvvm"))

    @classmethod
    def of_backend(cls, backend: Backend, *, checked: bool = False, traced: bool = False) -> Self:
        """Return the emulator of the GPU that ``backend`` compiles for.

        ``checked`` and ``traced`` become the emulator's fields of the same names.

        Raises:
            OptionError: if ``backend`` is not for a GPU.
        """
        if isinstance(backend, EmulatorBackend):
            return cls(backend.emulated, checked, traced)
        if not isinstance(backend, GpuBackend):
            raise OptionError(
                f"target '{backend.target}': expected a GPU to emulate, found none; "
                "choose nvvm or rocdl, or do not emulate"
            )
        return cls(backend, checked, traced)

    @property
    def target(self) -> str:
        """The target of the emulated GPU, such as ``nvvm:sm_80``; compiled programs name it too."""
        return self.emulated.target

    @property
    def default_veus(self) -> int:
        """Number of vEUs of the emulated GPU."""
        return self.emulated.default_veus

    def check(self, options: CompileOptions) -> None:
        """Raise OptionError for options that the emulated GPU refuses."""
        self.emulated.check(options)

    def stages(self, options: CompileOptions) -> tuple[Stage, ...]:
        """Return the stages up to an object file for this machine."""
        gpu = self.emulated.gpu
        return emulated_stages(options, gpu, checked=self.checked, traced=self.traced)

    def load(self, code: Code, device: int = 0) -> EmulatedExecutable:
        """Load the object file of ``code`` into this process, and return the executable."""
        image, kernel = code.image, code.kernel
        assert isinstance(image, GpuImage) and kernel is not None
        loaded = load_kernel(kernel, code.binary)
        return EmulatedExecutable(image, loaded, self.emulated.gpu.warp_size, code.stats)
