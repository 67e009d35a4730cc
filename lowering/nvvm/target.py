"""The NVIDIA GPUs that can be compiled for."""

from __future__ import annotations

from dataclasses import dataclass

from rammer_mlir.errors import TargetError
from rammer_mlir.lowering.gpu.target import GpuTarget

DEFAULT_CHIP = "sm_90"


@dataclass(frozen=True)
class NvidiaChip:
    """An NVIDIA processor: multiprocessors of its usual board, and a PTX with all that we use."""

    multiprocessors: int
    ptx: str


CHIPS = {
    "sm_70": NvidiaChip(80, "ptx63"),
    "sm_75": NvidiaChip(40, "ptx63"),
    "sm_80": NvidiaChip(108, "ptx70"),
    "sm_86": NvidiaChip(84, "ptx71"),
    "sm_89": NvidiaChip(142, "ptx78"),
    "sm_90": NvidiaChip(132, "ptx78"),
    "sm_100": NvidiaChip(148, "ptx86"),
    "sm_120": NvidiaChip(170, "ptx87"),
}
"""By LLVM's name. Acquire and release, and threads that progress by themselves, came with sm_70."""

_OLDEST = 70


def nvvm_target(chip: str) -> GpuTarget:
    """Describe an NVIDIA GPU.

    Raises:
        TargetError: if the chip is unknown or too old.
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
    return GpuTarget(
        kind="nvvm",
        chip=chip,
        warp_size=32,
        block_threads=256,
        num_veus=CHIPS[chip].multiprocessors,
        shared_limit=48 << 10,
        scope="device",
        fences=False,
    )
