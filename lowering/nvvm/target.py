"""Describes the supported NVIDIA GPUs by chip name (``sm_..``), with their resources."""

from __future__ import annotations

from dataclasses import dataclass

from rammer_mlir.errors import TargetError
from rammer_mlir.lowering.gpu.contractions.matrix_unit import MMA, NARROW
from rammer_mlir.lowering.gpu.target import GpuTarget
from rammer_mlir.programs.residency import Multiprocessors

DEFAULT_CHIP = "sm_90"


@dataclass(frozen=True)
class NvidiaChip:
    """An NVIDIA GPU chip.

    Attributes:
        multiprocessors: number of multiprocessors of the most common board with this chip.
        ptx: LLVM's name of a PTX version with all required instructions.
        threads: largest number of resident threads per multiprocessor.
        shared_kib: KiB of shared memory per multiprocessor that its blocks can use (CUDA
            programming guide, technical specifications per compute capability).
    """

    multiprocessors: int
    ptx: str
    threads: int
    shared_kib: int

    @property
    def resources(self) -> Multiprocessors:
        """The resources of the most common board with this chip.

        Every chip has 65,536 registers per multiprocessor.
        """
        return Multiprocessors(self.multiprocessors, self.threads, 64 << 10, self.shared_kib << 10)


CHIPS = {
    "sm_70": NvidiaChip(80, "ptx63", 2048, 96),
    "sm_75": NvidiaChip(40, "ptx63", 1024, 64),
    "sm_80": NvidiaChip(108, "ptx70", 2048, 164),
    "sm_86": NvidiaChip(84, "ptx71", 1536, 100),
    "sm_89": NvidiaChip(142, "ptx78", 1536, 100),
    "sm_90": NvidiaChip(132, "ptx78", 2048, 228),
    "sm_100": NvidiaChip(148, "ptx86", 2048, 228),
    "sm_120": NvidiaChip(170, "ptx87", 1536, 100),
}
"""Properties of chips, by LLVM's name.

The oldest chip, sm_70, introduced acquire and release, and independent thread scheduling.
"""

_OLDEST, _AMPERE = 70, 80


def nvvm_target(chip: str, *, tf32: bool = False) -> GpuTarget:
    """Return the description of an NVIDIA GPU as a target.

    Args:
        chip: LLVM's name of the chip, such as ``sm_90``.
        tf32: whether the operands of f32 matrix products may be rounded to tf32.

    Raises:
        TargetError: if the chip is unknown or too old, or if ``tf32`` is true and the chip has no
            tf32 instructions.
    """
    if chip not in CHIPS:
        number = chip.removeprefix("sm_")
        if chip.startswith("sm_") and number.isdigit() and int(number) < _OLDEST:
            raise TargetError(
                f"target 'nvvm:{chip}': expected sm_{_OLDEST} or newer, because barriers between "
                "vEUs need its memory order; compile for a newer chip"
            )
        raise TargetError(
            f"target 'nvvm:{chip}': expected one of {', '.join(CHIPS)}; choose one of these"
        )
    number = int(chip.removeprefix("sm_"))
    if tf32 and number < _AMPERE:
        raise TargetError(
            f"target 'nvvm:{chip}+tf32': expected sm_{_AMPERE} or newer, the first with tf32; "
            "compile for a newer chip, or without tf32"
        )
    elements = (*NARROW, "f32") if tf32 else NARROW
    return GpuTarget(
        kind="nvvm",
        chip=chip,
        warp_size=32,
        block_threads=256,
        num_veus=CHIPS[chip].multiprocessors,
        shared_limit=48 << 10,
        scope="device",
        fences=False,
        async_copies=number >= _AMPERE,
        matrix_unit=MMA.only(elements) if number >= _AMPERE else None,
    )
