"""Emits the body of a ``linalg.generic`` at a point of its iteration space."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias

from rammer_mlir.bindings import ir, memref
from rammer_mlir.lowering.kernels.affine import Index, as_value, evaluate
from rammer_mlir.passes.ir.cloning import ValueMap, clone_into
from rammer_mlir.passes.ir.structured import Structured, is_buffer

Point: TypeAlias = "Sequence[Index | None]"
"""An index for each loop; None for a loop, such as a reduction loop, that has no index yet."""

Place: TypeAlias = "tuple[ir.Value, list[ir.Value]]"
"""A buffer, and the indices of an element."""


class Elements(Protocol):
    """An interface of objects that give the elements of an operation's operands.

    An implementation emits loads of the elements, or returns values that are in registers.
    """

    def value(self, number: int, point: Point) -> ir.Value:
        """Return the element of operand ``number`` at a point.

        ``point`` has an index for each loop, None for a loop without an index yet.
        """
        ...


class Loads:
    """Emits loads of an operation's inputs; points that read the same element share its load.

    No memory may be written between the loads.
    """

    def __init__(self, generic: Structured) -> None:
        """Create an emitter that has not loaded any elements yet."""
        self._operands, self._maps = generic.operands, generic.maps
        self._loops = generic.used_loops
        self._values: dict[tuple[int, tuple[Index | None, ...]], ir.Value] = {}

    def value(self, number: int, point: Point) -> ir.Value:
        """Return the element of operand ``number`` at a point, emitting its load at the first use.

        The value of a scalar operand is returned unchanged.
        """
        operand = self._operands[number]
        if not is_buffer(operand):
            return operand
        key = number, tuple(point[loop] for loop in self._loops[number])
        if key not in self._values:
            self._values[key] = memref.load(operand, indices_at(self._maps[number], point))
        return self._values[key]


def indices_at(map_: ir.AffineMap, point: Point) -> list[ir.Value]:
    """Emit the indices of the element at a point, by the operand's indexing map ``map_``."""
    return [as_value(evaluate(result, point)) for result in map_.results]


def emit_body(
    generic: Structured, point: Point, carried: Sequence[ir.Value | None], loads: Elements
) -> list[ir.Value]:
    """Emit a copy of a generic's body at a point, and return the yielded values.

    Args:
        generic: the operation.
        point: index of each loop.
        carried: for each output, the old value; None if the body does not use the old value.
        loads: emits the inputs' elements; shared by points of the same straight-line code.
    """
    mapping: ValueMap = {}
    first_output = len(generic.arguments) - len(carried)
    for number, argument in enumerate(generic.arguments[:first_output]):
        if generic.reads_input(number):
            mapping[argument] = loads.value(number, point)
    for argument, value in zip(generic.arguments[first_output:], carried, strict=True):
        if value is not None:
            mapping[argument] = value
    place = ir.InsertionPoint.current
    for operation in generic.body:
        if operation.operation.name == "linalg.index":
            index = point[ir.IntegerAttr(operation.operation.attributes["dim"]).value]
            assert index is not None, "a body is emitted at a point with all indices"
            mapping[operation.operation.results[0]] = as_value(index)
        else:
            clone_into(operation, mapping, place)
    return [mapping.get(value, value) for value in generic.yielded]


def output_places(generic: Structured, point: Point) -> list[Place]:
    """Return each output buffer with the indices of its element at a point."""
    known = [0 if index is None else index for index in point]
    pairs = zip(generic.outputs, generic.output_maps, strict=True)
    return [(buffer, indices_at(map_, known)) for buffer, map_ in pairs]


def old_outputs(generic: Structured, places: Sequence[Place]) -> list[ir.Value | None]:
    """Emit loads of the outputs' old values at ``places``; None for an output that is not read."""
    return [
        memref.load(buffer, at) if generic.reads_output(number) else None
        for number, (buffer, at) in enumerate(places)
    ]
