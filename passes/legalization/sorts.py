"""Lowers ``stablehlo.sort``: an element's new index is the count of elements that precede it.

Specification: https://openxla.org/stablehlo/spec#sort. Every pair of elements is compared, so that
positions are computed independently; equal elements keep their order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rammer_mlir.bindings import arith, ir, linalg, stablehlo, tensor
from rammer_mlir.passes.ir.cloning import ValueMap
from rammer_mlir.passes.ir.generics import generic
from rammer_mlir.passes.ir.traversal import operations_named, replace
from rammer_mlir.passes.legalization.elementwise import Values, index

MOST_ELEMENTS = 4096
"""Maximum length of a sorted line: 16 million comparisons."""


def lower_sorts(module: ir.Module) -> None:
    """Replace sorts along a static dimension of at most 4096 elements by counting.

    The comparison has to be elementwise, and the shape static; all other sorts remain unchanged.
    """
    if stablehlo is None:
        return
    for op in list(operations_named(module.operation, "stablehlo.sort")):
        if _can_be_counted(op):
            with ir.InsertionPoint(op), op.location:
                replace(op, _Sort(op).results())


def _can_be_counted(op: ir.Operation) -> bool:
    kind = ir.RankedTensorType(op.operands[0].type)
    if not kind.has_static_shape or kind.shape[_dimension(op)] > MOST_ELEMENTS:
        return False
    inner = list(op.regions[0].blocks[0].operations)
    return not any(list(each.operation.regions) for each in inner)


def _dimension(op: ir.Operation) -> int:
    given = ir.IntegerAttr(op.attributes["dimension"]).value
    return given % ir.RankedTensorType(op.operands[0].type).rank


class Lines:
    """Emitter of loops that compare each element of a tensor with all elements of its line.

    A line consists of the elements whose indices differ only along ``dimension``. The loops run
    over all pairs of elements in the same line.

    Attributes:
        own: the indexing map from the loops to the first element of a pair.
        other: the indexing map from the loops to the second element of a pair.
        pairs: the indexing map from the loops to a tensor with one element per pair; the index
            along its additional last dimension is the second element's index along ``dimension``.
    """

    def __init__(self, shape: Sequence[int], dimension: int) -> None:
        self._shape, self._dimension, self._rank = list(shape), dimension, len(shape)
        loops = [ir.AffineDimExpr.get(n) for n in range(self._rank + 1)]
        own, other = loops[: self._rank], loops[: self._rank]
        other[dimension] = loops[self._rank]
        self.own, self.other, self.pairs = (
            ir.AffineMap.get(self._rank + 1, 0, each) for each in (own, other, loops)
        )
        self._parallel = [True] * self._rank + [False]

    def places(
        self, inputs: Sequence[tuple[ir.Value, ir.AffineMap]], compare: Callable[[Values], Values]
    ) -> ir.Value:
        """Emit and return each element's position: the count of elements that sort before it.

        Equal elements keep their order.

        Args:
            inputs: tensors, each with its indexing map from the loops over all pairs.
            compare: emits, from elements of the inputs, whether the pair's first element sorts
                before the second, and whether the second sorts before the first.
        """
        kind = ir.IndexType.get()
        start = tensor.SplatOp(ir.RankedTensorType.get(self._shape, kind), index(0), []).result
        values, maps = [value for value, _ in inputs], [map_ for _, map_ in inputs]
        loop = generic(values, start, [*maps, self.own], self._parallel)
        kinds = [ir.RankedTensorType(value.type).element_type for value in values]
        block = loop.regions[0].blocks.append(*kinds, kind)
        with ir.InsertionPoint(block):
            *elements, count = block.arguments
            is_before, is_after = compare(elements)
            equal = arith.cmpi(arith.CmpIPredicate.eq, is_before, is_after)
            there, here = (linalg.IndexOp(n).result for n in (self._rank, self._dimension))
            earlier = arith.cmpi(arith.CmpIPredicate.ult, there, here)
            # Ties are broken by position, which makes the sort stable.
            counts = arith.select(equal, earlier, is_after)
            linalg.YieldOp([arith.select(counts, arith.addi(count, index(1)), count)])
        return loop.results[0]

    def placed(self, value: ir.Value, places: ir.Value, into: ir.Value) -> ir.Value:
        """Emit and return a copy of ``into`` with elements of ``value`` at new positions.

        ``places`` has the new index, along the sorted dimension, of each element of ``value``.
        Elements whose new index is out of the bounds of ``into`` are dropped. To find the element
        for a position, the loops search through the line.
        """
        loop = generic([value, places], into, [self.other, self.other, self.own], self._parallel)
        element = ir.RankedTensorType(value.type).element_type
        block = loop.regions[0].blocks.append(element, ir.IndexType.get(), element)
        with ir.InsertionPoint(block):
            found, place, current = block.arguments
            own = linalg.IndexOp(self._dimension).result
            here = arith.cmpi(arith.CmpIPredicate.eq, place, own)
            linalg.YieldOp([arith.select(here, found, current)])
        return loop.results[0]


class _Sort:
    """Emitter of a sort along a dimension; the sort compares all pairs of elements in each line.

    A line consists of the elements whose indices differ only along the sorted dimension.
    Comparisons are computed on tensors with one element per pair: the operands' dimensions index
    the first element of the pair, and an additional last dimension indexes the second element in
    the same line.
    """

    def __init__(self, op: ir.Operation) -> None:
        self._op = op
        self._shape = list(ir.RankedTensorType(op.operands[0].type).shape)
        self._rank = len(self._shape)
        self._dimension = _dimension(op)
        self._pairs = [*self._shape, self._shape[self._dimension]]

    def results(self) -> list[ir.Value]:
        """Emit and return the sorted operands."""
        lines = Lines(self._shape, self._dimension)
        own = [self._spread(value, is_other=False) for value in self._op.operands]
        other = [self._spread(value, is_other=True) for value in self._op.operands]
        # Both orders are compared, which tells ties from smaller elements.
        compared = (self._compared(own, other), self._compared(other, own))
        places = lines.places([(each, lines.pairs) for each in compared], lambda found: found)
        return [lines.placed(value, places, value) for value in self._op.operands]

    def _spread(self, value: ir.Value, *, is_other: bool) -> ir.Value:
        """Emit and return an operand, broadcast to a tensor with one element per pair.

        The element is the first of the pair, or the second if ``is_other``.
        """
        dims = list(range(self._rank))
        if is_other:
            dims[self._dimension] = self._rank
        return self._broadcast(value, dims)

    def _broadcast(self, value: ir.Value, dims: Sequence[int]) -> ir.Value:
        kind = self._pair_type(value)
        attributes = {"broadcast_dimensions": ir.DenseI64ArrayAttr.get(list(dims))}
        name = "stablehlo.broadcast_in_dim"
        return ir.Operation.create(name, [kind], [value], attributes).results[0]

    def _pair_type(self, value: ir.Value) -> ir.Type:
        return ir.RankedTensorType.get(self._pairs, ir.RankedTensorType(value.type).element_type)

    def _compared(self, first: Sequence[ir.Value], second: Sequence[ir.Value]) -> ir.Value:
        """Emit and return a tensor of i1: for each pair, whether ``first`` sorts before ``second``.

        Each sequence has one tensor per operand of the sort; each tensor has one element per pair.
        """
        block = self._op.regions[0].blocks[0]
        pairs = [v for pair in zip(first, second, strict=True) for v in pair]
        mapping: ValueMap = dict(zip(block.arguments, pairs, strict=True))
        *inner, last = [each.operation for each in block.operations]
        for op in inner:
            attributes = {name: op.attributes[name] for name in op.attributes}
            if not op.operands:
                copy = ir.Operation.create(op.name, [op.results[0].type], [], attributes)
                mapping[op.results[0]] = self._broadcast(copy.results[0], [])
                continue
            operands = [self._at_pairs(value, mapping) for value in op.operands]
            kinds = [self._pair_type(value) for value in op.results]
            copy = ir.Operation.create(op.name, kinds, operands, attributes)
            mapping.update(zip(op.results, copy.results, strict=True))
        return self._at_pairs(last.operands[0], mapping)

    def _at_pairs(self, value: ir.Value, mapping: ValueMap) -> ir.Value:
        """Return the tensor that replaces a scalar of the comparison's body.

        The tensor has one element per pair. ``mapping`` maps scalars to their tensors. A scalar
        from outside of the body is broadcast to all pairs and added to ``mapping``.
        """
        if value not in mapping:
            mapping[value] = self._broadcast(value, [])
        return mapping[value]
