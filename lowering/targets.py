"""Lists the families of GPUs for which programs are lowered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from rammer_mlir.errors import OptionError
from rammer_mlir.lowering.gpu.target import GpuTarget
from rammer_mlir.lowering.nvvm.target import DEFAULT_CHIP as NVIDIA_CHIP
from rammer_mlir.lowering.nvvm.target import nvvm_target
from rammer_mlir.lowering.rocdl.target import DEFAULT_CHIP as AMD_CHIP
from rammer_mlir.lowering.rocdl.target import rocdl_target

TF32 = "tf32"
"""Feature of a target: matrix instructions multiply f32 rounded to tf32 (11 bits of precision)."""


class Describe(Protocol):
    """A function that returns the target of a GPU chip, given the chip's name."""

    def __call__(self, chip: str, *, tf32: bool = False) -> GpuTarget:
        """Return the target of a chip; ``tf32`` permits rounding f32 operands of products to tf32.

        Raises:
            TargetError: if there is no such chip, or if ``tf32`` is true and the chip has no tf32.
        """
        ...


@dataclass(frozen=True)
class GpuFamily:
    """GPUs that share a lowering.

    Attributes:
        default_chip: name of the chip that is used if the user's target names none.
        describe: function that returns the target for a chip's name.
    """

    default_chip: str
    describe: Describe


GPU_FAMILIES = {
    "nvvm": GpuFamily(NVIDIA_CHIP, nvvm_target),
    "rocdl": GpuFamily(AMD_CHIP, rocdl_target),
}


def find_gpu(target: str) -> GpuTarget:
    """Return the GPU that a target names, such as ``nvvm``, ``nvvm:sm_90`` or ``nvvm:sm_90+tf32``.

    Raises:
        OptionError: if the text before the colon is no family of GPUs, or ``target`` is malformed.
        TargetError: if the chip is unknown or too old, or has no tf32 but ``+tf32`` is given.
    """
    kind, colon, rest = target.partition(":")
    chip, plus, feature = rest.partition("+")
    if kind not in GPU_FAMILIES or (colon and not chip) or (plus and feature != TF32):
        known = ", ".join(f"{family}[:CHIP[+{TF32}]]" for family in GPU_FAMILIES)
        raise OptionError(f"unknown target '{target}': expected a GPU, one of {known}")
    family = GPU_FAMILIES[kind]
    return family.describe(chip or family.default_chip, tf32=feature == TF32)
