"""Emits loop nests that compute each element of a tensor independently, and their bodies."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rammer_mlir.bindings import arith, ir, linalg, tensor
from rammer_mlir.passes.ir.cloning import ValueMap, clone_into
from rammer_mlir.passes.ir.generics import generic

Values = Sequence[ir.Value]

Body = Callable[[Values, Values], ir.Value]
"""A function that emits an element from the elements of the inputs and the element's indices."""


def per_element(
    shape: Sequence[int],
    element: ir.Type,
    inputs: Sequence[tuple[ir.Value, ir.AffineMap]],
    body: Body,
) -> ir.Value:
    """Emit a loop nest that computes each element of a tensor independently; return the tensor.

    Args:
        shape: the shape of the result.
        element: the element type of the result.
        inputs: pairs of a tensor and its indexing map, from the result's indices to the tensor's.
        body: emits an element of the result from elements of the inputs and the indices.
    """
    rank = len(shape)
    output = tensor.EmptyOp(list(shape), element).result
    maps = [*(map_ for _, map_ in inputs), ir.AffineMap.get_identity(rank)]
    op = generic([value for value, _ in inputs], output, maps, [True] * rank)
    kinds = [ir.RankedTensorType(value.type).element_type for value, _ in inputs]
    block = op.regions[0].blocks.append(*kinds, element)
    with ir.InsertionPoint(block):
        indices = [linalg.IndexOp(n).result for n in range(rank)]
        linalg.YieldOp([body(list(block.arguments)[:-1], indices)])
    return op.results[0]


def cloned_body(block: ir.Block, arguments: Values) -> ir.Value:
    """Clone a block at the insertion point, without its terminator; return the yielded value.

    The clone uses ``arguments`` in place of the block's arguments. The yielded value is the clone
    of the terminator's first operand.
    """
    mapping: ValueMap = dict(zip(block.arguments, arguments, strict=True))
    *inner, last = block.operations
    for each in inner:
        clone_into(each, mapping, ir.InsertionPoint.current)
    yielded = last.operation.operands[0]
    return mapping.get(yielded, yielded)


def scalar_map(rank: int) -> ir.AffineMap:
    """Return the indexing map from ``rank`` loops to the only element of a 0-D tensor."""
    return ir.AffineMap.get(rank, 0, [])


def index(value: int) -> ir.Value:
    """Emit an index constant, and return it."""
    return arith.ConstantOp(ir.IndexType.get(), value).result


def clamped(value: ir.Value, last: int) -> ir.Value:
    """Emit an index clamped to the range 0 to ``last``, and return it."""
    return arith.minsi(arith.maxsi(value, index(0)), index(last))


def all_of(conditions: Sequence[ir.Value]) -> ir.Value:
    """Emit the logical AND of one or more i1 values, and return it."""
    found, *rest = conditions
    for condition in rest:
        found = arith.andi(found, condition)
    return found


def to_index(value: ir.Value) -> ir.Value:
    """Emit the conversion of an integer to an index, and return the index."""
    if isinstance(value.type, ir.IndexType):
        return value
    return arith.index_cast(ir.IndexType.get(), value)
