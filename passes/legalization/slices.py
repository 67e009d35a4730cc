"""Lowers slices and gathers to loop nests that compute indices, unless the slices are views."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from rammer_mlir.bindings import arith, ir, tensor
from rammer_mlir.passes.base import OperationError
from rammer_mlir.passes.ir.traversal import constant_integer, operations_named, replace
from rammer_mlir.passes.legalization.elementwise import (
    all_of,
    clamped,
    index,
    per_element,
    to_index,
)

_DYNAMIC = -(1 << 63)
"""Value that marks a dynamic offset, size or stride in a static attribute."""


def lower_slices(module: ir.Module) -> None:
    """Rewrite gathers, slices with dynamic offsets, and strided insertions to loop nests.

    Reshapes and bitcasts of tensors, pads by a value that is not a constant, and pads with negative
    widths are lowered too.
    """
    for name, rewrite in _REWRITES.items():
        for op in operations_named(module.operation, name):
            with ir.InsertionPoint(op), op.location:
                values = rewrite(op)
            if values is not None:
                replace(op, values)


def _integers(op: ir.Operation, name: str) -> list[int]:
    return list(ir.DenseI64ArrayAttr(op.attributes[name]))


class _Slice:
    """The offsets, sizes and strides of a slice operation.

    The dynamic offsets, sizes and strides are the operation's operands from index ``first`` on.

    Attributes:
        sizes: the size of each dimension; ``_DYNAMIC`` if it is dynamic.
        strides: the stride of each dimension; ``_DYNAMIC`` if it is dynamic.
        is_known: whether all sizes and strides are static; offsets may be dynamic.
        is_static: whether all offsets, sizes and strides are static.
        has_steps: whether any stride differs from 1.
    """

    def __init__(self, op: ir.Operation, first: int) -> None:
        self._given = list(op.operands)[first:]
        self.sizes, self.strides = _integers(op, "static_sizes"), _integers(op, "static_strides")
        self._offsets = _integers(op, "static_offsets")
        dynamic = sum(each == _DYNAMIC for each in self._offsets)
        self.is_known = dynamic == len(self._given)  # else sizes or strides are dynamic
        self.is_static = not self._given
        self.has_steps = any(stride != 1 for stride in self.strides)

    def offsets(self) -> list[ir.Value]:
        """Return the offsets as index values; emit constants for static offsets."""
        given = iter(self._given)
        return [next(given) if each == _DYNAMIC else index(each) for each in self._offsets]


def _dropped(full: Sequence[int], reduced: Sequence[int]) -> set[int]:
    """Return the dimensions of size 1 in ``full`` that the rank-reduced shape ``reduced`` omits."""
    rest, dropped = list(reduced), set[int]()
    for number, size in enumerate(full):
        if rest and rest[0] == size:
            rest.pop(0)
        else:
            dropped.add(number)
    return dropped


def _extract_slice(op: ir.Operation) -> list[ir.Value] | None:
    """Emit a loop nest that replaces an ``extract_slice`` with dynamic offsets; return its result.

    An offset with which the slice would leave the tensor is clamped, so that no run reads memory
    outside of the tensor. Return None for a static slice, which is a view, and for dynamic sizes or
    strides.

    Raises:
        OperationError: if an offset is a constant with which the slice leaves the tensor.
    """
    found = _Slice(op, 1)
    kind = ir.RankedTensorType(op.results[0].type)
    if found.is_static or not found.is_known:
        return None
    source = op.operands[0]
    dropped = _dropped(found.sizes, list(kind.shape))
    extents = ir.RankedTensorType(source.type).shape
    ends = zip(extents, found.sizes, found.strides, strict=True)
    last = [extent - 1 - (size - 1) * stride for extent, size, stride in ends]
    offsets = [_within(op, *each) for each in zip(found.offsets(), last, strict=True)]

    def body(_elements: Sequence[ir.Value], indices: Sequence[ir.Value]) -> ir.Value:
        own = iter(indices)
        places = [
            offset if number in dropped else _at(offset, next(own), found.strides[number])
            for number, offset in enumerate(offsets)
        ]
        return tensor.extract(source, places)

    return [per_element(list(kind.shape), kind.element_type, [], body)]


def _within(op: ir.Operation, offset: ir.Value, last: int) -> ir.Value:
    """Emit the offset of the slice ``op`` in a dimension, clamped to the range 0 to ``last``."""
    number = constant_integer(offset)
    if number is None:
        return clamped(offset, last)
    if not 0 <= number <= last:
        raise OperationError(op, f"expected an offset from 0 to {last}, found {number}; correct it")
    return offset


def _at(offset: ir.Value, step: ir.Value, stride: int) -> ir.Value:
    if stride != 1:
        step = arith.muli(step, index(stride))
    return arith.addi(offset, step)


def _insert_slice(op: ir.Operation) -> list[ir.Value] | None:
    """Emit a loop nest that replaces an ``insert_slice``; return its result.

    Each element is selected from the source or the target. Return None for a contiguous static
    slice, and for dynamic sizes or strides.
    """
    found = _Slice(op, 2)
    if not found.is_known or (found.is_static and not found.has_steps):
        return None
    source, target = list(op.operands)[:2]
    kind = ir.RankedTensorType(target.type)
    dropped = _dropped(found.sizes, list(ir.RankedTensorType(source.type).shape))
    offsets = found.offsets()
    if not prod(found.sizes):
        return [target]

    def body(elements: Sequence[ir.Value], indices: Sequence[ir.Value]) -> ir.Value:
        conditions: list[ir.Value] = []
        places: list[ir.Value] = []
        parts = zip(indices, offsets, found.sizes, found.strides, strict=True)
        for number, (place, offset, size, stride) in enumerate(parts):
            distance = arith.subi(place, offset)
            step = arith.divsi(distance, index(stride))
            is_inside = [
                arith.cmpi(arith.CmpIPredicate.sge, distance, index(0)),
                arith.cmpi(arith.CmpIPredicate.slt, step, index(size)),
            ]
            if stride != 1:
                rest = arith.remsi(distance, index(stride))
                is_inside.append(arith.cmpi(arith.CmpIPredicate.eq, rest, index(0)))
            conditions += is_inside
            if number not in dropped:
                inside = all_of(is_inside)
                # The source is read even outside of the slice: clamp its index into bounds.
                places.append(arith.select(inside, step, index(0)))
        return arith.select(all_of(conditions), tensor.extract(source, places), elements[0])

    identity = ir.AffineMap.get_identity(kind.rank)
    return [per_element(list(kind.shape), kind.element_type, [(target, identity)], body)]


def _gather(op: ir.Operation) -> list[ir.Value] | None:
    """Emit a loop nest that replaces a ``tensor.gather``; return its result in a list."""
    source, places = op.operands
    dims = _integers(op, "gather_dims")
    kind = ir.RankedTensorType(op.results[0].type)
    shape = ir.RankedTensorType(source.type).shape
    rank = len(shape)
    if any(not shape[number] for number in dims) and prod(kind.shape):
        raise OperationError(op, "expected a source with elements to gather, found none")
    batch = ir.RankedTensorType(places.type).rank - 1
    is_reduced = kind.rank == batch + rank - len(dims)

    def body(_elements: Sequence[ir.Value], indices: Sequence[ir.Value]) -> ir.Value:
        window = list(indices[batch:])
        coordinates: list[ir.Value] = []
        for number in range(rank):
            own = None if is_reduced and number in dims else window.pop(0)
            if number in dims:
                component = index(dims.index(number))
                place = to_index(tensor.extract(places, [*indices[:batch], component]))
                coordinates.append(clamped(place, shape[number] - 1))
            else:
                assert own is not None
                coordinates.append(own)
        return tensor.extract(source, coordinates)

    return [per_element(list(kind.shape), kind.element_type, [], body)]


def _reshape(op: ir.Operation) -> list[ir.Value] | None:
    """Emit a collapse to one dimension and an expansion that replace a ``tensor.reshape``.

    Return the reshaped tensor as a list of one value; None if a shape is not static.
    """
    source = op.operands[0]
    old, new = ir.RankedTensorType(source.type), ir.RankedTensorType(op.results[0].type)
    if not old.has_static_shape or not new.has_static_shape:
        return None
    flat = ir.RankedTensorType.get([prod(old.shape)], old.element_type)
    value = source
    if old.rank != 1:
        groups = [list(range(old.rank))] if old.rank else []
        if old.rank:
            value = tensor.CollapseShapeOp(flat, value, groups).result
        else:
            value = tensor.ExpandShapeOp(flat, value, [], [], [1]).result
    if new.rank != 1:
        if new.rank:
            groups = [list(range(new.rank))]
            value = tensor.ExpandShapeOp(new, value, groups, [], list(new.shape)).result
        else:
            value = tensor.CollapseShapeOp(new, value, []).result
    return [value]


def _bitcast(op: ir.Operation) -> list[ir.Value] | None:
    kind = ir.RankedTensorType(op.results[0].type)
    identity = ir.AffineMap.get_identity(kind.rank)
    element = kind.element_type
    return [
        per_element(
            list(kind.shape), element, [(op.operands[0], identity)],
            lambda elements, _: arith.bitcast(element, elements[0]),
        )
    ]  # fmt: skip


def _pad(op: ir.Operation) -> list[ir.Value] | None:
    """Replace a ``tensor.pad`` by an insertion into a tensor that is filled with the padding value.

    Return the result as a list of one value. If a width is negative, the elements that the width
    removes are first removed by a slice. Otherwise, return None, and emit nothing, if the padding
    value is a constant or depends on the position, or if a width is dynamic.
    """
    if any(_DYNAMIC < n < 0 for name in _WIDTHS for n in _integers(op, name)):
        return _cropped_pad(op)
    block = op.regions[0].blocks[0]
    inner = list(block.operations)
    value = inner[-1].operation.operands[0]
    kind = ir.RankedTensorType(op.results[0].type)
    owner = value.owner
    is_constant = not isinstance(owner, ir.Block) and owner.name == "arith.constant"
    if len(inner) != 1 or is_constant or len(op.operands) != 1:
        return None
    filled = tensor.SplatOp(kind, value, []).result
    low = _integers(op, "static_low")
    source = op.operands[0]
    sizes = list(ir.RankedTensorType(source.type).shape)
    return [
        tensor.InsertSliceOp(
            source, filled, [], [], [], low, sizes, [1] * len(sizes)
        ).result
    ]  # fmt: skip


def _cropped_pad(op: ir.Operation) -> list[ir.Value]:
    """Emit a slice without the elements that negative widths remove, and a pad of the slice.

    Return the padded slice as a list of one value.
    """
    source, result = (ir.RankedTensorType(v.type) for v in (op.operands[0], op.results[0]))
    kept: list[tuple[int, int]] = []  # offset and size in each dimension
    widths: list[tuple[int, int]] = []
    pairs = zip(*(_integers(op, name) for name in _WIDTHS), strict=True)
    for number, (low, high) in enumerate(pairs):
        size, whole = source.shape[number], result.shape[number]
        first = min(-low, size) if _DYNAMIC < low < 0 else 0
        removed = min(-high, size - first) if _DYNAMIC < high < 0 else 0
        kept.append((first, size - first - removed))
        # A width that removes more elements than there are leaves less for the other one to add.
        added = whole - kept[-1][1]
        widths.append(
            (low, high) if min(low, high) >= 0 or _DYNAMIC in (low, high)
            else (0, max(added, 0)) if low < 0 else (max(added, 0), 0)
        )  # fmt: skip
    offsets, sizes = (list(each) for each in zip(*kept, strict=True))
    kind = ir.RankedTensorType.get(sizes, source.element_type)
    part = tensor.ExtractSliceOp(
        kind, op.operands[0], [], [], [], offsets, sizes, [1] * len(sizes)
    ).result
    pad = op.clone(ip=ir.InsertionPoint.current).operation
    pad.operands[0] = part
    for name, values in zip(_WIDTHS, zip(*widths, strict=True), strict=True):
        pad.attributes[name] = ir.DenseI64ArrayAttr.get(list(values))
    lowered = _pad(pad)
    if lowered is None:
        return [pad.results[0]]
    pad.erase()
    return lowered


_WIDTHS = ("static_low", "static_high")

_REWRITES: dict[str, Callable[[ir.Operation], list[ir.Value] | None]] = {
    "tensor.pad": _pad,
    "tensor.reshape": _reshape,
    "tensor.bitcast": _bitcast,
    "tensor.gather": _gather,
    "tensor.extract_slice": _extract_slice,
    "tensor.insert_slice": _insert_slice,
}
"""The function that rewrites an operation, by the operation's name.

The function returns the values that replace the results, or None if the operation may stay.
"""
