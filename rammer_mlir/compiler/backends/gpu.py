"""What the back ends of all GPUs share."""

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
        gpu: what the lowering knows of it.
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
        """Return the back end of a chip, by default a usual one."""
        return cls(find_gpu(f"{cls.name}:{rest}" if rest else cls.name))

    @property
    def target(self) -> str:
        """The target with its chip, without features."""
        return self.gpu.name

    @property
    def default_veus(self) -> int:
        """One for each multiprocessor of the usual board."""
        return self.gpu.num_veus

    @property
    @abstractmethod
    def multiprocessors(self) -> Multiprocessors:
        """What the usual board has."""

    def check(self, options: CompileOptions) -> None:
        """Refuse a watchdog where it would never be asked."""
        watchdog = options.given["watchdog"]
        if watchdog < 0:
            raise OptionError(f"watchdog: expected a number of polls, at least 0, found {watchdog}")
        if watchdog and options.given["per_operator"]:
            raise OptionError(
                "watchdog: expected one launch of the whole program, found one per operator, where "
                "nothing waits; leave one of the options out"
            )

    def load(self, code: Code, device: int = 0) -> GpuExecutable:
        """Return the executable; the driver is opened with its first run."""
        image = code.image
        assert isinstance(image, GpuImage)
        driver = partial(open_driver, image.target, check_device(device))
        return GpuExecutable(image, code.binary, driver, code.stats)
