"""A small model compiled for an emulated GPU, and its reference results by ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import rammer_mlir
from rammer_mlir.benchmarks.comparison import compare
from rammer_mlir.benchmarks.contenders.onnx_runtime import OnnxRuntime
from rammer_mlir.benchmarks.models import build, random_feeds
from rammer_mlir.emulation.device.driver import EmulatedDriver
from rammer_mlir.emulation.device.executable import NO_CODE, EmulatedExecutable
from rammer_mlir.programs.gpu_image import GpuImage
from rammer_mlir.runtime.gpu.executable import GpuExecutable

MODEL = build("attention", scale="small")
REFERENCE = OnnxRuntime(MODEL)


def compiled(**options: Any) -> EmulatedExecutable:
    """Compile the model for an emulated GPU; ``options`` are those of ``rammer_mlir.compile``."""
    made = rammer_mlir.compile(
        MODEL, target="nvvm:sm_90", num_veus=options.pop("num_veus", 3), emulate=True, **options
    )
    assert isinstance(made, EmulatedExecutable)
    return made


def with_driver(
    executable: EmulatedExecutable,
    change: Callable[[GpuImage], GpuImage] = lambda image: image,
    chip: str = "sm_90",
    **options: Any,
) -> tuple[GpuExecutable, EmulatedDriver]:
    """Return the program of ``executable`` on a new emulated device, and the driver of that device.

    ``change`` edits the program's image; ``chip`` is the chip of the device, and ``options`` are
    further arguments of the driver.
    """
    own = executable.program.driver
    assert isinstance(own, EmulatedDriver)
    driver = EmulatedDriver(chip, own.kernels, **options)
    return GpuExecutable(change(executable.image), NO_CODE, lambda: driver), driver


def feeds_of(seed: int) -> dict[str, Any]:
    """Return random inputs of the model by name."""
    return dict(random_feeds(MODEL, seed))


def agrees(outputs: Any, seed: int) -> bool:
    """Return whether ``outputs`` are close to ONNX Runtime's for the inputs ``feeds_of(seed)``."""
    values = {name: np.asarray(array) for name, array in outputs.items()}
    return compare(REFERENCE.run(feeds_of(seed)), values).ok
