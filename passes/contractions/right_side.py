"""The right side of a product: the operand whose columns are the columns of the result."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from math import prod

from rammer_mlir.bindings import ir
from rammer_mlir.passes.ir.generics import indexing_maps, transposed
from rammer_mlir.passes.ir.structured import Structured, element_bytes, plain_dim


@dataclass(frozen=True)
class RightSide:
    """The right side of a product, which is known at run time only.

    Attributes:
        op: the product, with one reduction loop.
        number: the number of the operand.
        loops: the loop of each dimension of the operand.
        column: the loop over the columns of the result, its last dimension.
        inner: the reduction loop.
    """

    op: Structured
    number: int
    loops: tuple[int, ...]
    column: int
    inner: int

    @property
    def value(self) -> ir.Value:
        """The operand."""
        return self.op.inputs[self.number]

    @property
    def rows(self) -> int:
        """The number of rows of the result for which each element of the operand is read."""
        others = set(self.op.parallel_loops) - set(self.loops)
        return prod(self.op.extents[loop] for loop in others)

    @property
    def num_bytes(self) -> int:
        """The bytes of one matrix of the operand, without batches."""
        size = element_bytes(ir.RankedTensorType(self.value.type).element_type)
        return size * self.op.extents[self.inner] * self.op.extents[self.column]

    @property
    def is_transposed(self) -> bool:
        """Whether the elements of a column are adjacent in memory."""
        return self.loops[-1] == self.inner

    def source_of_transpose(self) -> tuple[ir.Value, tuple[int, ...]] | None:
        """Return the value whose transposing copy the operand is, and the loop of its dimensions.

        None if the operand is no such copy.
        """
        owner = self.value.owner
        if isinstance(owner, ir.Block) or owner.name != "linalg.generic":
            return None
        copy = Structured(owner.opview)
        dims = [[plain_dim(expr) for expr in map_.results] for map_ in copy.maps]
        is_copy = (
            copy.is_elementwise
            and [each.operation.name for each in copy.body] == []
            and len(dims) == 2
            and copy.yielded[0] == copy.arguments[0]
        )
        if not is_copy or any(sorted(map(str, each)) != sorted(map(str, dims[1])) for each in dims):
            return None
        return copy.inputs[0], tuple(self.loops[dims[1].index(dim)] for dim in dims[0])

    def read_directly(self, source: ir.Value, loops: tuple[int, ...]) -> None:
        """Make the product read ``source``, whose dimensions have the loops ``loops``."""
        maps = self.op.maps
        count = maps[self.number].n_dims
        exprs = [ir.AffineExpr.get_dim(loop) for loop in loops]
        maps[self.number] = ir.AffineMap.get(count, 0, exprs)
        operation = self.op.op.operation
        operation.operands[self.number] = source
        operation.attributes["indexing_maps"] = indexing_maps(maps)

    def copy_transposed(self) -> None:
        """Make the product read a transposing copy, in which the elements of a row are adjacent."""
        others = [loop for loop in self.loops if loop not in (self.inner, self.column)]
        loops = (*others, self.inner, self.column)
        with ir.InsertionPoint(self.op.op), self.op.op.operation.location:
            read = [loops.index(loop) for loop in self.loops]
            shape = [self.op.extents[loop] for loop in loops]
            copy = transposed(self.value, shape, read, range(len(loops)))
        self.read_directly(copy, loops)


def find_right_side(op: Structured, weights: Container[ir.Value]) -> RightSide | None:
    """Return the right side of a product; None for another operation or a constant right side.

    ``weights`` are the values known at compile time.
    """
    dims = [[plain_dim(expr) for expr in map_.results] for map_ in op.maps]
    known = [[dim for dim in each if dim is not None] for each in dims]
    is_product = (
        op.is_contraction
        and (len(op.inputs), op.num_outputs, len(op.reduction_loops)) == (2, 1, 1)
        and known == dims
        and all(len(set(each)) == len(each) for each in known)
    )
    if not is_product or not known[-1]:
        return None
    (inner,), column = op.reduction_loops, known[-1][-1]
    holders = [number for number in (0, 1) if column in known[number]]
    if len(holders) != 1 or any(inner not in known[number] for number in (0, 1)):
        return None
    (number,) = holders
    if op.inputs[number] in weights:
        return None
    return RightSide(op, number, tuple(known[number]), column, inner)
