"""Emits loads at adjacent points along a loop, as wide as the operands' alignment permits."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rammer_mlir.bindings import ir, vector
from rammer_mlir.lowering.gpu.alignment import holds_aligned_runs
from rammer_mlir.lowering.gpu.contractions.plan import WIDEST
from rammer_mlir.lowering.gpu.generic_body import Loads, Point, indices_at
from rammer_mlir.passes.ir.boxes import loops_in
from rammer_mlir.passes.ir.structured import (
    Structured,
    as_buffer,
    element_bytes,
    is_buffer,
    plain_dim,
)


def adjacent_operands(generic: Structured, along: int | None, width: int) -> list[int]:
    """Return the indices of the operands that can be accessed by vectors of ``width`` elements.

    The elements of a vector are contiguous along the loop ``along``. The vector is aligned if the
    index of its first element along this loop is a multiple of ``width``.

    Args:
        generic: an operation on memrefs.
        along: the index of the loop; None if there is none, for which the result is empty.
        width: the count of elements in a vector; 1 gives an empty result.
    """
    if width == 1 or along is None:
        return []
    return [
        number
        for number, operand in enumerate(generic.operands)
        if is_buffer(operand)
        and operand.type.rank
        and is_vector_element(operand.type.element_type)
        and width * element_bytes(operand.type) <= WIDEST
        and contiguous_loop(generic.maps[number].results) == along
        and holds_aligned_runs(operand, width)
    ]


def contiguous_loop(indices: Sequence[ir.AffineExpr]) -> int | None:
    """Return the index of the loop along which accesses to a memref are contiguous, or None.

    ``indices`` are the memref's indices as expressions of the loops. The last index must be the
    loop's induction variable, and no other index may depend on the loop. Return None if there is no
    such loop.
    """
    last = plain_dim(indices[-1]) if len(indices) else None
    others = set[int]().union(*(loops_in(expr) for expr in list(indices)[:-1]))
    return None if last in others else last


def is_vector_element(element: ir.Type) -> bool:
    """Return whether a vector of an element type is stored like adjacent elements of a memref."""
    if isinstance(element, ir.IntegerType | ir.FloatType):
        return element.width in (8, 16, 32, 64)
    return False


class AdjacentLoads:
    """Emits loads of a body's operands at iteration points that are adjacent along a loop.

    Each element is loaded once, so no memory may be written between the loads.
    """

    def __init__(self, generic: Structured, width: int, wide: Collection[int]) -> None:
        """Create an emitter that has not loaded any elements yet.

        Args:
            generic: the operation.
            width: the count of points.
            wide: indices of the operands whose elements at all points are loaded by one vector
                load.
        """
        self._generic, self._width, self._wide = generic, width, wide
        self._loads = Loads(generic)
        self._loaded: dict[int, ir.Value] = {}
        self.shift = 0

    def value(self, number: int, point: Point) -> ir.Value:
        """Return the element of operand ``number`` at ``point``; emit its load at the first use.

        Before each call, the caller sets ``shift`` to the position of ``point`` among the
        adjacent points, from 0. For each operand in ``wide``, the first call must have ``shift`` 0,
        since it loads the elements at all adjacent points.

        Args:
            number: the index of the operand.
            point: an index for each loop.
        """
        if number not in self._wide:
            return self._loads.value(number, point)
        if number not in self._loaded:
            source = as_buffer(self._generic.operands[number])
            kind = ir.VectorType.get([self._width], source.type.element_type)
            at = indices_at(self._generic.maps[number], point)
            num_bytes = self._width * element_bytes(source.type)
            self._loaded[number] = vector.load(kind, source, at, alignment=num_bytes)
        return vector.extract(self._loaded[number], [], [self.shift])
