"""Finds the boxes of a kernel's arguments that a block accesses, as functions of the block's ids.

A box is an over-approximation: non-affine indices and guards make it larger than the accessed
elements, never smaller.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rammer_mlir.bindings import ir
from rammer_mlir.lowering.from_gpu.index_range import NO_FACTORS, Dim3, Range, exactly
from rammer_mlir.lowering.from_gpu.index_ranges import IndexRanges, map_of
from rammer_mlir.lowering.from_gpu.memory_operations import (
    MEMORY_OPERATIONS,
    VIEWS,
    MemoryOperation,
)
from rammer_mlir.lowering.ir_walk import walk
from rammer_mlir.passes.base import OperationError
from rammer_mlir.passes.ir.boxes import Box

_MOST_BOXES = 4
"""Most boxes of an argument that move differently with the block's ids.

A block that accesses more boxes is treated as accessing the whole argument.
"""

_Place = tuple[Range | None, ...]
"""The ranges of an access's indices in an argument; None stands for a whole dimension."""


@dataclass(frozen=True)
class KernelAccesses:
    """The boxes (rectangular regions) of a kernel's arguments that a block of the kernel accesses.

    ``reads`` has the boxes that the block reads, ``updates`` the boxes that it may write. Each
    entry is a pair (argument, box), where the argument is given by its position among the kernel's
    memref arguments, from 0.
    """

    reads: tuple[tuple[int, Box], ...]
    updates: tuple[tuple[int, Box], ...]


@dataclass(frozen=True)
class _View:
    """A memref of a kernel, described as a view of one of the kernel's arguments.

    Attributes:
        argument: position of the argument among the memref arguments.
        offsets: range of the view's offset along each dimension of the argument, in elements along
            this dimension; an unknown range is None. If the dimensions of the view are not those
            of the argument, ``offsets`` itself is None.
        strides: the view's stride along each dimension of the argument, in elements along this
            dimension.
    """

    argument: int
    offsets: tuple[Range | None, ...] | None
    strides: tuple[int, ...] = ()


def find_accesses(
    kernel: ir.Operation, arguments: Mapping[ir.BlockArgument, int], ranges: IndexRanges, grid: Dim3
) -> KernelAccesses:
    """Return the boxes of arguments that a block of a kernel reads and writes.

    Args:
        kernel: a ``gpu.func``.
        arguments: position of each memref argument among the memref arguments.
        ranges: ranges of the kernel's integer values.
        grid: counts of blocks of the launch in x, y and z.

    Raises:
        OperationError: if the argument that an operation accesses cannot be determined.
    """
    shapes = {number: ir.MemRefType(value.type).shape for value, number in arguments.items()}
    views = _Views(arguments, ranges)
    reads: dict[int, list[_Place]] = {number: [] for number in shapes}
    updates: dict[int, list[_Place]] = {number: [] for number in shapes}
    for operation in walk(kernel):
        for effect in MEMORY_OPERATIONS.get(operation.name, ()):
            view = views.of(operation.operands[effect.buffer], operation)
            if view is None:
                continue
            place = _place(operation, effect, view, ranges, len(shapes[view.argument]))
            if effect.reads:
                reads[view.argument].append(place)
            if effect.writes:
                updates[view.argument].append(place)
    return KernelAccesses(tuple(_boxes(reads, shapes, grid)), tuple(_boxes(updates, shapes, grid)))


class _Views:
    def __init__(self, arguments: Mapping[ir.BlockArgument, int], ranges: IndexRanges) -> None:
        self._arguments, self._ranges = arguments, ranges

    def of(self, value: ir.Value, user: ir.Operation) -> _View | None:
        """Return a memref as a view of an argument; None if it is memory local to a block.

        Raises:
            OperationError: if the memref's origin is unknown; the message names ``user``.
        """
        if isinstance(value.owner, ir.Block):
            return self._of_argument(ir.BlockArgument(value), user)
        operation = value.owner.operation
        if operation.name == "memref.alloca":
            return None
        if operation.name not in VIEWS:
            raise OperationError(
                user, f"expected a memref that is a part of an argument of the kernel, found one "
                f"from '{operation.name}'; pass the memref as an argument"
            )  # fmt: skip
        source = self.of(operation.operands[0], user)
        if source is None or source.offsets is None:
            return source
        return self._through(operation, source)

    def _of_argument(self, value: ir.BlockArgument, user: ir.Operation) -> _View | None:
        if value in self._arguments:
            number = self._arguments[value]
            rank = ir.MemRefType(value.type).rank
            return _View(number, (exactly(0),) * rank, (1,) * rank)
        owner = value.owner.owner.operation
        if owner.name == "gpu.func":
            return None  # a block's shared memory, or private memory of a thread
        raise OperationError(
            user, f"expected a memref that is a part of an argument of the kernel, found one that "
            f"'{owner.name}' carries; use the memref itself inside of the loop"
        )  # fmt: skip

    def _through(self, operation: ir.Operation, source: _View) -> _View:
        unknown = _View(source.argument, None)
        if operation.name in (
            "memref.cast", "memref.memory_space_cast", "memref.assume_alignment"
        ):  # fmt: skip
            return source
        if operation.name != "memref.subview" or source.offsets is None:
            return unknown
        rank = len(source.offsets)
        if ir.MemRefType(operation.result.type).rank != rank:
            return unknown
        offsets, strides = self._subview(operation, rank)
        moved = tuple(
            None if a is None or b is None else a + b.scaled(stride)
            for a, b, stride in zip(source.offsets, offsets, source.strides, strict=True)
        )
        if None in strides:
            return unknown
        product = [a * (b or 0) for a, b in zip(source.strides, strides, strict=True)]
        return _View(source.argument, moved, tuple(product))

    def _subview(
        self, operation: ir.Operation, rank: int
    ) -> tuple[list[Range | None], list[int | None]]:
        """Return a subview's offset and stride along each of the ``rank`` dimensions of its source.

        Offsets and strides are in elements of the source along the dimension; None if unknown.
        """
        dynamic = ir.ShapedType.get_dynamic_size()
        attributes = operation.attributes
        segments = ir.DenseI32ArrayAttr(attributes["operandSegmentSizes"])
        given = iter(list(operation.operands)[1 : 1 + segments[1]])
        offsets: list[Range | None] = []
        for offset in ir.DenseI64ArrayAttr(attributes["static_offsets"]):
            is_dynamic = offset == ir.ShapedType.get_dynamic_stride_or_offset()
            offsets.append(self._ranges.of(next(given)) if is_dynamic else exactly(offset))
        given_strides = ir.DenseI64ArrayAttr(attributes["static_strides"])
        strides = [s if s != dynamic else None for s in given_strides]
        assert len(offsets) == len(strides) == rank
        return offsets, strides


