"""Lowers ``stablehlo.select_and_scatter``, the gradient of a maximum over windows.

Specification: https://openxla.org/stablehlo/spec#select_and_scatter. A reduction over each window
finds the position of the selected element in the window. Each element of the result then adds the
sources of the windows that selected it, so that elements are computed independently.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from rammer_mlir.bindings import arith, ir, linalg, stablehlo, tensor
from rammer_mlir.passes.ir.generics import generic, indexing_maps, iterator_types, splat
from rammer_mlir.passes.ir.traversal import operations_named, replace
from rammer_mlir.passes.legalization.elementwise import all_of, index

_Compare = Callable[[ir.Value, ir.Value], ir.Value]

_PREDICATES = {"GE": "oge", "GT": "ogt", "LE": "ole", "LT": "olt"}
"""Names of the ordered comparisons of floats, by comparison direction."""


def lower_window_selections(module: ir.Module) -> None:
    """Replace each ``stablehlo.select_and_scatter`` that compares elements and adds sources.

    Operations with other functions, or with unsupported shapes or element types, remain unchanged.
    """
    if stablehlo is None:
        return
    for op in list(operations_named(module.operation, "stablehlo.select_and_scatter")):
        keeps = _comparison(op)
        if keeps is not None and _adds(op):
            with ir.InsertionPoint(op), op.location:
                windows = _Windows.of(op)
                replace(op, [_scattered(op, windows, _selected(op, windows, keeps))])


def _comparison(op: ir.Operation) -> _Compare | None:
    """Return a function that emits the comparison of ``stablehlo.select_and_scatter``.

    The function is called with the element that is selected so far and another element, and emits
    whether the former remains selected. Return None if the operation, its types or its shapes are
    not supported.
    """
    types = [ir.RankedTensorType(value.type) for value in op.operands]
    element = types[0].element_type
    *inner, returned = [each.operation for each in op.regions[0].blocks[0].operations]
    arguments = list(op.regions[0].blocks[0].arguments)
    if not all(each.has_static_shape for each in types) or len(inner) != 1:
        return None
    compare = inner[0]
    if compare.name != "stablehlo.compare" or list(compare.operands) != arguments:
        return None
    direction = str(compare.attributes["comparison_direction"])
    found = [predicate for name, predicate in _PREDICATES.items() if f" {name}>" in direction]
    if not found or returned.operands[0] != compare.results[0]:
        return None
    if isinstance(element, ir.FloatType):
        return partial(arith.cmpf, getattr(arith.CmpFPredicate, found[0].upper()))
    is_signed = isinstance(element, ir.IntegerType) and element.is_signless and element.width > 1
    signed = getattr(arith.CmpIPredicate, f"s{found[0][1:]}")
    return partial(arith.cmpi, signed) if is_signed else None


def _adds(op: ir.Operation) -> bool:
    """Whether the scatter function of ``op``, a ``select_and_scatter``, is an addition."""
    block = op.regions[1].blocks[0]
    names = [each.operation.name for each in block.operations]
    first = block.operations[0].operation
    return names == ["stablehlo.add", "stablehlo.return"] and {*first.operands} == {
        *block.arguments
    }


@dataclass(frozen=True)
class _Windows:
    """The geometry of the windows of an operand; each attribute has a number per dimension.

    Attributes:
        sizes: sizes of the operand in elements.
        counts: numbers of windows.
        extents: sizes of a window in elements.
        strides: distances of neighboring windows in elements.
        low: elements of padding before the operand.
        high: elements of padding after the operand.
    """

    sizes: Sequence[int]
    counts: Sequence[int]
    extents: Sequence[int]
    strides: Sequence[int]
    low: Sequence[int]
    high: Sequence[int]

    @staticmethod
    def of(op: ir.Operation) -> _Windows:
        """Return the windows of a ``stablehlo.select_and_scatter``."""
        sizes, counts = (list(ir.RankedTensorType(value.type).shape) for value in op.operands[:2])
        rank = len(sizes)
        extents, strides = (
            list(ir.DenseI64ArrayAttr(op.attributes[name])) if name in op.attributes else [1] * rank
            for name in ("window_dimensions", "window_strides")
        )
        padding = [0] * (2 * rank)
        if "padding" in op.attributes:
            padding = [int(each) for each in ir.DenseIntElementsAttr(op.attributes["padding"])]
        return _Windows(sizes, counts, extents, strides, padding[::2], padding[1::2])

    @property
    def rank(self) -> int:
        """The rank of the operand."""
        return len(self.sizes)

    def number(self, offsets: Sequence[ir.Value]) -> ir.Value:
        """Emit, as i32, the row-major index in a window of the element at ``offsets``.

        ``offsets`` has, for each dimension, the element's offset from the start of the window.
        """
        found = index(0)
        for extent, offset in zip(self.extents, offsets, strict=True):
            found = arith.addi(arith.muli(found, index(extent)), offset)
        return arith.index_cast(_i32(), found)

    def shape(self) -> ir.Value:
        """Emit an empty tensor with the shape of a window.

        As an input of a reduction, it defines the trip counts of the loops over a window; its
        elements are not read.
        """
        return tensor.EmptyOp(list(self.extents), _i32()).result


def _i32() -> ir.Type:
    return ir.IntegerType.get_signless(32)


def _selected(op: ir.Operation, windows: _Windows, keeps: _Compare) -> ir.Value:
    """Emit a reduction that selects an element of each window of ``op``; return the indices.

    The result has, for each window, the row-major index of the selected element in the window. The
    index is negative if the window contains padding only. ``keeps`` emits whether the element that
    is selected so far stays selected when it is compared with another element.
    """
    operand, rank = op.operands[0], windows.rank
    element = ir.RankedTensorType(operand.type).element_type
    zero = arith.constant(element, 0.0 if isinstance(element, ir.FloatType) else 0)
    starts = [splat(start, windows.counts) for start in (zero, arith.constant(_i32(), -1))]
    outer, inner = ([ir.AffineDimExpr.get(first + n) for n in range(rank)] for first in (0, rank))
    positions = [o * s + i for o, s, i in zip(outer, windows.strides, inner, strict=True)]
    maps = [ir.AffineMap.get(2 * rank, 0, each) for each in (positions, inner, outer, outer)]
    inputs = [_padded(operand, windows, zero), windows.shape()]
    loop = linalg.GenericOp(
        [start.type for start in starts], inputs, starts,
        indexing_maps(maps), iterator_types([True] * rank + [False] * rank),
    )  # fmt: skip
    block = loop.regions[0].blocks.append(element, _i32(), element, _i32())
    with ir.InsertionPoint(block):
        current, _, best, number = block.arguments
        counters = [linalg.IndexOp(n).result for n in range(2 * rank)]
        offsets = counters[rank:]
        places = [
            arith.addi(arith.muli(at, index(stride)), offset)
            for at, stride, offset in zip(counters[:rank], windows.strides, offsets, strict=True)
        ]
        is_found = arith.cmpi(arith.CmpIPredicate.sge, number, arith.constant(_i32(), 0))
        is_kept = arith.andi(is_found, keeps(best, current))
        ends = [low + size for low, size in zip(windows.low, windows.sizes, strict=True)]
        is_inside = all_of([_within(*each) for each in zip(places, windows.low, ends, strict=True)])
        is_kept = arith.ori(is_kept, arith.xori(is_inside, arith.constant(is_inside.type, 1)))
        linalg.YieldOp(
            [
                arith.select(is_kept, best, current),
                arith.select(is_kept, number, windows.number(offsets)),
            ]
        )
    return loop.results[1]


def _padded(operand: ir.Value, windows: _Windows, zero: ir.Value) -> ir.Value:
    """Emit and return ``operand``, padded as ``windows`` requires, with ``zero`` in the padding.

    Elements of the padding are never selected, so that their value does not matter.
    """
    if not any((*windows.low, *windows.high)):
        return operand
    kind = ir.RankedTensorType(operand.type)
    sizes = [
        low + size + high
        for low, size, high in zip(windows.low, windows.sizes, windows.high, strict=True)
    ]
    result = ir.RankedTensorType.get(sizes, kind.element_type)
    padded = tensor.PadOp(result, operand, [], [], list(windows.low), list(windows.high))
    with ir.InsertionPoint(padded.regions[0].blocks.append(*[ir.IndexType.get()] * windows.rank)):
        tensor.YieldOp(zero)
    return padded.result


def _scattered(op: ir.Operation, windows: _Windows, selected: ir.Value) -> ir.Value:
    """Emit the result of a ``stablehlo.select_and_scatter``, and return it.

    The source has an element for each window. Each element of the result is the initial value plus
    the source elements of the windows that selected the element. ``selected`` has, for each window,
    the row-major index of the selected element in the window.
    """
    source, rank = op.operands[1], windows.rank
    kind = ir.RankedTensorType(op.results[0].type)
    initial = tensor.extract(op.operands[2], [])
    start = splat(initial, kind.shape)
    outer, inner = ([ir.AffineDimExpr.get(first + n) for n in range(rank)] for first in (0, rank))
    maps = [ir.AffineMap.get(2 * rank, 0, each) for each in (inner, outer)]
    loop = generic([windows.shape()], start, maps, [True] * rank + [False] * rank)
    block = loop.regions[0].blocks.append(_i32(), kind.element_type)
    with ir.InsertionPoint(block):
        counters = [linalg.IndexOp(n).result for n in range(2 * rank)]
        offsets = counters[rank:]
        conditions: list[ir.Value] = []
        places: list[ir.Value] = []
        for dim, (at, offset) in enumerate(zip(counters[:rank], offsets, strict=True)):
            start_of_window = arith.subi(arith.addi(at, index(windows.low[dim])), offset)
            stride = index(windows.strides[dim])
            place = arith.divsi(start_of_window, stride)
            is_start = arith.cmpi(
                arith.CmpIPredicate.eq, arith.muli(place, stride), start_of_window
            )
            is_inside = arith.andi(is_start, _within(place, 0, windows.counts[dim]))
            conditions.append(is_inside)
            # The source is read in any case: clamp its index into bounds.
            places.append(arith.select(is_inside, place, index(0)))
        number = tensor.ExtractOp(selected, places).result
        is_hit = arith.cmpi(arith.CmpIPredicate.eq, number, windows.number(offsets))
        total, value = block.arguments[1], tensor.ExtractOp(source, places).result
        add = arith.addf if isinstance(kind.element_type, ir.FloatType) else arith.addi
        is_hit = all_of([is_hit, *conditions])
        linalg.YieldOp([arith.select(is_hit, add(total, value), total)])
    return loop.results[0]


def _within(value: ir.Value, begin: int, end: int) -> ir.Value:
    """Emit whether an index is at least ``begin`` and less than ``end``."""
    low = arith.cmpi(arith.CmpIPredicate.sge, value, index(begin))
    return arith.andi(low, arith.cmpi(arith.CmpIPredicate.slt, value, index(end)))
