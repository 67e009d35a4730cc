"""``stablehlo.sort`` by counting: a position is the number of elements that sort before it.

Specification: https://openxla.org/stablehlo/spec#sort. Every pair of elements is compared, so that
positions are computed independently; equal elements keep their order.
"""

from __future__ import annotations

from collections.abc import Sequence

from rammer_mlir.bindings import arith, ir, linalg, stablehlo, tensor
from rammer_mlir.passes.ir.cloning import ValueMap
from rammer_mlir.passes.ir.generics import generic
from rammer_mlir.passes.ir.traversal import operations_named, replace
from rammer_mlir.passes.legalization.elementwise import index

_MOST_ELEMENTS = 4096
"""Maximum length of a sorted line: 16 million comparisons."""


def lower_sorts(module: ir.Module) -> None:
    """Replace sorts of at most ``_MOST_ELEMENTS`` elements along a dimension by counting.

    The comparison has to be elementwise; other sorts stay.
    """
    if stablehlo is None:
        return
    for op in list(operations_named(module.operation, "stablehlo.sort")):
        if _can_be_counted(op):
            with ir.InsertionPoint(op), op.location:
                replace(op, _Sort(op).results())


def _can_be_counted(op: ir.Operation) -> bool:
    kind = ir.RankedTensorType(op.operands[0].type)
    if not kind.has_static_shape or kind.shape[_dimension(op)] > _MOST_ELEMENTS:
        return False
    inner = list(op.regions[0].blocks[0].operations)
    return not any(list(each.operation.regions) for each in inner)


def _dimension(op: ir.Operation) -> int:
    given = ir.IntegerAttr(op.attributes["dimension"]).value
    return given % ir.RankedTensorType(op.operands[0].type).rank


class _Sort:
    """Emits a sort along a dimension, which compares all pairs of elements of each line.

    Comparisons are on tensors of pairs: the operands' dimensions index the first element of a pair,
    an additional last dimension has the position of the other element in the same line.
    """

    def __init__(self, op: ir.Operation) -> None:
        self._op = op
        self._shape = list(ir.RankedTensorType(op.operands[0].type).shape)
        self._rank = len(self._shape)
        self._dimension = _dimension(op)
        self._pairs = [*self._shape, self._shape[self._dimension]]
        loops = [ir.AffineDimExpr.get(n) for n in range(self._rank + 1)]
        own, other = loops[: self._rank], loops[: self._rank]
        other[self._dimension] = loops[self._rank]
        self._maps = [ir.AffineMap.get(self._rank + 1, 0, each) for each in (own, other, loops)]

    def results(self) -> list[ir.Value]:
        """Emit and return the sorted operands."""
        own = [self._spread(value, is_other=False) for value in self._op.operands]
        other = [self._spread(value, is_other=True) for value in self._op.operands]
        # Both orders are compared, which tells ties from smaller elements.
        places = self._places(self._compared(own, other), self._compared(other, own))
        return [self._placed(value, places) for value in self._op.operands]

    def _spread(self, value: ir.Value, *, is_other: bool) -> ir.Value:
        """Emit and return an operand, broadcast to the tensor of pairs.

        The element at a pair is the pair's first element, or its other element if ``is_other``.
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
        """Emit and return, for each pair, whether ``first`` sorts before ``second``.

        Each sequence has a tensor of all pairs for each operand of the sort.
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
        """Return the tensor of all pairs that replaces a scalar of the comparison's body.

        ``mapping`` has the tensors by scalar. A scalar from outside of the body is broadcast to all
        pairs and added to ``mapping``.
        """
        if value not in mapping:
            mapping[value] = self._broadcast(value, [])
        return mapping[value]

    def _places(self, before: ir.Value, after: ir.Value) -> ir.Value:
        """Emit and return each element's position: the number of elements that sort before it.

        ``before`` has for each pair whether its first element sorts before the other, ``after``
        whether the other sorts before the first. Equal elements keep their order.
        """
        kind = ir.IndexType.get()
        start = tensor.SplatOp(ir.RankedTensorType.get(self._shape, kind), index(0), []).result
        own, _, pairs = self._maps
        loop = generic([before, after], start, [pairs, pairs, own], self._parallel())
        truth = ir.IntegerType.get_signless(1)
        block = loop.regions[0].blocks.append(truth, truth, kind)
        with ir.InsertionPoint(block):
            is_before, is_after, count = block.arguments
            equal = arith.cmpi(arith.CmpIPredicate.eq, is_before, is_after)
            there, here = (linalg.IndexOp(n).result for n in (self._rank, self._dimension))
            earlier = arith.cmpi(arith.CmpIPredicate.ult, there, here)
            # Ties are broken by position, which makes the sort stable.
            counts = arith.select(equal, earlier, is_after)
            linalg.YieldOp([arith.select(counts, arith.addi(count, index(1)), count)])
        return loop.results[0]

    def _placed(self, value: ir.Value, places: ir.Value) -> ir.Value:
        """Emit and return the operand ``value`` with each element at its position in ``places``.

        Each position is found by a search through all elements.
        """
        own, other, _ = self._maps
        loop = generic([value, places], value, [other, other, own], self._parallel())
        element = ir.RankedTensorType(value.type).element_type
        block = loop.regions[0].blocks.append(element, ir.IndexType.get(), element)
        with ir.InsertionPoint(block):
            found, place, current = block.arguments
            own = linalg.IndexOp(self._dimension).result
            here = arith.cmpi(arith.CmpIPredicate.eq, place, own)
            linalg.YieldOp([arith.select(here, found, current)])
        return loop.results[0]

    def _parallel(self) -> list[bool]:
        return [True] * self._rank + [False]
