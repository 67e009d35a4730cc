"""``tm_tensor.sort`` and ``topk`` by counting: each element's position among those of its line.

These are operations of torch-mlir's dialect TMTensor, whose comparisons are on scalars.
"""

from __future__ import annotations

from collections.abc import Sequence

from rammer_mlir.bindings import arith, ir
from rammer_mlir.passes.legalization.elementwise import Values, cloned_body, per_element
from rammer_mlir.passes.legalization.limits import is_limit
from rammer_mlir.passes.legalization.sorts import MOST_ELEMENTS, Lines

_ASCENDING = (arith.CmpFPredicate.OLT, arith.CmpFPredicate.OLE)
_DESCENDING = (arith.CmpFPredicate.OGT, arith.CmpFPredicate.OGE)


def torch_sort(op: ir.Operation, operands: Sequence[ir.Value]) -> list[ir.Value] | None:
    """Emit the loops that replace a ``tm_tensor.sort``, and return the sorted operands.

    None if lines have more than ``MOST_ELEMENTS`` elements.

    Args:
        op: the sort.
        operands: the tensors to sort, of static shapes.
    """
    lines = _lines(op, operands[0])
    if lines is None:
        return None
    places = _places(op, lines, operands)
    return [lines.placed(value, places, value) for value in operands]


def torch_topk(op: ir.Operation, operands: Sequence[ir.Value]) -> list[ir.Value] | None:
    """Emit the loops that replace a ``tm_tensor.topk``; return the first elements and indices.

    None if lines have more than ``MOST_ELEMENTS`` elements or fewer than the results, or if the
    results do not start at a limit of their type: their initial values would take part.

    Args:
        op: the operation.
        operands: the values, their indices if given, and the initial values and indices of the
            results, of static shapes.
    """
    value, *given, best, numbers = operands
    lines = _lines(op, value)
    dimension = _dimension(op)
    most, count = (ir.RankedTensorType(v.type).shape[dimension] for v in (value, best))
    if lines is None or count > most or not is_limit(best):
        return None
    element = ir.RankedTensorType(numbers.type).element_type
    positions = given[0] if given else _positions(value, dimension, element)
    places = _places(op, lines, [value])
    return [lines.placed(value, places, best), lines.placed(positions, places, numbers)]


def _dimension(op: ir.Operation) -> int:
    return ir.IntegerAttr(op.attributes["dimension"]).value


def _lines(op: ir.Operation, value: ir.Value) -> Lines | None:
    """Return the loops over pairs along the dimension of ``op``; None if lines are too long."""
    shape = ir.RankedTensorType(value.type).shape
    return None if shape[_dimension(op)] > MOST_ELEMENTS else Lines(shape, _dimension(op))


def _places(op: ir.Operation, lines: Lines, values: Sequence[ir.Value]) -> ir.Value:
    """Emit and return the position of each element of the tensors ``values`` in its line."""
    block = op.regions[0].blocks[0]

    def compare(elements: Values) -> Values:
        own, other = elements[: len(values)], elements[len(values) :]
        # Both orders are compared, which tells ties from smaller elements.
        return [_precedes(block, *pair) for pair in ((own, other), (other, own))]

    inputs = [(value, map_) for map_ in (lines.own, lines.other) for value in values]
    return lines.places(inputs, compare)


def _precedes(block: ir.Block, first: Values, second: Values) -> ir.Value:
    """Emit and return whether ``first`` sorts before ``second``, by the comparison ``block``.

    NaN is larger than all numbers, as in PyTorch; ordered comparisons alone do not sort it.
    """
    pairs = [value for pair in zip(first, second, strict=True) for value in pair]
    found = cloned_body(block, pairs)
    owner = found.owner
    if isinstance(owner, ir.Block) or owner.name != "arith.cmpf":
        return found
    predicate = arith.CmpFPredicate(ir.IntegerAttr(owner.attributes["predicate"]).value)
    if predicate not in (*_ASCENDING, *_DESCENDING):
        return found
    larger = owner.operands[predicate in _ASCENDING]
    return arith.ori(found, arith.cmpf(arith.CmpFPredicate.UNO, larger, larger))


def _positions(value: ir.Value, dimension: int, element: ir.Type) -> ir.Value:
    """Emit and return a tensor with each element's index along a dimension of ``value``."""

    def body(_elements: Values, indices: Values) -> ir.Value:
        return arith.index_cast(element, indices[dimension])

    return per_element(ir.RankedTensorType(value.type).shape, element, [], body)
