"""Computes an rTask's operations and bytes from tile sizes, without affine expressions.

``kernel.tile_cost`` computes the same costs from the boxes of an rKernel, which are expressions of
the rTask's id. This module is faster: fusion needs the costs of thousands of candidate rOperators,
for which no rKernels exist yet.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

from rammer_mlir.bindings import ir
from rammer_mlir.passes.ir.boxes import linear_form
from rammer_mlir.passes.ir.structured import element_bytes, shape_of
from rammer_mlir.passes.tiling.choice import TileCost, Tiling
from rammer_mlir.passes.tiling.space import TileSpace, is_free

_Part = tuple[int | None, int, int]
"""A term of an index expression: a loop's class, its trip count and its coefficient.

The class is the index of the set of loops that are tiled together, None if the loop is not tiled.
"""
_BoxKey = tuple[tuple[tuple[tuple[int, int], ...], int], ...]


@dataclass(frozen=True)
class _Index:
    """The index expression of a tensor's dimension: the sum of its terms, plus a constant.

    Attributes:
        extent: size of the dimension, in elements.
        parts: the terms, one for each loop in the expression; None if each rTask accesses the whole
            dimension.
        constant: the constant that is added to the terms.
    """

    extent: int
    parts: tuple[_Part, ...] | None = None
    constant: int = 0

    def box(self, tiling: Tiling, cut: Sequence[bool]) -> tuple[tuple[tuple[int, int], ...], int]:
        """Return which loops move an rTask's box along this dimension, and the size of the box.

        For each loop that moves the box, there is a pair: the index of the loop's class, and the
        distance in elements by which an iteration of the loop moves the box. The loops of a class
        are tiled together. The size is in elements.

        Args:
            tiling: the tile size of each loop class.
            cut: for each loop class, whether it has several tiles.
        """
        parts = self.parts
        if parts is None or all(k is None or tiling[k] == extent for k, extent, _ in parts):
            return (), self.extent
        size = self.constant + 1
        for number, extent, factor in parts:
            size += factor * ((extent if number is None else tiling[number]) - 1)
        moves = tuple((k, factor) for k, _, factor in parts if k is not None and cut[k])
        return moves, min(size, self.extent)


@dataclass(frozen=True)
class _Access:
    value: ir.Value
    indices: tuple[_Index, ...]
    element_bytes: int
    is_written: bool


@dataclass(frozen=True)
class SpaceCost:
    """The cost of an rTask as a function of the tile sizes, for tensors that are not in panels.

    Attributes:
        space: the operations and their loop classes, sets of loops that are tiled together.
        inputs: the tensors that the operations read from memory.
        returned: the results that the operations write to memory.
    """

    space: TileSpace
    inputs: Collection[ir.Value]
    returned: Collection[ir.Value]

    def of(self, tiling: Tiling) -> TileCost:
        """Return the scalar operations of an rTask of full size, and the bytes that it accesses."""
        operations = 0
        for loops, factor in self._work:
            operations += factor * prod(n if k is None else tiling[k] for k, n in loops)
        classes = zip(self.space.classes, tiling, strict=True)
        cut = [tile < tile_class.extent for tile_class, tile in classes]
        moved: dict[tuple[ir.Value, bool, _BoxKey], int] = {}
        for access in self._accesses:
            box = tuple(index.box(tiling, cut) for index in access.indices)
            size = access.element_bytes * prod(size for _, size in box)
            moved[access.value, access.is_written, box] = size
        return TileCost(operations, sum(moved.values()))

    @cached_property
    def _work(self) -> list[tuple[list[tuple[int | None, int]], int]]:
        return [
            (self._loops(number), max(1, op.operations // max(op.points, 1)))
            for number, op in enumerate(self.space.operations)
            if not is_free(op)
        ]

    def _loops(self, number: int) -> list[tuple[int | None, int]]:
        """Return a pair for each loop of an operation: index of the loop's class, and trip count.

        ``number`` is the index of the operation. A class is a set of loops that are tiled together.
        The index is None for a loop that cannot be tiled.
        """
        of_loop = {
            c.loops[number]: k for k, c in enumerate(self.space.classes) if number in c.loops
        }
        extents = self.space.operations[number].extents
        return [(of_loop.get(loop), extent) for loop, extent in enumerate(extents)]

    @cached_property
    def _accesses(self) -> list[_Access]:
        return [
            access
            for number in range(len(self.space.operations))
            for access in self._accesses_of(number)
        ]

    def _accesses_of(self, number: int) -> Iterator[_Access]:
        op, loops = self.space.operations[number], self._loops(number)
        for map_, value in zip(op.maps, op.operands, strict=True):
            if value in self.inputs:
                yield self._access(map_, value, loops, is_written=False)
        for value in op.captures:
            if value in self.inputs:
                whole = tuple(_Index(size) for size in shape_of(value))
                yield _Access(value, whole, element_bytes(value.type), is_written=False)
        for map_, value in zip(op.output_maps, op.op.operation.results, strict=True):
            if value in self.returned:
                yield self._access(map_, value, loops, is_written=True)

    def _access(
        self,
        map_: ir.AffineMap,
        value: ir.Value,
        loops: Sequence[tuple[int | None, int]],
        *,
        is_written: bool,
    ) -> _Access:
        shape = shape_of(value)
        indices = (_index(expr, n, loops) for expr, n in zip(map_.results, shape, strict=True))
        return _Access(value, tuple(indices), element_bytes(value.type), is_written)


def _index(expr: ir.AffineExpr, extent: int, loops: Sequence[tuple[int | None, int]]) -> _Index:
    form = linear_form(expr)
    if form is None:
        return _Index(extent)
    terms = sorted(form.coefficients.items())
    return _Index(extent, tuple((*loops[loop], factor) for loop, factor in terms), form.constant)