def _place(
    operation: ir.Operation, effect: MemoryOperation, view: _View, ranges: IndexRanges, rank: int
) -> _Place:
    if effect.indices is None or view.offsets is None:
        return (None,) * rank
    indices = _indices(operation, effect.indices, ranges)
    place: list[Range | None] = []
    for index, offset, stride in zip(indices, view.offsets, view.strides, strict=True):
        known = None
        if index is not None and offset is not None:
            known = offset + index.scaled(stride)
        place.append(known)
    return tuple(place)


def _indices(operation: ir.Operation, first: int, ranges: IndexRanges) -> list[Range | None]:
    """Return the range of each index of an access; None for an unknown range.

    If the access is to a vector, the ranges cover all elements of the vector. ``first`` is the
    position of the first index among the operands.
    """
    operands = [ranges.of(operand) for operand in list(operation.operands)[first:]]
    if operation.name.startswith("affine."):
        return ranges.mapped(map_of(operation, "map"), list(operation.operands)[first:])
    kind = (operation.results[0] if len(operation.results) else operation.operands[0]).type
    if operation.name.startswith("vector."):
        extents = ir.VectorType(kind).shape
        for number, extent in zip(range(-len(extents), 0), extents, strict=True):
            index = operands[number]
            operands[number] = None if index is None else index + Range(0, extent - 1)
    return operands


def _boxes(
    places: Mapping[int, Sequence[_Place]], shapes: Mapping[int, Sequence[int]], grid: Dim3
) -> Iterator[tuple[int, Box]]:
    for argument, found in places.items():
        for box in _joined(found, shapes[argument], grid):
            yield argument, box


def _joined(places: Sequence[_Place], shape: Sequence[int], grid: Dim3) -> list[Box]:
    """Return boxes that together contain all of ``places``, the accesses to an argument.

    A place is an access, given by the range of each index. Places whose ranges have equal factors
    of the block ids share a box, because they move equally from block to block. If more than
    ``_MOST_BOXES`` boxes would be needed, the result is a single box of the whole argument.
    ``shape`` is the shape of the argument.
    """
    alike: dict[tuple[Dim3 | None, ...], list[_Place]] = {}
    for place in dict.fromkeys(places):
        moves = tuple(None if index is None else index.factors for index in place)
        alike.setdefault(moves, []).append(place)
    if len(alike) > _MOST_BOXES:
        alike = {(): [(None,) * len(shape)]}
    return list(dict.fromkeys(_box(group, shape, grid) for group in alike.values()))


def _box(places: Sequence[_Place], shape: Sequence[int], grid: Dim3) -> Box:
    offsets: list[ir.AffineExpr] = []
    sizes: list[int] = []
    for extent, indices in zip(shape, zip(*places, strict=True), strict=True):
        low, high, factors = 0, extent - 1, NO_FACTORS
        known = [index for index in indices if index is not None]
        if len(known) == len(indices):
            low, high = min(i.low for i in known), max(i.high for i in known)
            factors = known[0].factors
        if factors == NO_FACTORS:
            low, high = min(max(low, 0), extent - 1), max(min(high, extent - 1), 0)
        offsets.append(_moved(low, factors, grid))
        sizes.append(max(high - low + 1, 1))
    return Box(tuple(offsets), tuple(sizes))


def _moved(low: int, factors: Dim3, grid: Dim3) -> ir.AffineExpr:
    """Return ``low`` plus the sum of ``factors[d] * block_id[d]`` over x, y and z.

    The result is an affine expression of the rTask's id. The block ids follow from the rTask's id.
    """
    found = ir.AffineExpr.get_constant(low)
    before = 1
    for factor, size in zip(factors, grid, strict=True):
        if factor and size > 1:
            found = found + _digit(before, size, grid) * factor
        before *= size
    return found


def _digit(before: int, size: int, grid: Dim3) -> ir.AffineExpr:
    """Return one of the block's ids as an affine expression of the rTask's id.

    The rTask's id is the linear index of the block in the grid, in which x varies fastest. ``size``
    is the grid's size in the dimension of the returned id, and ``before`` the product of the grid's
    sizes in the dimensions that vary faster.
    """
    digit: ir.AffineExpr = ir.AffineExpr.get_dim(0)
    if before > 1:
        digit = ir.AffineExpr.get_floor_div(digit, before)
    if before * size < grid[0] * grid[1] * grid[2]:
        digit = ir.AffineExpr.get_mod(digit, size)
    return digit
