"""Emits the products of a warp's tile by the target's matrix instruction."""

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
    """Emits a lane's part of the products of a warp's tile, by matrix instructions.

    The products are added to the lane's accumulators. There is an implementation for each target.
    """

    def starts(self) -> dict[int, Index]:
        """Return the index of the lane's first result in a tile, by loop number.

        The loops are those over the rows and the columns of the result.
        """
        ...

    def add_products(self, bases: Sequence[Index], results: Sequence[ir.Value]) -> list[ir.Value]:
        """Emit the matrix instructions for one k-step of a warp's tile; return the accumulators.

        The k-step is the k extent of one instruction.

        Args:
            bases: for each operand, the index in shared memory of its first element.
            results: the lane's accumulators before the step.
        """
        ...


_UNITS = {MMA.name: MmaProducts, MFMA.name: MfmaProducts}


def warp_products(
    plan: ContractionPlan, boxes: Sequence[Box], lane: ir.Value
) -> WarpProducts | None:
    """Return the emitter of products by the plan's matrix instruction, None without an instruction.

    ``boxes`` are the staged operands, ``lane`` is the lane's number in its warp.
    """
    return None if plan.matrix is None else _UNITS[plan.matrix.unit.name](plan, boxes, lane)
