"""Lowers ``tm_tensor.sort`` and ``topk`` to counting the elements that precede each element.

The operations are those of torch-mlir's dialect TMTensor.
"""

from __future__ import annotations

from collections.abc import Sequence

from rammer_mlir.bindings import arith, ir
from rammer_mlir.passes.legalization.elementwise import Values, cloned_body, per_element
from rammer_mlir.passes.legalization.extreme_values import is_limit
from rammer_mlir.passes.legalization.sorts import MOST_ELEMENTS, Lines

_F, _I = arith.CmpFPredicate, arith.CmpIPredicate

_ORDERED = {
    name: ordered
    for ordered in (_F.OLT, _F.OLE, _F.OGT, _F.OGE)
    for name in (ordered.name, ordered.name.replace("O", "U", 1))
}
"""The ordered predicate for each ordered or unordered inequality of floats, by its name.

The results of both predicates differ for NaN only.
"""

_LESS = ("OLT", "OLE", "ULT", "ULE", "slt", "sle")
_GREATER = ("OGT", "OGE", "UGT", "UGE", "sgt", "sge")
"""Names of the predicates of floats and signed integers that mean "greater" or "not less"."""


def torch_sort(op: ir.Operation, operands: Sequence[ir.Value]) -> list[ir.Value] | None:
    """Emit the loops that replace a ``tm_tensor.sort``, and return the sorted operands.

    A line is all elements along the dimension of the sort. Return None if lines have more than
    ``MOST_ELEMENTS`` elements, or if floats are compared by several operations, which might not
    order NaN.

    Args:
        op: the sort.
        operands: the tensors to sort, of static shapes.
    """
    lines = _lines(op, operands[0])
    if lines is None or not _is_order(op.regions[0].blocks[0]):
        return None
    places = _places(op, lines, operands)
    return [lines.placed(value, places, value) for value in operands]


def torch_topk(op: ir.Operation, operands: Sequence[ir.Value]) -> list[ir.Value] | None:
    """Emit the loops that replace a ``tm_tensor.topk``; return the first elements and indices.

    Of equal elements, those with smaller indices are first. A line is all elements along the
    dimension of the selection. Return None in these cases:

    - lines have more than ``MOST_ELEMENTS`` elements, or fewer than the results;
    - the body is not a single comparison;
    - the initial values might be selected: they are not the limit of their type, such as -inf, that
      sorts after all elements.

    Args:
        op: the operation.
        operands: the values, their indices if given, and the initial values and indices of the
            results, of static shapes.
    """
    value, *given, best, numbers = operands
    lines = _lines(op, value)
    dimension = _dimension(op)
    most, count = (ir.RankedTensorType(v.type).shape[dimension] for v in (value, best))
    takes_largest = _takes_largest(op.regions[0].blocks[0])
    if takes_largest is None or lines is None or count > most:
        return None
    if not is_limit(best, is_least=takes_largest):
        return None
    element = ir.RankedTensorType(numbers.type).element_type
    positions = given[0] if given else _positions(value, dimension, element)
    places = _places(op, lines, [value], given[0] if given else None)
    return [lines.placed(value, places, best), lines.placed(positions, places, numbers)]


def _dimension(op: ir.Operation) -> int:
    return ir.IntegerAttr(op.attributes["dimension"]).value


def _lines(op: ir.Operation, value: ir.Value) -> Lines | None:
    """Return the loops that compare all pairs of elements along the dimension of ``op``.

    Return None if the dimension has more than ``MOST_ELEMENTS`` elements.
    """
    shape = ir.RankedTensorType(value.type).shape
    return None if shape[_dimension(op)] > MOST_ELEMENTS else Lines(shape, _dimension(op))


