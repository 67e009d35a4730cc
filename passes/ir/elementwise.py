"""Emits elementwise operations, and the bodies of generics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rammer_mlir.bindings import ir, linalg, tensor
from rammer_mlir.passes.ir.generics import generic
from rammer_mlir.passes.ir.structured import shape_of

FIRST = -1
"""Stands in ``Operand.dims`` for a dimension of size 1, which is read at index 0 and broadcast."""

Body = Callable[[Sequence[ir.Value]], ir.Value]
"""A function that emits an element of the result.

Its arguments are the inputs' elements and, last, the result's old element.
"""


@dataclass(frozen=True)
class Operand:
    """An input of an elementwise operation.

    Attributes:
        value: the tensor.
        dims: for each dimension of the tensor, the index of the corresponding dimension of the
            result, or ``FIRST`` for a unit dimension that is broadcast.
    """

    value: ir.Value
    dims: Sequence[int]


def whole(value: ir.Value) -> Operand:
    """Return ``value``, which has the result's shape, as an operand of an elementwise operation."""
    return Operand(value, range(len(shape_of(value))))


def scalar(value: ir.Value) -> Operand:
    """Return the 0-D tensor ``value`` as an operand that is broadcast to the result's shape."""
    return Operand(value, ())


def single(value: ir.Value) -> Operand:
    """Return ``value``, of shape [1], as an operand that is broadcast to the result's shape."""
    return Operand(value, (FIRST,))


def elementwise(
    operands: Sequence[Operand], shape: Sequence[int], element: ir.Type, body: Body
) -> ir.Value:
    """Emit an elementwise operation as a ``linalg.generic``, and return its result.

    Args:
        operands: the inputs.
        shape: the shape of the result.
        element: the element type of the result.
        body: a function that emits an element of the result from the elements of the inputs.
    """
    rank = len(shape)
    maps = [projection(operand.dims, rank) for operand in operands]
    out = tensor.EmptyOp(list(shape), element).result
    inputs = [operand.value for operand in operands]
    return filled(generic(inputs, out, [*maps, projection(range(rank), rank)], [True] * rank), body)


def projection(dims: Sequence[int], rank: int) -> ir.AffineMap:
    """Return an indexing map of ``rank`` loops: loop ``dims[n]`` indexes dimension n.

    ``FIRST`` in ``dims`` stands for the constant index 0.
    """
    exprs = [
        ir.AffineExpr.get_constant(0) if dim == FIRST else ir.AffineExpr.get_dim(dim)
        for dim in dims
    ]
    return ir.AffineMap.get(rank, 0, exprs)


def filled(op: ir.OpView, body: Body) -> ir.Value:
    """Emit the body of ``op``, a ``linalg.generic`` without body; return the generic's result."""
    kinds = (value.type for value in op.operation.operands)
    elements = [k.element_type if isinstance(k, ir.RankedTensorType) else k for k in kinds]
    block = op.operation.regions[0].blocks.append(*elements)
    with ir.InsertionPoint(block):
        linalg.YieldOp([body(list(block.arguments))])
    return op.operation.results[0]


def full(shape: Sequence[int], number: ir.Value) -> ir.Value:
    """Emit a tensor of shape ``shape`` with all elements equal to ``number``, and return it.

    The operation is a ``linalg.generic``, so that fusion clones it into each rOperator that uses
    it.
    """
    out = tensor.EmptyOp(list(shape), number.type).result
    maps = [projection(dims, len(shape)) for dims in ((), range(len(shape)))]
    return filled(generic([number], out, maps, [True] * len(shape)), lambda elements: elements[0])
