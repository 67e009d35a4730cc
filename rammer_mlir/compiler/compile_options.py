"""What the stages of a compilation go by: the user's options, and what follows from them."""

from __future__ import annotations

from dataclasses import dataclass

from rammer_mlir.compiler.quantization.samples import Samples
from rammer_mlir.options import Options


@dataclass(frozen=True)
class CompileOptions:
    """Options of a compilation, after every check.

    Attributes:
        target: as the user spells it.
        given: what the user decides, complete.
        num_veus: vEUs that the program is scheduled for.
        device: the device description, by name or file, whose costs schedules follow.
        measured: whether rKernels cost what was measured on this processor.
        costs: name of the cost function that is asked first; empty for none.
        rkernels: names of the providers that may offer rKernels.
        offload: names of the code generators that may compile regions.
        samples: calibration data, where regions are quantized; else None.
        merge_growth: how much merged operators may multiply the arithmetic; 0 merges none.
        tile_bytes: most bytes that an rTask touches, for a bulk-synchronous device; else 0.
        fold_to: vEUs that execute what was scheduled for ``num_veus`` of a bulk-synchronous device;
            else 0.
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
        """Number of vEUs that execute the program."""
        return min(self.fold_to, self.num_veus) or self.num_veus
