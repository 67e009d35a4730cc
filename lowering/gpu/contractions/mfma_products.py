"""Emits products by AMD's ``v_mfma``: loads fragments from shared memory and multiplies them.

A fragment is the four elements of an operand that a lane of a wave of 64 holds. The elements belong
to row (or column) ``lane mod 16``, and have the indices ``4 (lane / 16)`` to ``4 (lane / 16) + 3``
along k (AMD's CDNA 3 instruction set, dense matrix layouts).
"""

from __future__ import annotations

from collections.abc import Sequence

from rammer_mlir.bindings import arith, ir, memref, rocdl, vector
from rammer_mlir.lowering.gpu.contractions.plan import ContractionPlan
from rammer_mlir.lowering.gpu.contractions.staging import Box
from rammer_mlir.lowering.kernels.affine import Index, add, as_value, constant, multiply
from rammer_mlir.passes.ir.structured import element_bytes

_EACH = 4
"""Number of elements of a lane's fragment, and of a lane's results per instruction."""


class MfmaProducts:
    """Emits a lane's part of the products of a wave's tile, by AMD's matrix instructions.

    The products are added to the lane's accumulators.
    """

    def __init__(self, plan: ContractionPlan, boxes: Sequence[Box], lane: ir.Value) -> None:
        """Emit the indices that depend on ``lane``, the lane's index in its wave.

        ``boxes`` are the staged operands in shared memory.
        """
        assert plan.matrix is not None
        self._plan, self._matrix, self._boxes = plan, plan.matrix, boxes
        self._unit = plan.matrix.unit
        self._line = arith.remui(lane, constant(self._unit.rows))
        self._first = multiply(arith.divui(lane, constant(self._unit.rows)), _EACH)

    def starts(self) -> dict[int, Index]:
        """Return the row and the column of the lane's first result in the wave's tile.

        The keys are the indices of the loop over rows and of the loop over columns.
        """
        return {self._matrix.rows: self._first, self._matrix.columns: self._line}

    def add_products(self, bases: Sequence[Index], results: Sequence[ir.Value]) -> list[ir.Value]:
        """Emit the matrix instructions for one k-step of a wave's tile; return the accumulators.

        A k-step comprises the iterations along k that one instruction sums.

        Args:
            bases: for each operand, the index in shared memory of the first element that the wave's
                tile reads in this k-step.
            results: the lane's accumulators before this k-step.
        """
        rows, columns = self._plan.num_matrices
        left, right = self._matrix.left, self._matrix.right
        a = [
            self._fragment(left, self._matrix.rows, bases[left], m * self._unit.rows)
            for m in range(rows)
        ]
        found = list(results)
        for n in range(columns):
            first = n * self._unit.columns
            b = self._fragment(right, self._matrix.columns, bases[right], first)
            for m in range(rows):
                own = slice(_EACH * (m * columns + n), _EACH * (m * columns + n + 1))
                found[own] = _product(a[m], b, results[own])
        return found

    def _fragment(self, place: int, loop: int, base: Index, first: int) -> ir.Value[ir.VectorType]:
        """Emit the load of the lane's fragment of an operand: four elements along k.

        Args:
            place: index of the operand in ``boxes``.
            loop: the loop over the operand's rows (or columns).
            base: index in shared memory of the first element that the wave's tile reads.
            first: first row (or column) of the matrix instruction, relative to the tile.
        """
        box = self._boxes[place]
        along = box.staged.factor(loop)
        step = box.staged.factor(self._plan.contraction.reduced[0])
        at = add(add(base, first * along), multiply(self._line, along))
        at = add(at, multiply(self._first, step))
        element = box.shared.type.element_type
        kind = ir.VectorType.get([_EACH], element)
        aligned = self._plan.alignment(box.staged) % _EACH == 0 and along % _EACH == 0
        if step == 1 and aligned:
            num_bytes = _EACH * element_bytes(element)
            return vector.load(kind, box.shared, [as_value(at)], alignment=num_bytes)
        elements = [memref.load(box.shared, [as_value(add(at, n * step))]) for n in range(_EACH)]
        return vector.from_elements(kind, elements)


def _product(
    a: ir.Value[ir.VectorType], b: ir.Value[ir.VectorType], results: Sequence[ir.Value]
) -> list[ir.Value]:
    kind = ir.VectorType.get([_EACH], results[0].type)
    old = vector.from_elements(kind, list(results))
    plain = ir.Attribute.parse("#rocdl<mfma_perm_b none>")
    if isinstance(a.type.element_type, ir.F16Type):
        new = rocdl.mfma_f32_16x16x16f16(kind, a, b, old, 0, 0, plain)
    else:
        bits = ir.VectorType.get([_EACH], ir.IntegerType.get_signless(16))
        a, b = vector.bitcast(bits, a), vector.bitcast(bits, b)
        new = rocdl.mfma_f32_16x16x16bf16_1k(kind, a, b, old, 0, 0, plain)
    return [vector.extract(new, [], [n]) for n in range(_EACH)]
