"""Defines the base class of the backends of all GPUs."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Self

from rammer_mlir.compiler.backends.backend import Backend, Code
from rammer_mlir.compiler.compile_options import CompileOptions
from rammer_mlir.errors import OptionError
from rammer_mlir.lowering.gpu.target import GpuTarget
from rammer_mlir.lowering.targets import find_gpu
from rammer_mlir.programs.gpu_image import GpuImage
from rammer_mlir.programs.residency import Multiprocessors
from rammer_mlir.runtime.gpu.driver_loading import check_device, open_driver
from rammer_mlir.runtime.gpu.executable import GpuExecutable


@dataclass(frozen=True)
class GpuBackend(Backend):
    """A GPU whose resident blocks are vEUs.

    Attributes:
        gpu: the GPU's properties that affect code generation.
    """

    gpu: GpuTarget

    takes: ClassVar[frozenset[str]] = frozenset(
        {
            "watchdog", "per_operator", "rkernels", "offload", "offload_choice", "offload_seconds"
        }
    )  # fmt: skip
    lacks: ClassVar[tuple[str, ...]] = ("No run on a real GPU is recorded yet.",)

    @classmethod
    def of(cls, rest: str) -> Self:
        """Return the backend of the chip ``rest``, or of the default chip if ``rest`` is empty."""
        return cls(find_gpu(f"{cls.name}:{rest}" if rest else cls.name))

    @property
    def target(self) -> str:
        """The target with its chip, but without optional features such as ``+tf32``."""
        return self.gpu.name

    @property
    def default_veus(self) -> int:
        """Count of multiprocessors of the most common board with this chip.

        By default each multiprocessor has a vEU.
        """
        return self.gpu.num_veus

    @property
    @abstractmethod
    def multiprocessors(self) -> Multiprocessors:
        """Count of multiprocessors of the most common board with this chip, and their resources.

        The resources of a multiprocessor are threads, registers and shared memory.
        """

    def check(self, options: CompileOptions) -> None:
        """Raise OptionError for a negative ``watchdog``, or a watchdog with ``per_operator``."""
        watchdog = options.given["watchdog"]
        if watchdog < 0:
            raise OptionError(f"watchdog: expected a number of polls, at least 0, found {watchdog}")
        if watchdog and options.given["per_operator"]:
            raise OptionError(
                "watchdog: expected one launch of the whole program, found one per operator, where "
                "nothing waits; leave one of the options out"
            )

    def load(self, code: Code, device: int = 0) -> GpuExecutable:
        """Return the executable for the GPU of index ``device``; its first run opens the driver."""
        image = code.image
        assert isinstance(image, GpuImage)
        driver = partial(open_driver, image.target, check_device(device))
        return GpuExecutable(image, code.binary, driver, code.stats)
