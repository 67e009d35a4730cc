"""Defines the options of compilation stages: the user's options, and values derived from them."""

from __future__ import annotations

from dataclasses import dataclass

from rammer_mlir.compiler.quantization.samples import Samples
from rammer_mlir.options import Options


@dataclass(frozen=True)
class CompileOptions:
    """Options of a compilation, after all checks.

    Attributes:
        target: the target, spelled as in the option ``--target``.
        given: the user's options with all defaults.
        num_veus: number of vEUs that the program is scheduled for.
        device: name or file of the device description whose costs policies use.
        measured: whether costs of rKernels are measured on this processor.
        costs: name of the cost function with the highest priority; empty for none.
        rkernels: names of the providers that may offer rKernels.
        offload: names of the code generators that may compile regions.
        samples: calibration data if regions are quantized; else None.
        merge_growth: factor by which merging operators may multiply the arithmetic; 0 merges none.
        tile_bytes: most bytes that an rTask accesses, for a bulk-synchronous device; else 0.
        fold_to: number of threads onto which the schedule for ``num_veus`` vEUs of a
            bulk-synchronous device is folded; 0 for other devices.
    """

    target: str
    given: Options
    num_veus: int
    device: str
    measured: bool
    costs: str
    rkernels: tuple[str, ...]
    offload: tuple[str, ...]
    samples: Samples | None
    merge_growth: float
    tile_bytes: int
    fold_to: int

    @property
    def policy(self) -> str:
        """Name of the scheduling policy."""
        return self.given["policy"]

    @property
    def launched_veus(self) -> int:
        """Number of vEUs of the compiled program, after folding."""
        return min(self.fold_to, self.num_veus) or self.num_veus
