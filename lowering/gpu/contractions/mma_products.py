"""Emits matrix multiplications by NVIDIA's ``mma.sync``, with operands from shared memory.

A fragment is the part of an operand that a lane holds in registers. The fragment layouts are those
of PTX for ``mma.m16n8k16`` (f16, bf16) and ``mma.m16n8k8`` (tf32). ``ldmatrix`` loads a fragment
if eight 16-bit elements of each row in shared memory are contiguous and aligned. It transposes the
elements if they are contiguous along the result's rows or columns instead of along k. Otherwise
each lane loads its elements individually. Elements of f32 are rounded to the nearest tf32, ties
away from zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rammer_mlir.bindings import arith, ir, memref, nvgpu, nvvm, vector
from rammer_mlir.lowering.gpu.contractions.plan import ContractionPlan
from rammer_mlir.lowering.gpu.contractions.staging import Box
from rammer_mlir.lowering.kernels.affine import Index, add, as_value, constant, multiply
from rammer_mlir.passes.ir.structured import element_bytes

_ROW = 8
"""Number of rows, and of 16-bit elements per row, of a matrix that ``ldmatrix`` loads."""

_REGISTER_BYTES = 4


@dataclass(frozen=True)
class Side:
    """The left or the right operand of a matrix multiplication, as a warp reads it.

    Attributes:
        box: the operand's box in shared memory.
        base: index in shared memory of the first operand element that the warp's tile needs.
        along: distance in shared memory, in elements, between the operand elements of adjacent rows
            of the result (left operand) or adjacent columns of the result (right operand).
        step: distance in shared memory, in elements, between the operand elements of adjacent
            iterations along k, the summed loop.
        aligned: whether ``base``, and the distance between adjacent rows of the box in shared
            memory, are multiples of eight elements, as ``ldmatrix`` requires.
        registers: number of 32-bit registers that hold a lane's fragment.
    """

    box: Box
    base: Index
    along: int
    step: int
    aligned: bool
    registers: int

    @property
    def kind(self) -> ir.VectorType:
        """The vector type of a lane's fragment."""
        return ir.VectorType.get([self.registers, self.packed], self.element)

    @property
    def element(self) -> ir.Type:
        """The type of the elements of a fragment."""
        return self.box.shared.type.element_type

    @property
    def packed(self) -> int:
        """The number of elements, adjacent along k, that a register of a fragment holds."""
        return _REGISTER_BYTES // element_bytes(self.element)


