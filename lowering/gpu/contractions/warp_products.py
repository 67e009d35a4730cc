"""Emits the matrix instructions that compute a warp's tile of results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from rammer_mlir.bindings import ir
from rammer_mlir.lowering.gpu.contractions.matrix_unit import MFMA, MMA
from rammer_mlir.lowering.gpu.contractions.mfma_products import MfmaProducts
from rammer_mlir.lowering.gpu.contractions.mma_products import MmaProducts
from rammer_mlir.lowering.gpu.contractions.plan import ContractionPlan
from rammer_mlir.lowering.gpu.contractions.staging import Box
from rammer_mlir.lowering.kernels.affine import Index


class WarpProducts(Protocol):
    """Emits one lane's code to compute a warp's tile of results by matrix instructions.

    The products are added to the lane's accumulators. Each target has an implementation.
    """

    def starts(self) -> dict[int, Index]:
        """Return the row and the column of the lane's first result in the warp's tile.

        The keys are the indices of the loop over rows and of the loop over columns.
        """
        ...

    def add_products(self, bases: Sequence[Index], results: Sequence[ir.Value]) -> list[ir.Value]:
        """Emit the matrix instructions for one k-step of a warp's tile; return the new results.

        A k-step comprises the iterations along k that one instruction sums.

        Args:
            bases: for each operand, the index in shared memory of the first element that the warp's
                tile reads in this k-step.
            results: the lane's accumulators before this k-step.
        """
        ...


_UNITS = {MMA.name: MmaProducts, MFMA.name: MfmaProducts}


def warp_products(
    plan: ContractionPlan, boxes: Sequence[Box], lane: ir.Value
) -> WarpProducts | None:
    """Return the emitter of the plan's matrix instructions; None for a plan without them.

    ``boxes`` are the staged operands, ``lane`` is the lane's index in its warp.
    """
    return None if plan.matrix is None else _UNITS[plan.matrix.unit.name](plan, boxes, lane)
