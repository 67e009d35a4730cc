"""`rtask-map-to-threads`: distributes each rKernel's tile over the threads of a block."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rammer_mlir.bindings import ir
from rammer_mlir.errors import OptionError
from rammer_mlir.lowering.gpu.contractions.matrix_unit import MMA, NARROW, UNITS, MatrixUnit
from rammer_mlir.lowering.gpu.contractions.plan import WARP
from rammer_mlir.lowering.gpu.kernels import MOST_THREADS, map_kernels
from rammer_mlir.lowering.kernels.functions import find_kernels
from rammer_mlir.passes.base import OperationError, Pass, check_least
from rammer_mlir.passes.ir.called_functions import inline_called_functions
from rammer_mlir.passes.ir.kernels import described_kernels


@dataclass(frozen=True)
class MapToThreads(Pass):
    """Distribute linalg operations over a block's threads, with temporaries in its shared memory.

    A block has ``threads`` threads and at most ``shared_limit`` bytes of shared memory.
    Contractions stage their operands in shared memory; with ``async_copies``, these copies are
    asynchronous. With a ``matrix_unit``, ``mma`` or ``mfma``, warps compute contractions of f16 and
    bf16 by matrix instructions. With ``tf32``, ``mma`` instructions also compute contractions of
    f32, whose elements are rounded to tf32.

    If an rKernel's argument has the attribute ``rtask.alignment``, its value is a number of bytes
    that divides the argument's address.
    """

    name: ClassVar[str] = "rtask-map-to-threads"

    threads: int = 256
    shared_limit: int = 48 << 10
    async_copies: bool = False
    matrix_unit: str = ""
    tf32: bool = False

    def check_options(self) -> None:
        """Check the options.

        Raises:
            OptionError: if a block has fewer threads than a warp or more than any GPU permits, or
                if ``shared_limit`` is negative.
        """
        if not WARP <= self.threads <= MOST_THREADS:
            raise OptionError(
                f"{self.name}: threads: expected {WARP} to {MOST_THREADS}, found {self.threads}"
            )
        check_least(self, 0, "shared_limit")

    def run(self, module: ir.Module) -> None:
        """Distribute every rKernel of the module over the threads of a block.

        rKernels get additional arguments for shared and scratch memory.

        Raises:
            OperationError: if the module has an ``rtask.kernel``, which describes an rKernel's
                accesses: the changed rKernel would contradict this description.
        """
        with ir.Location.unknown(module.context):
            described = next(iter(described_kernels(module).values()), None)
            if described is not None:
                raise OperationError(
                    described,
                    "expected rKernels alone, found a description, which mapped rKernels would "
                    "contradict: run rtask-lower-to-gpu",
                )
            inline_called_functions(module, list(find_kernels(module)))
            kernels = list(find_kernels(module))
            map_kernels(
                module, kernels, self.shared_limit, self.threads,
                async_copies=self.async_copies, matrix_unit=self._unit(),
            )  # fmt: skip

    def _unit(self) -> MatrixUnit | None:
        name = self.matrix_unit or MMA.name
        if name not in UNITS:
            raise OptionError(
                f"{self.name}: matrix-unit: expected one of {', '.join(UNITS)}, found '{name}'"
            )
        narrow = NARROW if self.matrix_unit else ()
        unit = UNITS[name].only((*narrow, "f32") if self.tf32 else narrow)
        return unit if unit.steps else None
