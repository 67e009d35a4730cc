"""Runs a model that is compiled for a GPU on the emulator."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NoReturn

from rammer_mlir.emulation.device.driver import EmulatedDriver
from rammer_mlir.emulation.device.traces import Trace
from rammer_mlir.emulation.records import EmulatedKernel
from rammer_mlir.errors import OptionError
from rammer_mlir.programs.gpu_image import GpuImage
from rammer_mlir.runtime.gpu.executable import GpuExecutable
from rammer_mlir.runtime.signatures import PemKey

NO_CODE = b""
"""Placeholder for a program's GPU code, by which the emulated driver finds the native kernel."""


class EmulatedExecutable(GpuExecutable):
    """A compiled model whose GPU kernel runs on the CPU.

    The executable cannot be saved, because an artifact for a GPU contains code for the GPU.
    """

    def __init__(
        self,
        image: GpuImage,
        kernel: EmulatedKernel,
        subgroup: int,
        stats: Mapping[str, object] | None = None,
    ) -> None:
        """Make an executable from a compiled model and the native code of its kernel.

        Args:
            image: the compiled program without the kernel's code.
            kernel: the native code of the kernel.
            subgroup: the count of lanes of a subgroup (warp).
            stats: compiler statistics by name: seconds by stage, sizes in bytes.
        """
        driver = EmulatedDriver(image.chip, {NO_CODE: kernel}, subgroup=subgroup)
        super().__init__(image, NO_CODE, lambda: driver, stats)
        self._emulated = driver

    @property
    def traces(self) -> list[Trace]:
        """The traces of all launches so far; empty if the kernel was compiled without tracing."""
        return self._emulated.traces

    def __reduce__(self) -> NoReturn:
        """Refuse to pickle the executable, because emulated code cannot run on a GPU.

        Raises:
            OptionError: always.
        """
        raise OptionError(
            "cannot pickle or copy: expected code for a device, found emulated code; compile "
            "without emulation, and save it"
        )

    def artifact(self) -> NoReturn:
        """Refuse to make an artifact, because emulated code cannot run on a GPU.

        Raises:
            OptionError: always.
        """
        raise OptionError(
            "expected code for a device, found emulated code; compile without emulation"
        )

    def save(self, path: str | os.PathLike[str], *, sign: PemKey | None = None) -> NoReturn:
        """Refuse to write a file, because emulated code cannot run on a GPU.

        Raises:
            OptionError: always.
        """
        raise OptionError(
            f"cannot save '{os.fspath(path)}': expected code for a device, found emulated code; "
            "compile without emulation"
        )
