"""Describes the supported AMD GPUs by chip name (``gfx..``), with their resources."""

from __future__ import annotations

from dataclasses import dataclass

from rammer_mlir.errors import TargetError
from rammer_mlir.lowering.gpu.contractions.matrix_unit import MFMA
from rammer_mlir.lowering.gpu.target import GpuTarget
from rammer_mlir.programs.residency import Multiprocessors

DEFAULT_CHIP = "gfx90a"


@dataclass(frozen=True)
class AmdChip:
    """An AMD GPU chip.

    Attributes:
        compute_units: number of compute units of the most common board with this chip.
        wave_size: number of lanes of a wave.
        waves: largest number of resident waves of a compute unit.
        registers: number of vector registers of a compute unit, each of ``wave_size`` lanes of 32
            bits (LLVM's AMDGPU user guide; AMD's instruction set documents).
        multiplies_matrices: whether the chip has MFMA instructions (matrix fused multiply-add).
    """

    compute_units: int
    wave_size: int
    waves: int
    registers: int
    multiplies_matrices: bool = False

    @property
    def resources(self) -> Multiprocessors:
        """The resources of the most common board with this chip.

        Every chip has 64 KiB of shared memory per compute unit.
        """
        return Multiprocessors(
            count=self.compute_units,
            threads=self.waves * self.wave_size,
            registers=self.registers * self.wave_size,
            shared_bytes=64 << 10,
            warp=self.wave_size,
            register_unit=8 * self.wave_size,
        )


CHIPS = {
    "gfx906": AmdChip(60, 64, 40, 4 * 256),
    "gfx908": AmdChip(120, 64, 40, 4 * 256),
    "gfx90a": AmdChip(104, 64, 32, 4 * 512, multiplies_matrices=True),
    "gfx942": AmdChip(304, 64, 32, 4 * 512, multiplies_matrices=True),
    "gfx1030": AmdChip(80, 32, 32, 2 * 1024),
    "gfx1100": AmdChip(96, 32, 32, 2 * 1536),
}
"""Properties of chips, by LLVM's name."""


def rocdl_target(chip: str, *, tf32: bool = False) -> GpuTarget:
    """Return the description of an AMD GPU as a target.

    Args:
        chip: LLVM's name of the processor, such as ``gfx90a``.
        tf32: must be False, because AMD GPUs have no tf32.

    Raises:
        TargetError: if the chip is unknown, or tf32 is requested.
    """
    if chip not in CHIPS:
        raise TargetError(
            f"target 'rocdl:{chip}': expected one of {', '.join(CHIPS)}; choose one of these"
        )
    if tf32:
        raise TargetError(
            f"target 'rocdl:{chip}+tf32': expected an nvvm target, which alone has tf32; "
            "compile without it"
        )
    return GpuTarget(
        kind="rocdl",
        chip=chip,
        warp_size=CHIPS[chip].wave_size,
        block_threads=256,
        num_veus=CHIPS[chip].compute_units,
        shared_limit=64 << 10,
        scope="agent",
        # The release waits for the stores of its own wave only, and the acquire refreshes the cache
        # of its own compute unit only: a block in work-group processor mode uses two compute units.
        fences=True,
        matrix_unit=MFMA if CHIPS[chip].multiplies_matrices else None,
    )