def _comparison(block: ir.Block) -> ir.Operation | None:
    """Return the comparison of a body's first two arguments, if the body has no other operation.

    Return None for any other body.
    """
    *inner, last = [each.operation for each in block.operations]
    if len(inner) != 1 or inner[0].name not in ("arith.cmpf", "arith.cmpi"):
        return None
    is_yielded = last.operands[0] == inner[0].results[0]
    is_of_pair = {*inner[0].operands} == {block.arguments[0], block.arguments[1]}
    return inner[0] if is_yielded and is_of_pair else None


def _predicate(op: ir.Operation) -> str:
    """Return the name of a comparison's predicate, such as ``OLT`` or ``sge``."""
    number = ir.IntegerAttr(op.attributes["predicate"]).value
    return _F(number).name if op.name == "arith.cmpf" else _I(number).name


def _is_order(block: ir.Block) -> bool:
    """Whether a body is known to define an order of all elements, including NaN.

    The body must compare only integers, or be a single ordered or unordered inequality of floats.
    """
    if not any(each.operation.name == "arith.cmpf" for each in block.operations):
        return True
    found = _comparison(block)
    return found is not None and _predicate(found) in _ORDERED


def _takes_largest(block: ir.Block) -> bool | None:
    """Whether a body that compares two elements puts the larger one first.

    Return None if the body is not a single "less than" or "greater than" (or equal).
    """
    found = _comparison(block)
    if found is None or _predicate(found) not in (*_LESS, *_GREATER):
        return None
    is_swapped = found.operands[0] == block.arguments[1]
    return (_predicate(found) in _GREATER) != is_swapped


def _places(
    op: ir.Operation, lines: Lines, values: Sequence[ir.Value], ties: ir.Value | None = None
) -> ir.Value:
    """Emit and return each element's index after sorting along the dimension of ``op``.

    The elements of the tensors ``values`` at the same index are sorted together. Of equal elements,
    the element with the smaller value in the tensor ``ties`` is first; without ``ties``, the
    element with the smaller old index is first.
    """
    block, count = op.regions[0].blocks[0], len(values)
    compared = [*values, *(() if ties is None else (ties,))]

    def compare(elements: Values) -> Values:
        own, other = elements[: len(compared)], elements[len(compared) :]
        # Both orders are compared, which tells ties from smaller elements.
        pairs = ((own[:count], other[:count]), (other[:count], own[:count]))
        before, after = (_precedes(block, *pair) for pair in pairs)
        if ties is None:
            return [before, after]
        equal = arith.cmpi(_I.eq, before, after)
        here, there = own[count], other[count]
        first, second = arith.cmpi(_I.slt, here, there), arith.cmpi(_I.slt, there, here)
        return [arith.select(equal, first, before), arith.select(equal, second, after)]

    inputs = [(value, map_) for map_ in (lines.own, lines.other) for value in compared]
    return lines.places(inputs, compare)


def _precedes(block: ir.Block, first: Values, second: Values) -> ir.Value:
    """Emit and return an i1: whether ``block``, a sort's body, orders ``first`` before ``second``.

    Each sequence has one scalar for each sorted tensor. NaN counts as larger than all numbers, as
    in PyTorch: a float comparison is replaced by its ordered predicate and a test for NaN.
    """
    pairs = [value for pair in zip(first, second, strict=True) for value in pair]
    found = cloned_body(block, pairs)
    owner = found.owner
    if isinstance(owner, ir.Block) or owner.name != "arith.cmpf":
        return found
    predicate = _predicate(owner.operation)
    ordered = arith.cmpf(_ORDERED[predicate], *owner.operands)
    larger = owner.operands[predicate in _LESS]
    return arith.ori(ordered, arith.cmpf(_F.UNO, larger, larger))


def _positions(value: ir.Value, dimension: int, element: ir.Type) -> ir.Value:
    """Emit and return a tensor with each element's index along a dimension of ``value``."""

    def body(_elements: Values, indices: Values) -> ir.Value:
        return arith.index_cast(element, indices[dimension])

    return per_element(ir.RankedTensorType(value.type).shape, element, [], body)
