"""Checks that a compiled GPU program can run on a device's chip."""

from __future__ import annotations

from rammer_mlir.errors import TargetError
from rammer_mlir.programs.gpu_image import GpuImage


def check_chip(image: GpuImage, chip: str, device: str) -> None:
    """Check that a device's chip can run a program.

    - A cubin runs on the compute capability that it is compiled for, and on later minor versions of
      the same major version.
    - PTX runs on the compute capability that it is compiled for and on all later capabilities (CUDA
      programming guide, application compatibility).
    - An hsaco runs only on the chip that it is compiled for.

    ``device`` is the device's name in the error message.

    Raises:
        TargetError: if the chip cannot run the program; names the program's chip and the device's
            chip.
    """
    if not _runs(image, chip):
        raise TargetError(
            f"{device}: expected code for {chip}, found an artifact for {image.chip} "
            f"({image.code_kind}); compile the model with --target {_family(image)}:{chip}"
        )


def _family(image: GpuImage) -> str:
    return image.target.partition(":")[0]


def _runs(image: GpuImage, chip: str) -> bool:
    if image.code_kind == "hsaco":
        return chip == image.chip
    has, needs = _capability(chip), _capability(image.chip)
    if image.code_kind == "ptx":
        return has >= needs
    return has[0] == needs[0] and has >= needs


def _capability(chip: str) -> tuple[int, int]:
    digits = chip.removeprefix("sm_")
    return (int(digits[:-1]), int(digits[-1])) if digits.isdigit() else (0, 0)
