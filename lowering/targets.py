"""The targets that programs are compiled for: one row each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from rammer_mlir.errors import OptionError
from rammer_mlir.lowering.gpu.target import GpuTarget
from rammer_mlir.lowering.nvvm import backend as nvvm
from rammer_mlir.lowering.nvvm.target import DEFAULT_CHIP as NVIDIA_CHIP
from rammer_mlir.lowering.nvvm.target import nvvm_target
from rammer_mlir.lowering.rocdl import backend as rocdl
from rammer_mlir.lowering.rocdl.target import DEFAULT_CHIP as AMD_CHIP
from rammer_mlir.lowering.rocdl.target import rocdl_target
from rammer_mlir.programs.gpu_image import GpuCode

CPU = "cpu"


TF32 = "tf32"
"""Feature of a target: matrix instructions multiply f32, rounded to 11 bits of precision."""


class Describe(Protocol):
    """Describes a target."""

    def __call__(self, chip: str, *, tf32: bool = False) -> GpuTarget:
        """Return it; raise TargetError if there is no such chip, or it has no tf32."""
        ...


@dataclass(frozen=True)
class GpuBackend:
    """How programs reach one family of GPUs.

    Attributes:
        default_chip: the chip where the target names none.
        describe: gives the target for a chip's name, and whether products of f32 may be rounded
            to tf32.
        emit: takes a gpu module, the target, the number of vEUs and a stage; returns the stage.
        code: takes a gpu module, the target and the blocks that have to be resident at once;
            returns what an artifact holds.
        binary_stages: stages beyond ``llvm`` that it emits.
    """

    default_chip: str
    describe: Describe
    emit: Callable[[Any, GpuTarget, int, str], bytes]
    code: Callable[[Any, GpuTarget, int], GpuCode]
    binary_stages: tuple[str, ...]


GPU_BACKENDS = {
    "nvvm": GpuBackend(
        NVIDIA_CHIP, nvvm_target, nvvm.emit_nvvm, nvvm.nvvm_code, nvvm.BINARY_STAGES
    ),
    "rocdl": GpuBackend(
        AMD_CHIP, rocdl_target, rocdl.emit_rocdl, rocdl.rocdl_code, rocdl.BINARY_STAGES
    ),
}

TARGETS = (CPU, *(f"{kind}[:CHIP[+{TF32}]]" for kind in GPU_BACKENDS))
"""Targets as the command line spells them."""


def find_gpu(target: str) -> GpuTarget | None:
    """Return the GPU that a target names, None for the CPU.

    Raises:
        OptionError: if there is no such target.
        TargetError: if the chip is unknown or too old.
    """
    if target == CPU:
        return None
    kind, colon, rest = target.partition(":")
    chip, plus, feature = rest.partition("+")
    if kind not in GPU_BACKENDS or (colon and not chip) or (plus and feature != TF32):
        raise OptionError(f"unknown target '{target}': expected one of {', '.join(TARGETS)}")
    backend = GPU_BACKENDS[kind]
    return backend.describe(chip or backend.default_chip, tf32=feature == TF32)


def binary_stages(target: str) -> tuple[str, ...]:
    """Return the binary stages that a target has."""
    kind = target.partition(":")[0]
    return ("object",) if target == CPU else GPU_BACKENDS[kind].binary_stages
