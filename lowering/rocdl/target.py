"""The AMD GPUs that can be compiled for."""

from __future__ import annotations

from dataclasses import dataclass

from rammer_mlir.errors import TargetError
from rammer_mlir.lowering.gpu.target import GpuTarget

DEFAULT_CHIP = "gfx90a"


@dataclass(frozen=True)
class AmdChip:
    """An AMD processor: compute units of its usual board, and lanes of a wave."""

    compute_units: int
    wave_size: int


CHIPS = {
    "gfx906": AmdChip(60, 64),
    "gfx908": AmdChip(120, 64),
    "gfx90a": AmdChip(104, 64),
    "gfx942": AmdChip(304, 64),
    "gfx1030": AmdChip(80, 32),
    "gfx1100": AmdChip(96, 32),
}
"""By LLVM's name."""


def rocdl_target(chip: str) -> GpuTarget:
    """Describe an AMD GPU.

    Raises:
        TargetError: if the chip is unknown.
    """
    if chip not in CHIPS:
        raise TargetError(
            f"target 'rocdl:{chip}': expected one of {', '.join(CHIPS)}; choose one of these"
        )
    return GpuTarget(
        kind="rocdl",
        chip=chip,
        warp_size=CHIPS[chip].wave_size,
        block_threads=256,
        num_veus=CHIPS[chip].compute_units,
        shared_limit=64 << 10,
        scope="agent",
        # A wave's release waits for its own stores only, and its acquire refreshes the cache of
        # its own compute unit: a block in the mode of two units has two.
        fences=True,
    )
