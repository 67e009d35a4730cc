"""Finds the right factor of a matrix product, if the factor is known only at run time."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from math import prod

from rammer_mlir.bindings import ir
from rammer_mlir.passes.ir.boxes import panel_number, point_of_panel
from rammer_mlir.passes.ir.generics import copied, indexing_maps, transposed
from rammer_mlir.passes.ir.structured import Structured, element_bytes, is_generic


@dataclass(frozen=True)
class RightSide:
    """The right factor of a matrix product, if its value is known at run time only.

    Attributes:
        op: the product, with one reduction loop.
        number: the operand index of the right factor, 0 or 1.
        loops: for each dimension of the right factor, the index of the loop that indexes it.
        column: the index of the loop over the last dimension of the result, the columns.
        inner: the index of the reduction loop.
    """

    op: Structured
    number: int
    loops: tuple[int, ...]
    column: int
    inner: int

    @property
    def value(self) -> ir.Value:
        """The operand that is the right factor."""
        return self.op.inputs[self.number]

    @property
    def rows(self) -> int:
        """The number of result rows to which each element of the right factor contributes."""
        others = set(self.op.parallel_loops) - set(self.loops)
        return prod(self.op.extents[loop] for loop in others)

    @property
    def num_bytes(self) -> int:
        """The size in bytes of one matrix of the right factor, which may have batch dimensions."""
        size = element_bytes(ir.RankedTensorType(self.value.type).element_type)
        return size * self.op.extents[self.inner] * self.op.extents[self.column]

    @property
    def is_transposed(self) -> bool:
        """Whether elements of the same column of the right factor are adjacent in memory."""
        return self.loops[-1] == self.inner

    def source_of_transpose(self) -> tuple[ir.Value, tuple[int, ...]] | None:
        """Return the tensor whose transposition is the right factor, and the loops that index it.

        The second result lists, for each dimension of the returned tensor, the index of the
        product's loop that indexes this dimension. Return None if no transposition computes the
        right factor.
        """
        owner = self.value.owner
        if isinstance(owner, ir.Block) or not is_generic(owner.opview):
            return None
        copy = Structured(owner.opview)
        if copy.permutation is None:
            return None
        place = {dim: loop for dim, loop in zip(copy.permutation, self.loops, strict=True)}
        return copy.inputs[0], tuple(place[dim] for dim in range(len(self.loops)))

    def read_directly(self, source: ir.Value, loops: tuple[int, ...]) -> None:
        """Make the product read ``source`` as its right factor.

        ``loops`` lists, for each dimension of ``source``, the index of the product's loop that
        indexes this dimension.
        """
        self._read(source, [ir.AffineExpr.get_dim(loop) for loop in loops])

    def _read(self, source: ir.Value, exprs: Sequence[ir.AffineExpr]) -> None:
        """Make the product read ``source`` as its right factor, at the indices ``exprs``.

        ``exprs`` are expressions of the product's loops, one for each dimension of ``source``.
        """
        maps = list(self.op.maps)
        maps[self.number] = ir.AffineMap.get(maps[self.number].n_dims, 0, list(exprs))
        operation = self.op.op.operation
        operation.operands[self.number] = source
        operation.attributes["indexing_maps"] = indexing_maps(maps)

    def copy_in_panels(
        self, width: int, source: ir.Value | None = None, loops: Sequence[int] | None = None
    ) -> None:
        """Emit a copy of the right factor in panels, and make the product read the copy.

        Args:
            width: the number of columns of a panel, a divisor of the number of columns. A panel
                contains its elements of the first row, then those of the second row, and so on.
            source: the tensor to copy; by default, the right factor.
            loops: for each dimension of ``source``, the index of the product's loop that indexes
                it.
        """
        value = self.value if source is None else source
        read = self.loops if loops is None else tuple(loops)
        others = [loop for loop in self.loops if loop not in (self.inner, self.column)]
        extents = [self.op.extents[loop] for loop in (*others, self.inner)]
        columns = self.op.extents[self.column]
        shape = [*extents[:-1], columns // width, extents[-1], width]
        # The loops of the copy, in the order of its dimensions.
        panel, row, point = (ir.AffineExpr.get_dim(len(others) + n) for n in range(3))
        place = {loop: ir.AffineExpr.get_dim(n) for n, loop in enumerate(others)}
        place |= {self.inner: row, self.column: panel * width + point}
        with ir.InsertionPoint(self.op.op), self.op.op.operation.location:
            copy = copied(value, shape, [place[loop] for loop in read])
        dims = [ir.AffineExpr.get_dim(loop) for loop in (*others, self.inner)]
        column = ir.AffineExpr.get_dim(self.column)
        *batch, inner = dims
        panels = panel_number(column, width), inner, point_of_panel(column, width)
        self._read(copy, [*batch, *panels])

    def copy_transposed(self) -> None:
        """Emit a transposed copy of the right factor, and make the product read the copy.

        In the copy, the elements of a row of the right factor are adjacent in memory.
        """
        others = [loop for loop in self.loops if loop not in (self.inner, self.column)]
        loops = (*others, self.inner, self.column)
        with ir.InsertionPoint(self.op.op), self.op.op.operation.location:
            read = [loops.index(loop) for loop in self.loops]
            shape = [self.op.extents[loop] for loop in loops]
            copy = transposed(self.value, shape, read, range(len(loops)))
        self.read_directly(copy, loops)


def find_right_side(op: Structured, weights: Container[ir.Value]) -> RightSide | None:
    """Return the right factor of the matrix product ``op``, if its value is known at run time only.

    Return None for any other operation, and if the right factor is one of ``weights``, the values
    known at compile time.
    """
    dims = [found for n in range(len(op.maps)) if (found := op.operand_dims(n)) is not None]
    is_product = (
        op.is_contraction
        and (len(op.inputs), op.num_outputs, len(op.reduction_loops)) == (2, 1, 1)
        and len(dims) == len(op.maps)
        and all(len(set(each)) == len(each) for each in dims)
    )
    if not is_product or not dims[-1]:
        return None
    (inner,), column = op.reduction_loops, dims[-1][-1]
    holders = [number for number in (0, 1) if column in dims[number]]
    if len(holders) != 1 or any(inner not in dims[number] for number in (0, 1)):
        return None
    (number,) = holders
    if op.inputs[number] in weights:
        return None
    return RightSide(op, number, tuple(dims[number]), column, inner)
