"""Describes how a function is tiled into rTasks: tiles, boxes and costs.

Tiles and boxes are functions of the rTask id.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil, prod

from rammer_mlir.bindings import ir
from rammer_mlir.passes.ir.boxes import Box, Span, operand_box
from rammer_mlir.passes.ir.gathers import gathers_of
from rammer_mlir.passes.ir.structured import (
    Structured,
    captured_values,
    element_bytes,
    is_generic,
    plain_dim,
    shape_of,
)
from rammer_mlir.passes.tiling.choice import (
    CONTIGUOUS,
    CONTIGUOUS_MINIMUM,
    LoopLimit,
    TileCost,
    Tiling,
)
from rammer_mlir.passes.tiling.space import TileSpace, analyze, is_free


@dataclass(frozen=True)
class Touch:
    """The box that an rTask accesses in an argument of its rKernel.

    ``argument`` is the index of the argument: inputs first, then outputs. The rKernel's first
    argument, the rTask id, is not counted.
    """

    argument: int
    box: Box


@dataclass(frozen=True)
class Computation:
    """The function of an rOperator on whole tensors, from which rKernels are made."""

    function: ir.OpView

    @cached_property
    def block(self) -> ir.Block:
        """The only block of the function."""
        return self.function.operation.regions[0].blocks[0]

    @cached_property
    def operations(self) -> list[ir.OpView]:
        """The operations of the function without its terminator."""
        return list(self.block.operations)[:-1]

    @cached_property
    def returned(self) -> list[ir.Value]:
        """The values that the function returns."""
        return list(list(self.block.operations)[-1].operation.operands)

    @cached_property
    def outside(self) -> set[ir.Value]:
        """The values that are visible outside of the function: its arguments and its results."""
        return {*self.block.arguments, *self.returned}

    @cached_property
    def generics(self) -> list[Structured]:
        """The ``linalg.generic`` operations of the function, in order."""
        return [Structured(op) for op in self.operations if is_generic(op)]

    @cached_property
    def reads_again(self) -> bool:
        """Whether a reduction and another operation read the same value, as in a softmax.

        The result is always False if the function has a contraction that reads each element of all
        its inputs several times, such as a matrix product.
        """
        readers: defaultdict[ir.Value, list[Structured]] = defaultdict(list)
        for op in self.generics:
            for value in set(op.inputs):
                readers[value].append(op)
        return not any(_blocks_operands(op) for op in self.generics) and any(
            len(ops) > 1 and any(op.reduction_loops for op in ops) for ops in readers.values()
        )

    @cached_property
    def space(self) -> TileSpace | None:
        """The loops that can be tiled; None if the function cannot be divided into rTasks."""
        names = {op.operation.name for op in self.operations}
        if not names <= {"linalg.generic", "arith.constant", "tensor.empty"}:
            return None
        results = {r for op in self.operations if is_generic(op) for r in op.operation.results}
        if not all(value in results for value in self.returned):
            return None
        return analyze(self.generics, self.returned)


def _blocks_operands(op: Structured) -> bool:
    """Whether an operation is a contraction that reads each element of its inputs several times.

    This holds if no input is indexed by all loops.
    """
    return op.is_contraction and not any(
        len({plain_dim(expr) for expr in map_.results} - {None}) == map_.n_dims
        for map_ in op.maps[: len(op.inputs)]
    )


@dataclass(frozen=True)
class TiledDomain:
    """A tiling of a computation: the tile of each loop as a function of the rTask id.

    Attributes:
        space: the loop classes that can be tiled; the loops of a class are tiled together.
        tiling: the tile size of each loop class.
    """

    space: TileSpace
    tiling: Tiling

    @cached_property
    def parts(self) -> tuple[int, ...]:
        """The number of tiles along each loop class; the loops of a class are tiled together."""
        return tuple(
            -(-tile_class.extent // tile) if tile else 1
            for tile_class, tile in zip(self.space.classes, self.tiling, strict=True)
        )

    @property
    def num_rtasks(self) -> int:
        """The total number of rTasks."""
        return prod(self.parts)

    @cached_property
    def class_spans(self) -> tuple[Span, ...]:
        """For each loop class, the iterations of an rTask as a function of the rTask id ``d0``.

        The loops of a class are tiled together. Tiles of the last class vary fastest with the id.
        """
        spans: list[Span] = []
        stride = 1
        rtask_id = ir.AffineExpr.get_dim(0)
        for tile_class, tile, parts in reversed(
            list(zip(self.space.classes, self.tiling, self.parts, strict=True))
        ):
            index = ir.AffineExpr.get_mod(ir.AffineExpr.get_floor_div(rtask_id, stride), parts)
            # The outermost class needs no mod, because the id is below the number of rTasks.
            if stride * parts == self.num_rtasks:
                index = ir.AffineExpr.get_floor_div(rtask_id, stride)
            offset = index * tile if parts > 1 else ir.AffineExpr.get_constant(0)
            spans.append(Span(offset, tile, tile_class.extent))
            stride *= parts
        return tuple(reversed(spans))

    def filled(self, operation: int) -> Fraction:
        """Return the share of a full-size rTask's iterations that an rTask has on average.

        Iterations are those of the operation with index ``operation``. An rTask at the end of a
        loop has fewer of them if the tile size does not divide the loop's trip count. Only loops
        over panels count; without such loops, the share is 1.
        """
        return prod(
            (
                Fraction(tile_class.extent, tile * parts)
                for tile_class, tile, parts in zip(
                    self.space.classes, self.tiling, self.parts, strict=True
                )
                if tile_class.in_panels and tile and operation in tile_class.loops
            ),
            start=Fraction(1),
        )

    def class_of(self, operation: int, loop: int) -> int | None:
        """Return the index of the loop class that contains a loop.

        ``operation`` is the index of an operation, ``loop`` the index of a loop of this operation.
        The loops of a class are tiled together. Return None if the loop cannot be tiled.
        """
        for index, tile_class in enumerate(self.space.classes):
            if tile_class.loops.get(operation) == loop:
                return index
        return None

    def spans(self, operation: int) -> list[Span]:
        """Return the iterations of an rTask along each loop of an operation.

        ``operation`` is the index of the operation. Offsets are functions of the rTask id.
        An rTask covers all iterations of a loop that is not tiled.
        """
        spans: list[Span] = []
        for loop, extent in enumerate(self.space.operations[operation].extents):
            index = self.class_of(operation, loop)
            if index is None:
                spans.append(Span(ir.AffineExpr.get_constant(0), extent, extent))
            else:
                spans.append(self.class_spans[index])
        return spans


def loop_limits(outside: Container[ir.Value], space: TileSpace) -> list[LoopLimit]:
    """Return the limits on the tile sizes of each loop class.

    The loops of a class are tiled together. There are four kinds of limits:

    - Tiles of a loop over contiguous memory of an argument or result consist of whole vectors.
    - In a contraction, tiles of a loop over an input's blocks of channels have several blocks, with
      at least ``CONTIGUOUS_MINIMUM`` channels together, so that each element that is loaded from
      the other input is multiplied by whole vectors. The loop over the channels of a block is too
      short to be tiled.
    - If tiles of the smallest allowed sizes would need too much memory for temporaries, such as
      several long rows of a softmax, no tiles are limited to whole vectors.
    - If a transform (such as Winograd's) in the same rTask computes an input of a contraction, the
      loop along the rows of this input is not cut, because each tile of that loop would load the
      contraction's other input again.

    Args:
        outside: the arguments and results of the function.
        space: the loop classes.
    """
    contiguous = _contiguous_classes(outside, space)
    limits = [CONTIGUOUS if found else LoopLimit() for found in contiguous]
    for index, op in enumerate(space.operations):
        if not op.is_contraction:
            continue
        for position in range(len(op.inputs)):
            row = _transformed_row(op, position, space, index)
            if row is not None:
                limits[row] = LoopLimit(smallest=space.classes[row].extent)
            for block, points in _blocks(op, position, space, index).items():
                if contiguous[points] and not contiguous[block]:
                    together = -(-CONTIGUOUS_MINIMUM // space.classes[points].extent)
                    limits[block] = LoopLimit(smallest=together)
    least = [min(limit.smallest, c.extent) for limit, c in zip(limits, space.classes, strict=True)]
    if _temporary_bytes(outside, space, least) > _MOST_TEMPORARIES:
        return [LoopLimit() if limit.contiguous else limit for limit in limits]
    return limits


_MOST_TEMPORARIES = 2 << 20
"""Bytes of an rTask's temporaries, of which a thread's stack has room for twice as many."""


def _temporary_bytes(outside: Container[ir.Value], space: TileSpace, tiles: Sequence[int]) -> int:
    """Return the bytes of an rTask's temporaries, from the tile size of each loop class."""
    total = 0
    for index, op in enumerate(space.operations):
        pairs = zip(space.classes, tiles, strict=True)
        size = {each.loops[index]: tile for each, tile in pairs if index in each.loops}
        for number, value in enumerate(op.op.operation.results):
            dims = op.result_dims(number)
            if value not in outside and dims is not None:
                elements = prod(size.get(dim, op.extents[dim]) for dim in dims)
                total += elements * element_bytes(value.type)
    return total


def _transformed_row(op: Structured, position: int, space: TileSpace, index: int) -> int | None:
    """Return the index of the loop class along the rows of a transformed input of ``op``.

    A transform is a multiplication by constants, as in Winograd's filtering. The rows are along the
    last dimension of the input that can be tiled. Return None if no transform computes the input,
    or if none of its dimensions can be tiled.

    Args:
        op: the operation that reads the input.
        position: index of the input among the inputs of ``op``.
        space: the loop classes.
        index: index of ``op`` in ``space``.
    """
    owner = op.inputs[position].owner
    if isinstance(owner, ir.Block) or not is_generic(owner.opview):
        return None
    if not Structured(owner.opview).is_transform:
        return None
    loops = {tile_class.loops.get(index): n for n, tile_class in enumerate(space.classes)}
    dims = [plain_dim(expr) for expr in op.maps[position].results]
    return next((loops[dim] for dim in reversed(dims) if dim is not None and dim in loops), None)


def _blocks(op: Structured, position: int, space: TileSpace, index: int) -> dict[int, int]:
    """Return the loop classes that may iterate over an input's blocks of channels.

    The function does not know whether the input is stored in blocks. In such a layout, the last
    dimension indexes the channels of a block, and an earlier dimension indexes the blocks. The
    result therefore has an entry for each earlier dimension whose loop can be tiled and indexes no
    other input. The key is the index of that loop's class; the value is always the index of the
    class of the last dimension's loop. The result is empty if the last dimension's loop indexes
    another input or cannot be tiled.

    Args:
        op: the operation that reads the input.
        position: index of the input among the inputs of ``op``.
        space: the loop classes.
        index: index of ``op`` in ``space``.
    """
    of_loop = {tile_class.loops.get(index): n for n, tile_class in enumerate(space.classes)}
    dims = [plain_dim(expr) for expr in op.maps[position].results]
    others = [map_ for n, map_ in enumerate(op.maps[: len(op.inputs)]) if n != position]
    shared = {plain_dim(expr) for map_ in others for expr in map_.results}
    if len(dims) < 2 or dims[-1] is None or dims[-1] not in of_loop or dims[-1] in shared:
        return {}
    own = [dim for dim in dims[:-1] if dim is not None and dim in of_loop and dim not in shared]
    return {of_loop[dim]: of_loop[dims[-1]] for dim in own}


def _contiguous_classes(outside: Container[ir.Value], space: TileSpace) -> list[bool]:
    """Return for each loop class whether one of its loops runs over contiguous memory.

    The loops of a class are tiled together. A loop runs over contiguous memory in these cases:

    - It indexes the last dimension of a value in ``outside``: an argument or result of the
      function.
    - It indexes the last dimension of a value from which a body gathers.
    - It runs over panels, because tiles have to consist of whole panels.
    """
    found = [tile_class.in_panels for tile_class in space.classes]
    for index, op in enumerate(space.operations):
        gathered = {gather.loops[-1] for gather in gathers_of(op) if gather.loops}
        for number, tile_class in enumerate(space.classes):
            loop = tile_class.loops.get(index)
            found[number] |= loop is not None and loop in gathered
        values = [*op.inputs, *op.op.operation.results]
        for map_, value in zip(op.maps, values, strict=True):
            if value in outside and len(map_.results) and shape_of(value)[-1] > 1:
                last = map_.results[len(map_.results) - 1]
                for number, tile_class in enumerate(space.classes):
                    loop = tile_class.loops.get(index)
                    found[number] |= isinstance(last, ir.AffineDimExpr) and last.position == loop
    return found


def touches(computation: Computation, domain: TiledDomain) -> tuple[list[Touch], list[Touch]]:
    """Return the boxes that an rTask reads and the boxes that it writes, as functions of its id."""
    inputs = computation.block.arguments
    arguments: dict[ir.Value, int] = {argument: i for i, argument in enumerate(inputs)}
    returned = {value: i + len(arguments) for i, value in enumerate(computation.returned)}
    reads: dict[Touch, None] = {}
    writes: list[Touch] = []
    for index, op in enumerate(domain.space.operations):
        spans = domain.spans(index)
        for map_, value in zip(op.maps, op.op.operation.operands, strict=True):
            if value in arguments:
                box = operand_box(map_, spans, shape_of(value))
                reads[Touch(arguments[value], box)] = None
        for value in captured_values(op.op):
            if value in arguments:
                reads[Touch(arguments[value], whole(value))] = None
        for map_, value in zip(op.maps[len(op.inputs) :], op.op.operation.results, strict=True):
            if value in returned:
                box = operand_box(map_, spans, shape_of(value))
                writes.append(Touch(returned[value], box))
    return list(reads), sorted(writes, key=lambda touch: touch.argument)


def whole(value: ir.Value) -> Box:
    """Return the box that covers the whole tensor."""
    shape = shape_of(value)
    return Box(tuple(ir.AffineExpr.get_constant(0) for _ in shape), tuple(shape))


def tile_cost(computation: Computation, domain: TiledDomain) -> TileCost:
    """Return the number of scalar operations of an rTask, and of bytes that it accesses.

    Both are those of a full-size tile. Exception: if the tile size does not divide the trip count
    of a loop over panels, the number of operations is the average over all rTasks.
    """
    operations = 0
    for index, op in enumerate(domain.space.operations):
        if not is_free(op):
            points = prod(span.size for span in domain.spans(index))
            points = ceil(points * domain.filled(index))
            operations += points * max(1, op.operations // max(op.points, 1))
    reads, writes = touches(computation, domain)
    kinds = [v.type for v in (*computation.block.arguments, *computation.returned)]
    moved = sum(prod(t.box.sizes) * element_bytes(kinds[t.argument]) for t in (*reads, *writes))
    return TileCost(operations, moved)


def whole_cost(computation: Computation) -> TileCost:
    """Return the scalar operations and accessed bytes of an rTask that is the whole computation.

    At least one operation is counted for each 4 bytes accessed, because moving data is work too.
    """
    operations = sum(op.operations for op in computation.generics)
    values = (*computation.block.arguments, *computation.returned)
    moved = sum(prod(shape_of(v)) * element_bytes(v.type) for v in values)
    # Moves count as work too: one operation per element of four bytes.
    return TileCost(max(operations, moved // 4), moved)
