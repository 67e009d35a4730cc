"""Emits loads of staged operands from shared memory: one load per element or aligned vector."""

from __future__ import annotations

from collections.abc import Sequence

from rammer_mlir.bindings import ir, memref, vector
from rammer_mlir.lowering.gpu.contractions.plan import ContractionPlan
from rammer_mlir.lowering.gpu.contractions.staging import Box
from rammer_mlir.lowering.gpu.generic_body import Point
from rammer_mlir.lowering.kernels.affine import Index, add, as_value
from rammer_mlir.passes.ir.structured import Structured, element_bytes

_VECTOR = 4
"""Number of elements of the widest load."""


class SharedLoads:
    """Emits loads of staged operands' elements from shared memory, at most one load per element.

    The loads and all uses of the loaded values must be in the same straight-line code.
    """

    def __init__(
        self,
        generic: Structured,
        plan: ContractionPlan,
        boxes: Sequence[Box],
        bases: Sequence[Index],
    ) -> None:
        """Create an emitter that has not loaded any elements yet.

        Args:
            generic: the operation whose operands are loaded.
            plan: the operation's plan.
            boxes: the staged operands.
            bases: for each staged operand, the index in shared memory of the first element that the
                thread reads.
        """
        self._operands = generic.operands
        self._places = {box.staged.access.number: n for n, box in enumerate(boxes)}
        self._boxes, self._bases = boxes, bases
        points = [
            plan.point(offset, step) for step in range(plan.unrolled) for offset in plan.offsets
        ]
        self._needed = [{_offset(box, point) for point in points} for box in boxes]
        self._alignment = [plan.alignment(box.staged) for box in boxes]
        self._values: dict[tuple[int, int], ir.Value] = {}

    def value(self, number: int, point: Point) -> ir.Value:
        """Return the element of operand ``number`` at the loop indices ``point``.

        The first use of an element emits its load; later uses get the same value. A scalar operand
        is returned unchanged.
        """
        if number not in self._places:
            return self._operands[number]
        place = self._places[number]
        offset = _offset(self._boxes[place], point)
        if (place, offset) not in self._values:
            self._load(place, offset)
        return self._values[place, offset]

    def _load(self, place: int, offset: int) -> None:
        """Emit the load of an element, together with adjacent elements that the thread also reads.

        ``place`` is the index of the operand's box. ``offset`` is the element's distance, in
        elements, from the first element in shared memory that the thread reads of the operand.
        """
        width = _VECTOR
        while width > 1:
            begin = offset - offset % width
            around = range(begin, begin + width)
            if self._alignment[place] % width == 0 and self._needed[place].issuperset(around):
                break
            width //= 2
        begin = offset - offset % width
        shared = self._boxes[place].shared
        at = [as_value(add(self._bases[place], begin))]
        if width == 1:
            self._values[place, offset] = memref.load(shared, at)
            return
        kind = ir.VectorType.get([width], shared.type.element_type)
        loaded = vector.load(kind, shared, at, alignment=width * element_bytes(shared.type))
        for n in range(width):
            self._values[place, begin + n] = vector.extract(loaded, [], [n])


def _offset(box: Box, point: Point) -> int:
    """Return an element's static offset in shared memory, in elements, from its operand's base.

    The base is the first element of the operand that the thread reads. ``point`` has the loop
    indices at which the element is read; only the static indices contribute to the static offset.
    """
    known = [(loop, index) for loop, index in enumerate(point) if isinstance(index, int)]
    return sum(index * box.staged.factor(loop) for loop, index in known)