class MmaProducts:
    """Emits one lane's code to compute a warp's tile of results by NVIDIA's ``mma.sync``.

    The products are added to the lane's accumulators.
    """

    def __init__(self, plan: ContractionPlan, boxes: Sequence[Box], lane: ir.Value) -> None:
        """Emit the positions of a lane's elements in fragments and result matrices.

        ``lane`` is the lane's index in its warp. ``boxes`` are the staged operands in shared
        memory.
        """
        assert plan.matrix is not None
        self._plan, self._matrix, self._boxes = plan, plan.matrix, boxes
        self._line = arith.remui(lane, constant(_ROW))
        self._block = arith.divui(lane, constant(_ROW))
        self._row = arith.divui(lane, constant(4))
        self._place = arith.remui(lane, constant(4))
        self._pair = multiply(self._place, 2)
        self._unit = plan.matrix.unit
        steps = self._unit.steps[plan.contraction.matrix_element]
        self._shape = [self._unit.rows, self._unit.columns, steps]

    def starts(self) -> dict[int, Index]:
        """Return the row and the column of the lane's first result in the warp's tile.

        The keys are the indices of the loop over rows and of the loop over columns.
        """
        return {self._matrix.rows: self._row, self._matrix.columns: self._pair}

    def add_products(self, bases: Sequence[Index], results: Sequence[ir.Value]) -> list[ir.Value]:
        """Emit the matrix instructions for one k-step of a warp's tile; return the new results.

        A k-step comprises the iterations along k that one instruction sums.

        Args:
            bases: for each operand, the index in shared memory of the first element that the warp's
                tile reads in this k-step.
            results: the lane's accumulators before this k-step.
        """
        rows, columns = self._plan.num_matrices
        left = self._side(self._matrix.left, self._matrix.rows, bases, registers=4)
        right = self._side(self._matrix.right, self._matrix.columns, bases, registers=2)
        a = [self._fragment(left, m * self._unit.rows) for m in range(rows)]
        found = list(results)
        for n in range(columns):
            b = self._fragment(right, n * self._unit.columns)
            for m in range(rows):
                first = 4 * (m * columns + n)
                found[first : first + 4] = self._product(a[m], b, results[first : first + 4])
        return found

    def _side(self, place: int, loop: int, bases: Sequence[Index], registers: int) -> Side:
        staged = self._boxes[place].staged
        along, step = staged.factor(loop), staged.factor(self._plan.contraction.reduced[0])
        between = along if step == 1 else step
        aligned = self._plan.alignment(staged) % _ROW == 0 and between % _ROW == 0
        return Side(self._boxes[place], bases[place], along, step, aligned, registers)

    def _fragment(self, side: Side, first: int) -> ir.Value[ir.VectorType]:
        """Emit the load of a lane's fragment of an operand; return the fragment.

        ``first`` is the first row of the result (left operand) or the first column of the result
        (right operand) that the fragment contributes to, relative to the warp's tile.
        """
        base = add(side.base, first * side.along)
        if side.packed == 2 and side.aligned and 1 in (side.along, side.step):
            return self._load_matrices(side, base)
        elements: list[ir.Value] = []
        for register in range(side.registers):
            line, step = _block_of(side, register)
            for neighbor in range(side.packed):
                place = add(multiply(self._place, side.packed), step + neighbor)
                at = add(base, multiply(add(self._row, line), side.along))
                at = add(at, multiply(place, side.step))
                elements.append(memref.load(side.box.shared, [as_value(at)]))
        if side.packed == 1:
            elements = [_rounded(element) for element in elements]
        return vector.from_elements(side.kind, elements)

    def _product(
        self, a: ir.Value[ir.VectorType], b: ir.Value[ir.VectorType], results: Sequence[ir.Value]
    ) -> list[ir.Value]:
        kind = ir.VectorType.get([2, 2], results[0].type)
        old = vector.from_elements(kind, list(results))
        narrow = element_bytes(a.type.element_type) == 2
        new = nvgpu.mma_sync(kind, a, b, old, self._shape, tf32_enabled=not narrow)
        return [vector.extract(new, [], [half, n]) for half in range(2) for n in range(2)]

    def _load_matrices(self, side: Side, base: Index) -> ir.Value[ir.VectorType]:
        """Emit an ``ldmatrix`` of a fragment that begins at index ``base`` of shared memory.

        Each group of eight lanes passes the addresses of the eight rows of a matrix. Returns the
        fragment.
        """
        transposed = side.step != 1
        block = arith.remui(self._block, constant(side.registers))
        if side.registers == 2:
            across, steps = 0, multiply(block, _ROW)
        else:
            across = multiply(arith.remui(block, constant(2)), _ROW)
            steps = multiply(arith.divui(block, constant(2)), _ROW)
        if transposed:
            steps = add(steps, self._line)
        else:
            across = add(across, self._line)
        at = add(base, add(multiply(across, side.along), multiply(steps, side.step)))
        return nvgpu.ldmatrix(
            side.kind, side.box.shared, [as_value(at)], transposed, side.registers
        )


def _block_of(side: Side, register: int) -> tuple[int, int]:
    """Return how far a fragment's elements in ``register`` are from its elements in register 0.

    The first distance is in rows of the result (left operand) or columns of the result (right
    operand), the second distance is in iterations along k.
    """
    steps = 4 * side.packed
    if side.registers == 2:
        return 0, steps * register
    return _ROW * (register % 2), steps * (register // 2)


def _rounded(element: ir.Value) -> ir.Value:
    """Emit the rounding of an f32 to tf32, to nearest with ties away from zero."""
    mode = ir.Attribute.parse("#nvvm.fp_rnd_mode<rna>")
    return arith.bitcast(element.type, nvvm.convert_float_to_tf32(element, rnd=mode))
