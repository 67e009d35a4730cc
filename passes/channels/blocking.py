"""Rewrites operations to read and compute values that are stored in blocks of channels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rammer_mlir.bindings import ir, linalg, tensor
from rammer_mlir.passes.channels.layout import Blocked
from rammer_mlir.passes.channels.propagation import Changes, Part, trailing_elements
from rammer_mlir.passes.ir.fills import filling
from rammer_mlir.passes.ir.generics import indexing_maps, iterator_types, transposed
from rammer_mlir.passes.ir.packs import BLOCK, PACK, blocked_type, packed_dim
from rammer_mlir.passes.ir.reshapes import reassociation
from rammer_mlir.passes.ir.structured import Structured, is_generic, plain_dim, shape_of
from rammer_mlir.passes.weights.derived import DerivedWeights


@dataclass(frozen=True)
class SplitLoops:
    """The indices of a ``linalg.generic``'s loops after some of the loops are split into two loops.

    A split loop becomes a block loop over blocks of 16 iterations, and a point loop over the
    iterations (points) of a block. Point loops of parallel loops follow the last parallel loop.
    Point loops of reductions are innermost, so that consecutive iterations read consecutive
    channels of the same pixel.

    Attributes:
        blocks: for each old loop, the index of its new loop; for a split loop, the index of its
            block loop.
        points: for each old loop that is split, the index of its point loop.
        kinds: for each new loop, True if it is parallel, False if it is a reduction.
    """

    blocks: dict[int, int]
    points: dict[int, int]
    kinds: list[bool]

    @staticmethod
    def of(parallel: Sequence[bool], loops: frozenset[int]) -> SplitLoops:
        """Return the indices of the new loops after the old loops ``loops`` are split.

        ``parallel`` has, for each old loop, True if it is parallel.
        """
        last = max((loop for loop, kind in enumerate(parallel) if kind), default=-1)
        order: list[tuple[int, bool]] = []
        for loop in range(len(parallel)):
            order.append((loop, False))
            if loop == last:
                order += [(split, True) for split in sorted(loops) if parallel[split]]
        order += [(split, True) for split in sorted(loops) if not parallel[split]]
        return SplitLoops(
            {loop: number for number, (loop, point) in enumerate(order) if not point},
            {loop: number for number, (loop, point) in enumerate(order) if point},
            [parallel[loop] for loop, _ in order],
        )

    def renumber(self, map_: ir.AffineMap) -> list[ir.AffineExpr]:
        """Return the results of an indexing map, as expressions in the indices of the new loops.

        A split loop is replaced by its block loop. For an operand that is stored in blocks, the
        caller adds the index of the dimension of points, ``point(loop)``.
        """
        dims = [ir.AffineExpr.get_dim(self.blocks[loop]) for loop in range(map_.n_dims)]
        renumbered = ir.AffineMap.get(len(self.kinds), 0, dims)
        exprs = [expr.compose(renumbered) for expr in map_.results]
        # Composed expressions are of the base class; the results of a map have their own classes.
        return list(ir.AffineMap.get(len(self.kinds), 0, exprs).results)

    def point(self, loop: int) -> ir.AffineExpr:
        """Return the loop over the points (iterations) of a block as an affine expression.

        ``loop`` is the index, before the split, of the loop that was split into blocks.
        """
        return ir.AffineExpr.get_dim(self.points[loop])


class ChannelBlocker:
    """Rewrites an MLIR block's operations to use values in blocks of channels.

    Call ``rewrite`` for each operation in order, then ``finish``.
    """

    def __init__(self, layouts: Changes[Blocked], weights: DerivedWeights) -> None:
        self._layouts = layouts
        self._weights = weights
        self._blocked: dict[ir.Value, ir.Value] = {}
        self._done: list[ir.OpView] = []

    def rewrite(self, op: ir.OpView) -> None:
        """Emit the blocked version of an operation, if the operation was chosen to be blocked.

        The new operation is inserted before the old operation, and reads and computes values that
        are stored in blocks of channels. A ``linalg.pack`` or ``linalg.unpack`` that was not chosen
        becomes a copy.
        """
        part = self._layouts.parts.get(op.operation)
        if part is None:
            copy_packed(op)
            return
        with ir.InsertionPoint(op), op.operation.location:
            if packed_dim(op) is not None:
                self._packed(op.operation)
            elif is_generic(op):
                self._generic(Structured(op), part)
            else:
                self._view(op, part)
        self._done.append(op)

    def finish(self) -> None:
        """Copy blocked values to the plain layout for the remaining operations that read them.

        Then erase the old operations, which computed the plain values.
        """
        for op in reversed(self._done):
            # Readers are visited first, so that an old form without uses left is dead.
            if not any(True for value in op.operation.results for _ in value.uses):
                op.operation.erase()
                continue
            with ir.InsertionPoint(op), op.operation.location:
                for value in op.operation.results:
                    if value in self._blocked:
                        plain = unblocked(
                            self._blocked[value], value, self._layouts.values[value].dim
                        )
                        value.replace_all_uses_with(plain)
            op.operation.erase()

    def _packed(self, op: ir.Operation) -> None:
        """Eliminate a ``linalg.pack`` or ``linalg.unpack`` of a value in blocks of channels.

        A pack copies a value into blocks, an unpack copies it back to the plain layout. Users of a
        pack's result read the blocked form of the pack's operand instead. The operand of an unpack
        becomes the blocked form of the unpack's result.
        """
        if op.name == PACK:
            op.results[0].replace_all_uses_with(self._blocked_form(op.operands[0]))
        else:
            self._blocked[op.results[0]] = op.operands[0]

    def _generic(self, op: Structured, part: Part[Blocked]) -> None:
        loops = SplitLoops.of(op.parallel, part.loops)
        operands: list[ir.Value] = []
        maps: list[ir.AffineMap] = []
        for position, (map_, value) in enumerate(
            zip(op.maps, op.op.operation.operands, strict=True)
        ):
            number = position - len(op.inputs)
            if value in self._layouts.values:
                new, exprs = self._blocked_operand(map_, value, loops)
            elif number >= 0:
                new, exprs = self._destination(map_, value, loops, part.results.get(number))
            elif value in self._weights and len(map_.results):
                new, exprs = self._weight(op, map_, value, loops)
            else:
                new, exprs = self._plain_operand(map_, value, loops)
            operands.append(new)
            maps.append(ir.AffineMap.get(len(loops.kinds), 0, exprs))
        copy = op.op.operation.clone()
        for position, value in enumerate(operands):
            copy.operands[position] = value
        copy.operation.attributes["indexing_maps"] = indexing_maps(maps)
        copy.operation.attributes["iterator_types"] = iterator_types(loops.kinds)
        for number, old in enumerate(op.op.operation.results):
            new = copy.operation.results[number]
            new.set_type(operands[len(op.inputs) + number].type)
            if number in part.results:
                self._blocked[old] = new
            else:
                old.replace_all_uses_with(_reshaped(new, shape_of(old)))

    def _blocked_operand(
        self, map_: ir.AffineMap, value: ir.Value, loops: SplitLoops
    ) -> tuple[ir.Value, list[ir.AffineExpr]]:
        loop = plain_dim(map_.results[self._layouts.values[value].dim])
        assert loop is not None
        return self._blocked_form(value), [*loops.renumber(map_), loops.point(loop)]

    def _blocked_form(self, value: ir.Value) -> ir.Value:
        """Return a value in blocks; emit a copy if the value has only the plain layout."""
        if value not in self._blocked:
            self._blocked[value] = blocked(value, self._layouts.values[value].dim)
        return self._blocked[value]

    def _destination(
        self, map_: ir.AffineMap, value: ir.Value, loops: SplitLoops, result: Blocked | None
    ) -> tuple[ir.Value, list[ir.AffineExpr]]:
        """Return a ``linalg.generic``'s initial tensor, and the new results of its indexing map.

        The old initial tensor ``value`` is empty or a fill; an empty tensor or a fill of the new
        shape is emitted. ``map_`` is the old indexing map, ``loops`` describes the new loops. Each
        dimension along a split loop becomes two dimensions, of blocks and of points. ``result`` is
        the blocked layout of the operation's result, in which points are the innermost dimension.
        If ``result`` is None, the dimension of points directly follows the dimension of blocks.
        """
        shape, exprs = _expanded(map_, shape_of(value), loops)
        if result is not None:
            # The point dimension follows its block dimension here, and becomes the innermost.
            exprs.append(exprs.pop(result.dim + 1))
            shape.append(shape.pop(result.dim + 1))
        if shape == shape_of(value):
            return value, exprs
        owner = value.owner
        assert not isinstance(owner, ir.Block)
        empty = tensor.EmptyOp(shape, ir.RankedTensorType(value.type).element_type).result
        if owner.name == "tensor.empty":
            return empty, exprs
        scalar = filling(value)
        assert scalar is not None, "a layout starts at what is fresh"
        return linalg.fill(scalar, outs=[empty]), exprs

    def _weight(
        self, op: Structured, map_: ir.AffineMap, value: ir.Value, loops: SplitLoops
    ) -> tuple[ir.Value, list[ir.AffineExpr]]:
        """Return a weight in the order of the new loops, and the new results of its indexing map.

        The weight is transposed at compile time. Its dimensions get the order of the loops that
        index them: parallel loops, then reductions, then the points of blocks of output channels.
        Output channels that are innermost in ``map_``, the old indexing map, stay innermost. If
        ``map_`` has expressions that are not single loops, the weight is only reshaped.
        """
        shape, exprs = _expanded(map_, shape_of(value), loops)
        points = set(loops.points.values())
        last = exprs[-1]

        def rank(dim: int) -> tuple[bool, bool, int]:
            loop = plain_dim(exprs[dim])
            assert loop is not None
            innermost = loops.kinds[loop] and (loop in points or exprs[dim] == last)
            return innermost, not loops.kinds[loop], loop

        if not op.is_contraction and shape == shape_of(value):
            return value, exprs
        if any(plain_dim(expr) is None for expr in exprs):
            return _reshaped(value, shape), exprs
        order = sorted(range(len(exprs)), key=rank)
        return self._weights.transpose(value, order, shape), [exprs[dim] for dim in order]

    def _plain_operand(
        self, map_: ir.AffineMap, value: ir.Value, loops: SplitLoops
    ) -> tuple[ir.Value, list[ir.AffineExpr]]:
        """Reshape an operand in the plain layout; also return the results of its new indexing map.

        A dimension along a split loop becomes two dimensions, of blocks and of points. ``value`` is
        the operand, ``map_`` its indexing map in the old loops.
        """
        shape = shape_of(value)
        if not shape:
            return value, loops.renumber(map_)
        split, exprs = _expanded(map_, shape, loops)
        return (value if split == shape else _reshaped(value, split)), exprs

    def _view(self, op: ir.OpView, part: Part[Blocked]) -> None:
        operation = op.operation
        old, dim = operation.results[0], part.results[0].dim
        operands = [self._blocked_form(value) for value in operation.operands]
        kind = blocked_type(old.type, dim)
        if operation.name == "tensor.concat":
            new = tensor.ConcatOp(kind, operation.attributes["dim"], operands).result
        elif operation.name.endswith("_shape"):
            new = _reassociated(op, operands[0], kind)
        else:
            new = _with_point_dimension(operation, operands[0], kind)
            source = self._layouts.values[operation.operands[0]].dim
            if operation.name == "tensor.extract_slice":
                _divide(new, source)
            new = new.results[0]
        self._blocked[old] = new


def copy_packed(op: ir.OpView) -> None:
    """Replace a ``linalg.pack`` or ``linalg.unpack`` of blocks of channels by a transposing copy.

    The copy is a ``linalg.generic``. Any other operation is left as it is.
    """
    dim = packed_dim(op)
    if dim is None:
        return
    source, old = op.operation.operands[0], op.operation.results[0]
    with ir.InsertionPoint(op), op.operation.location:
        is_pack = op.operation.name == PACK
        new = blocked(source, dim) if is_pack else unblocked(source, old, dim)
    old.replace_all_uses_with(new)
    op.operation.erase()


def unblocked(blocked: ir.Value, old: ir.Value, dim: int) -> ir.Value:
    """Emit a copy of ``blocked``, a value in blocks along ``dim``, in the plain layout; return it.

    The copy has the shape of ``old``.
    """
    shape = shape_of(old)
    if trailing_elements(old, dim) == 1:
        return _reshaped(blocked, shape)
    rank = len(shape)
    split = [*shape[:dim], shape[dim] // BLOCK, BLOCK, *shape[dim + 1 :]]
    return _reshaped(
        transposed(blocked, split, _points_last(rank, dim), list(range(rank + 1))), shape
    )


def blocked(plain: ir.Value, dim: int) -> ir.Value:
    """Emit a copy of ``plain`` in blocks along ``dim``, ``[.., C/16, .., 16]``; return it."""
    shape = shape_of(plain)
    rank = len(shape)
    split = _reshaped(plain, [*shape[:dim], shape[dim] // BLOCK, BLOCK, *shape[dim + 1 :]])
    result = [*shape[:dim], shape[dim] // BLOCK, *shape[dim + 1 :], BLOCK]
    return transposed(split, result, list(range(rank + 1)), _points_last(rank, dim))


def _points_last(rank: int, dim: int) -> list[int]:
    """Return the permutation that moves a block's points from dimension ``dim + 1`` to the end.

    ``rank`` is the count of dimensions before dimension ``dim`` is split into blocks and points.
    """
    return [*range(dim + 1), *range(dim + 2, rank + 1), dim + 1]


def _expanded(
    map_: ir.AffineMap, shape: Sequence[int], loops: SplitLoops
) -> tuple[list[int], list[ir.AffineExpr]]:
    """Return an operand's shape, and the results of its indexing map, after loops are split.

    A dimension along a split loop becomes two adjacent dimensions, of blocks and of points.
    ``map_`` is the operand's indexing map in the old loops, ``shape`` its old shape.
    """
    sizes: list[int] = []
    exprs: list[ir.AffineExpr] = []
    for old, new, size in zip(map_.results, loops.renumber(map_), shape, strict=True):
        loop = plain_dim(old)
        exprs.append(new)
        if loop is None or loop not in loops.points:
            sizes.append(size)
        else:
            sizes += [size // BLOCK, BLOCK]
            exprs.append(loops.point(loop))
    return sizes, exprs


def _reshaped(value: ir.Value, shape: Sequence[int]) -> ir.Value:
    """Reshape a tensor to ``shape``; return the tensor itself if it already has this shape.

    If neither shape has rank 1, the tensor is first collapsed to one dimension, then expanded.
    """
    element = ir.RankedTensorType(value.type).element_type
    old = shape_of(value)
    if old == list(shape):
        return value
    flat = ir.RankedTensorType.get([_count(shape)], element)
    if len(old) != 1:
        value = tensor.CollapseShapeOp(flat, value, [list(range(len(old)))]).result
    if len(shape) == 1:
        return value
    kind = ir.RankedTensorType.get(list(shape), element)
    return tensor.ExpandShapeOp(kind, value, [list(range(len(shape)))], [], list(shape)).result


def _count(shape: Sequence[int]) -> int:
    total = 1
    for size in shape:
        total *= size
    return total


def _reassociated(op: ir.OpView, value: ir.Value, kind: ir.Type) -> ir.Value:
    """Emit a reshape of a tensor in blocks of channels, and return its result.

    ``op`` is the same reshape in the plain layout. ``value`` is the operand in blocks, ``kind`` the
    type of the result in blocks. The points of a block stay the innermost dimension.
    """
    groups = reassociation(op)
    groups.append([groups[-1][-1] + 1])
    if op.operation.name == "tensor.collapse_shape":
        return tensor.CollapseShapeOp(kind, value, groups).result
    return tensor.ExpandShapeOp(kind, value, groups, [], shape_of_type(kind)).result


def shape_of_type(kind: ir.Type) -> list[int]:
    """Return the shape of ``kind``, which is a ranked tensor type."""
    return list(ir.RankedTensorType(kind).shape)


_WHOLE = {
    "static_low": 0,
    "static_high": 0,
    "static_offsets": 0,
    "static_sizes": BLOCK,
    "static_strides": 1,
}
"""For each attribute of a slice or padding, the number to append for the dimension of points.

Slices and paddings access this dimension, the 16 elements of a block, as a whole.
"""


def _with_point_dimension(operation: ir.Operation, source: ir.Value, kind: ir.Type) -> ir.Operation:
    """Emit a clone of a slice or padding with a new last dimension for a block's points; return it.

    The clone reads ``source`` and has the result type ``kind``.
    """
    copy = operation.clone().operation
    copy.operands[0] = source
    copy.results[0].set_type(kind)
    for name, whole in _WHOLE.items():
        if name in copy.attributes:
            old = list(ir.DenseI64ArrayAttr(copy.attributes[name]))
            copy.attributes[name] = ir.DenseI64ArrayAttr.get([*old, whole])
    for region in copy.regions:
        # The body of a padding has an index argument per dimension.
        region.blocks[0].add_argument(ir.IndexType.get(), operation.location)
    return copy


def _divide(copy: ir.Operation, dim: int) -> None:
    """Divide the offset and the size of the slice ``copy`` along ``dim`` by 16, the block size."""
    for name in ("static_offsets", "static_sizes"):
        numbers = list(ir.DenseI64ArrayAttr(copy.attributes[name]))
        numbers[dim] //= BLOCK
        copy.attributes[name] = ir.DenseI64ArrayAttr.get(numbers)
