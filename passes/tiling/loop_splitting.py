"""Strip-mines the loops of a loop class into loops over blocks and loops within a block.

A loop class is a set of loops of several operations that are tiled together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from rammer_mlir.bindings import ir, tensor
from rammer_mlir.passes.ir.boxes import loops_in
from rammer_mlir.passes.ir.function_type import update_function_type
from rammer_mlir.passes.ir.generics import indexing_maps
from rammer_mlir.passes.ir.structured import Structured, plain_dim
from rammer_mlir.passes.tiling.kernel import Computation
from rammer_mlir.passes.tiling.space import TileClass

_Of = TypeVar("_Of")


@dataclass(frozen=True)
class Panels:
    """The layout of a weight in panels, after one of its dimensions is split.

    The split dimension becomes two dimensions: one counts panels, one counts columns within a
    panel.

    Attributes:
        argument: index of the function's argument that is the weight.
        leading: count of dimensions before the dimension of panels.
        trailing: count of dimensions after the dimension of columns.
    """

    argument: int
    leading: int
    trailing: int = 0

    def arrange(self, dims: Sequence[_Of], blocks: _Of, points: _Of) -> list[_Of]:
        """Return items, one per dimension of the weight, in the order of the panel layout.

        An item is, for example, the size of a dimension.

        Args:
            dims: the items of the dimensions that are not split.
            blocks: the item of the dimension of panels, which follows the leading dimensions.
            points: the item of the dimension of columns, which precedes the trailing dimensions.
        """
        end = len(dims) - self.trailing
        return [*dims[: self.leading], blocks, *dims[self.leading : end], points, *dims[end:]]

    def place(self, rank: int) -> int:
        """Return the index of the weight's dimension that is split into panels and columns.

        ``rank`` is the rank of the weight before the split.
        """
        return rank - 1 - self.trailing


@dataclass(frozen=True)
class LoopSplit:
    """The split dimensions of the arguments and results of a function.

    Keys are the indices of arguments or results, values the indices of their split dimensions.
    Arguments and results without a split dimension are left out.
    """

    arguments: dict[int, int]
    results: dict[int, int]


def split_class(
    computation: Computation, loops: TileClass, width: int, panels: Panels
) -> LoopSplit | None:
    """Split each loop of a class in place into a loop over blocks and a loop within a block.

    Loop ``l`` becomes loop ``l`` over blocks and loop ``l + 1``, with trip count ``width``, within
    a block. A tensor dimension along a split loop becomes two adjacent dimensions; in the weight
    that ``panels`` describes, they have the places of the panel layout. Return the split dimensions
    of arguments and results. If an operation does not allow the split, change nothing and return
    None.

    Args:
        computation: the function whose loops are split.
        loops: the class: loops of several operations that are tiled together.
        width: count of iterations in a block.
        panels: the panel layout of a weight.
    """
    space = computation.space
    assert space is not None
    found: dict[ir.Value, int | None] = {}
    for index, op in enumerate(space.operations):
        if not _collect(op, loops.loops.get(index), found):
            return None
    dims = {value: dim for value, dim in found.items() if dim is not None}
    arguments = list(computation.block.arguments)
    weight = arguments[panels.argument]
    # A body indexes a captured tensor by its present dimensions.
    captured = {value for op in space.operations for value in op.captures}
    if captured & dims.keys() or not all(map(_can_split, dims)) or len(list(weight.uses)) != 1:
        return None
    for index, op in enumerate(space.operations):
        if index in loops.loops:
            _rewrite_generic(op, loops.loops[index], weight, panels)
    for value, dim in dims.items():
        _rewrite_value(value, dim, width, panels if value == weight else None)
    update_function_type(computation.function.operation)
    returned = list(list(computation.block.operations)[-1].operation.operands)
    return LoopSplit(
        {number: dims[value] for number, value in enumerate(arguments) if value in dims},
        {number: dims[value] for number, value in enumerate(returned) if value in dims},
    )


def _collect(op: Structured, loop: int | None, found: dict[ir.Value, int | None]) -> bool:
    """Record in ``found`` the dimension along ``loop`` of each operand and result of ``op``.

    The dimension is None if the loop does not index the value. Return False if the loop cannot be
    split, for one of these reasons:

    - The body uses the index of the loop.
    - The loop indexes several dimensions of a value, or indexes one together with other loops.
    - ``found`` has another dimension of the same value, from another operation.
    """
    if loop is not None and op.uses_index:
        return False
    values = [*op.op.operation.operands, *op.op.operation.results]
    maps = [*op.maps, *op.maps[len(op.inputs) :]]
    for value, map_ in zip(values, maps, strict=True):
        dims = [number for number, expr in enumerate(map_.results) if loop in loops_in(expr)]
        if len(dims) > 1 or (dims and plain_dim(map_.results[dims[0]]) != loop):
            return False
        dim = dims[0] if dims else None
        if found.setdefault(value, dim) != dim:
            return False
    return True


def _can_split(value: ir.Value) -> bool:
    """Whether a dimension of ``value`` can become two dimensions.

    This holds if ``value`` is an argument, an empty tensor, or the result of a ``linalg.generic``.
    """
    owner = value.owner
    return isinstance(owner, ir.Block) or owner.name in ("tensor.empty", "linalg.generic")


def _rewrite_generic(op: Structured, loop: int, weight: ir.Value, panels: Panels) -> None:
    operation = op.op.operation
    maps = [
        _split_map(map_, loop, panels if value == weight else None)
        for map_, value in zip(op.maps, operation.operands, strict=True)
    ]
    kinds = list(ir.ArrayAttr(operation.attributes["iterator_types"]))
    kinds.insert(loop, kinds[loop])
    operation.attributes["indexing_maps"] = indexing_maps(maps)
    operation.attributes["iterator_types"] = ir.ArrayAttr.get(kinds)


def _split_map(map_: ir.AffineMap, loop: int, panels: Panels | None) -> ir.AffineMap:
    behind = [ir.AffineExpr.get_dim(d + (d > loop)) for d in range(map_.n_dims)]
    renumbered = ir.AffineMap.get(map_.n_dims + 1, 0, behind)
    exprs: list[ir.AffineExpr] = []
    for expr in map_.results:
        exprs.append(expr.compose(renumbered))
        if plain_dim(expr) == loop:
            exprs.append(ir.AffineExpr.get_dim(loop + 1))
    if panels is not None:
        place = panels.place(len(map_.results))
        blocks, points = exprs[place : place + 2]
        exprs = panels.arrange([*exprs[:place], *exprs[place + 2 :]], blocks, points)
    return ir.AffineMap.get(map_.n_dims + 1, 0, exprs)


def _rewrite_value(value: ir.Value, dim: int, width: int, panels: Panels | None) -> None:
    ranked = ir.RankedTensorType(value.type)
    shape = list(ranked.shape)
    blocks = shape[dim] // width
    if panels is None:
        shape[dim : dim + 1] = [blocks, width]
    else:
        shape = panels.arrange([*shape[:dim], *shape[dim + 1 :]], blocks, width)
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name != "tensor.empty":
        value.set_type(ir.RankedTensorType.get(shape, ranked.element_type))
        return
    with ir.InsertionPoint(owner), owner.location:
        fresh = tensor.EmptyOp(shape, ranked.element_type)
    value.replace_all_uses_with(fresh.result)
    owner.erase()
