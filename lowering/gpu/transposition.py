"""Emits element-wise operations with transposed operands, via squares in shared memory.

The block processes a square of ``SIDE`` by ``SIDE`` points of the iteration space at a time. For
these points, the block reads a square of ``SIDE`` by ``SIDE`` elements of each transposed operand,
and writes a square of the result.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence

from rammer_mlir.bindings import arith, gpu, ir, memref, scf
from rammer_mlir.lowering.gpu.generic_body import (
    Loads,
    Point,
    emit_body,
    old_outputs,
    output_places,
)
from rammer_mlir.lowering.gpu.guards import all_below, when
from rammer_mlir.lowering.gpu.iteration_space import Loops, product, unflatten
from rammer_mlir.lowering.gpu.threads import Threads
from rammer_mlir.lowering.gpu.transposition_plan import ROW, SIDE, TranspositionPlan
from rammer_mlir.lowering.kernels.affine import (
    Index,
    add,
    as_value,
    constant,
    multiply,
)
from rammer_mlir.passes.ir.structured import Buffer, Structured


def emit_transposition(
    generic: Structured,
    plan: TranspositionPlan,
    threads: Threads,
    squares: Sequence[Buffer],
) -> None:
    """Emit an element-wise ``linalg.generic`` on memrefs as the code of each thread.

    Args:
        generic: the operation.
        plan: its plan.
        threads: the thread's index, and the size of the block in whole warps.
        squares: for each transposed operand, a buffer in shared memory of ``SIDE`` rows. A row has
            ``SIDE`` elements of the operand, padded to ``ROW`` elements.
    """
    _Emitter(generic, plan, threads, squares).emit()


class _Emitter:
    def __init__(
        self,
        generic: Structured,
        plan: TranspositionPlan,
        threads: Threads,
        squares: Sequence[Buffer],
    ) -> None:
        self._generic, self._plan, self._squares = generic, plan, squares
        self._loops = Loops.of(generic)
        self._lane = arith.remui(threads.number, constant(SIDE))
        self._line = arith.divui(threads.number, constant(SIDE))
        self._lines = threads.count // SIDE
        self._threads = threads

    def emit(self) -> None:
        """Emit the loop over squares of the iteration space; all threads execute each iteration.

        A square has ``SIDE`` by ``SIDE`` points.
        """
        square = (self._plan.across, self._plan.along)
        counts = [
            _squares(bound) if loop in square else bound
            for loop, bound in enumerate(self._loops.bounds)
        ]
        loop = scf.ForOp(constant(0), as_value(product(counts)), constant(1))
        with ir.InsertionPoint(loop.body):
            at = unflatten(loop.induction_variable, counts)
            origin = [multiply(n, SIDE) if k in square else n for k, n in enumerate(at)]
            for line in self._rows():
                self._fetch(origin, line)
            gpu.barrier()
            for line in self._rows():
                self._compute(origin, line)
            gpu.barrier()
            scf.YieldOp([])

    def _rows(self) -> Generator[Index]:
        """Emit and yield the index of each row of a square that the thread's warp processes.

        The caller's loop over the rows is thereby unrolled in the emitted code.
        """
        for first in range(0, SIDE, self._lines):
            yield add(self._line, first)

    def _point(self, origin: Sequence[Index], across: Index, along: Index) -> list[Index]:
        point = list(origin)
        point[self._plan.across] = add(origin[self._plan.across], across)
        point[self._plan.along] = add(origin[self._plan.along], along)
        return point

    def _fetch(self, origin: Sequence[Index], line: Index) -> None:
        """Emit the copy of row ``line`` of a square of each transposed operand to shared memory.

        ``origin`` has the loop indices of the square's first point. Adjacent lanes copy adjacent
        elements.
        """
        point = self._point(origin, line, self._lane)
        with when(self._inside(point)):
            loads = Loads(self._generic)
            place = as_value(add(multiply(line, ROW), self._lane))
            for operand, square in zip(self._plan.operands, self._squares, strict=True):
                memref.store(loads.value(operand.number, point), square, [place])

    def _compute(self, origin: Sequence[Index], line: Index) -> None:
        """Emit the computation of row ``line`` of a square of the result.

        ``origin`` has the loop indices of the square's first point. Adjacent lanes compute adjacent
        elements.
        """
        point = self._point(origin, self._lane, line)
        with when(self._inside(point)):
            place = as_value(add(multiply(self._lane, ROW), line))
            known = {
                operand.number: memref.load(square, [place])
                for operand, square in zip(self._plan.operands, self._squares, strict=True)
            }
            places = output_places(self._generic, point)
            before = old_outputs(self._generic, places)
            found = emit_body(self._generic, point, before, _KnownElements(self._generic, known))
            for value, (buffer, at) in zip(found, places, strict=True):
                memref.store(value, buffer, at)

    def _inside(self, point: Sequence[Index]) -> ir.Value | None:
        """Emit an i1 that tells whether a point is in the iteration space; None if it always is."""
        loops = (self._plan.across, self._plan.along)
        bounds = [(point[loop], self._loops.bounds[loop]) for loop in loops]
        return all_below(
            (index, bound) for index, bound in bounds if not isinstance(bound, int) or bound % SIDE
        )


class _KnownElements(Loads):
    """Emits loads of a body's elements, except of operands whose elements are already in registers.

    ``known`` maps the index of such an operand to the value of its element.
    """

    def __init__(self, generic: Structured, known: dict[int, ir.Value]) -> None:
        super().__init__(generic)
        self._known = known

    def value(self, number: int, point: Point) -> ir.Value:
        """Return the element of operand ``number`` at a point, known or loaded."""
        return self._known[number] if number in self._known else super().value(number, point)


def _squares(bound: Index) -> Index:
    """Return how many squares of ``SIDE`` by ``SIDE`` points cover the iterations of one loop."""
    if isinstance(bound, int):
        return -(-bound // SIDE)
    return arith.ceildivui(bound, constant(SIDE))
