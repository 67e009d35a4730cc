"""The body of a ``linalg.generic`` at one point of its iteration space."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from rammer_mlir.bindings import ir, memref
from rammer_mlir.lowering.kernels.affine import Index, as_value, evaluate
from rammer_mlir.passes.ir.cloning import ValueMap, clone_into


def output_maps(generic: Any) -> list[tuple[Any, Any]]:
    """Return each output buffer and its indexing map."""
    maps = [attribute.value for attribute in generic.attributes["indexing_maps"]]
    body = generic.regions[0].blocks[0]
    count = len(body.operations[len(body.operations) - 1].operands)
    return list(zip(generic.operands, maps, strict=True))[-count:]


class Elements(Protocol):
    """Gives a body the elements of its operands."""

    def value(self, number: int, point: Sequence[Index | None]) -> Any:
        """Return the element of an operand at a point."""
        ...


class Loads:
    """Loads of inputs, each element once for all points that need it."""

    def __init__(self, generic: Any) -> None:
        """Begin a straight piece of code, in which no memory is written."""
        self._operands = list(generic.operands)
        self._maps = [attribute.value for attribute in generic.attributes["indexing_maps"]]
        self._dims = [used_dimensions(access) for access in self._maps]
        self._values: dict[tuple[int, tuple[Index | None, ...]], Any] = {}

    def value(self, number: int, point: Sequence[Index | None]) -> Any:
        """Return the element of an operand at a point; a scalar operand is itself."""
        operand = self._operands[number]
        if not isinstance(operand.type, ir.MemRefType):
            return operand
        key = number, tuple(point[dim] for dim in self._dims[number])
        if key not in self._values:
            at = [as_value(evaluate(result, point)) for result in self._maps[number].results]
            self._values[key] = memref.load(operand, at)
        return self._values[key]


def used_dimensions(access: Any) -> tuple[int, ...]:
    """Return the loops that an indexing map depends on."""
    return tuple(
        dim for dim in range(access.n_dims) if any(_uses(result, dim) for result in access.results)
    )


def _uses(expression: Any, dim: int) -> bool:
    if isinstance(expression, ir.AffineDimExpr):
        return expression.position == dim
    if isinstance(expression, ir.AffineConstantExpr | ir.AffineSymbolExpr):
        return False
    return _uses(expression.lhs, dim) or _uses(expression.rhs, dim)


def emit_body(
    generic: Any, point: Sequence[Index | None], carried: Sequence[Any], loads: Elements
) -> list[Any]:
    """Emit a copy of the body and return what it yields.

    Args:
        generic: the operation.
        point: index of each loop.
        carried: values of the outputs before this point, None where the body does not use them.
        loads: shared with other points of the same straight piece of code.
    """
    body = generic.regions[0].blocks[0]
    mapping: ValueMap = {}
    first_output = len(body.arguments) - len(carried)
    for number, argument in enumerate(body.arguments):
        if number >= first_output:
            if carried[number - first_output] is not None:
                mapping[argument] = carried[number - first_output]
        elif list(argument.uses):
            mapping[argument] = loads.value(number, point)
    *operations, terminator = list(body.operations)
    place = ir.InsertionPoint.current
    for operation in operations:
        if operation.operation.name == "linalg.index":
            index = point[operation.operation.attributes["dim"].value]
            mapping[operation.operation.results[0]] = as_value(index)
        else:
            clone_into(operation, mapping, place)
    return [mapping.get(value, value) for value in terminator.operation.operands]


def output_places(generic: Any, point: Sequence[Index | None]) -> list[tuple[Any, list[Any]]]:
    """Return each output buffer and the indices of the result at a point."""
    known = [0 if index is None else index for index in point]
    return [
        (buffer, [as_value(evaluate(result, known)) for result in access.results])
        for buffer, access in output_maps(generic)
    ]


def initial_values(
    generic: Any, places: Sequence[tuple[Any, list[Any]]], needed: bool
) -> list[Any]:
    """Load the outputs' old values where the body uses them."""
    arguments = list(generic.regions[0].blocks[0].arguments)[-len(places) :]
    return [
        memref.load(buffer, at) if needed or list(argument.uses) else None
        for (buffer, at), argument in zip(places, arguments, strict=True)
    ]
