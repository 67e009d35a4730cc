"""Finds the loops that can be tiled together in a group: the operations of a possible rOperator.

Loops of two operations belong to the same class if they index the same dimension of a value that
one operation computes and the other reads. A class can be tiled if its loops are parallel, have
equal trip counts, and include exactly one loop of each operation; operations that are cheap to
recompute need not have a loop in the class. A tile of a consumer then reads only the same tile of
its producer, so that rTasks are independent.

A body may gather from a value that the group computes. A loop that directly indexes a dimension of
that value belongs to the dimension's class. A dimension that is indexed by a computed value cannot
be tiled, because the gather may read any of its elements.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import prod

from rammer_mlir.bindings import ir
from rammer_mlir.passes.ir.boxes import can_slice, loops_in, panel_index
from rammer_mlir.passes.ir.gathers import gathers_of, only_gathers
from rammer_mlir.passes.ir.structured import Structured, is_constant, plain_dim

Loop = tuple[int, int]
"""A loop or a result: an operation's index in the group, and the loop's or result's index."""


@dataclass
class _Classes:
    """A union-find structure that divides loops into classes that are tiled together.

    ``parent`` links a loop to another loop of its class; a loop without another parent represents
    its class. The loops in ``whole`` cannot be tiled.
    """

    parent: dict[Loop, Loop] = field(default_factory=dict[Loop, Loop])
    whole: set[Loop] = field(default_factory=set[Loop])

    def find(self, loop: Loop) -> Loop:
        root = loop
        while self.parent.setdefault(root, root) != root:
            root = self.parent[root]
        while self.parent[loop] != root:
            self.parent[loop], loop = root, self.parent[loop]
        return root

    def union(self, a: Loop, b: Loop) -> None:
        first, second = sorted((self.find(a), self.find(b)))
        self.parent[second] = first


@dataclass(frozen=True)
class TileClass:
    """A loop class: loops of several operations that are tiled together with the same tile size.

    Attributes:
        extent: the common trip count.
        loops: from the index of an operation in the group to the index of its loop in this class.
        in_panels: whether an operand is stored in panels along a loop of the class, so that tiles
            have to consist of whole panels.
    """

    extent: int
    loops: dict[int, int]
    in_panels: bool = False


@dataclass(frozen=True)
class TileSpace:
    """The tileable loops of a group of operations.

    Attributes:
        operations: the group, in def-before-use order.
        classes: the loop classes that can be tiled, outermost first; a loop class has loops of
            several operations that are tiled together.
    """

    operations: tuple[Structured, ...]
    classes: tuple[TileClass, ...]

    @property
    def parallelism(self) -> int:
        """The number of independent rTasks of the finest tiling, with tiles of one iteration."""
        return prod(tile_class.extent for tile_class in self.classes)


def is_free(op: Structured) -> bool:
    """Whether recomputing an operation in each tile costs almost nothing, as with a fill."""
    return all(map(_is_scalar, op.inputs)) and op.is_elementwise


def _is_scalar(value: ir.Value) -> bool:
    return not isinstance(value.type, ir.ShapedType) or value.type.rank == 0


def analyze(
    operations: Sequence[Structured], returned: Sequence[ir.Value] = (), *, gathers: bool = True
) -> TileSpace | None:
    """Return the loops of a group of operations that can be tiled.

    Return None if the operations cannot be tiled together: for example if an operation indexes a
    result of another operation by a sum of loops, as a convolution's window does.

    Args:
        operations: the group, in def-before-use order.
        returned: results that are used outside of the group, whose producers are never recomputed
            per tile.
        gathers: whether bodies may gather from values that the group computes.
    """
    classes = _Classes()
    producers: dict[ir.Value, Loop] = {
        result: (index, number)
        for index, op in enumerate(operations)
        for number, result in enumerate(op.op.operation.results)
    }
    for index, op in enumerate(operations):
        inside = [value for value in op.captures if value in producers]
        if inside and not (gathers and _unify_gathers(index, op, operations, producers, classes)):
            return None
        if not _unify_operands(index, op, operations, producers, classes):
            return None
    costly = [
        i
        for i, op in enumerate(operations)
        if not is_free(op) or any(result in returned for result in op.op.operation.results)
    ]
    return TileSpace(tuple(operations), tuple(_tileable(operations, costly, classes)))


def _unify_operands(
    index: int,
    op: Structured,
    operations: Sequence[Structured],
    producers: dict[ir.Value, Loop],
    classes: _Classes,
) -> bool:
    for map_, operand in zip(op.maps, op.op.operation.operands, strict=True):
        source = producers.get(operand)
        if source is None:
            continue
        producer, result = source
        dims = operations[producer].result_dims(result)
        if dims is None:
            return False
        for expr, dim in zip(map_.results, dims, strict=True):
            loop = plain_dim(expr)
            if loop is not None:
                classes.union((producer, dim), (index, loop))
            elif operations[producer].extents[dim] != 1:
                return False
    return True


def _unify_gathers(
    index: int,
    op: Structured,
    operations: Sequence[Structured],
    producers: dict[ir.Value, Loop],
    classes: _Classes,
) -> bool:
    """Update the loop classes for the values of the group from which the body of ``op`` gathers.

    If a loop of ``op`` directly indexes a dimension of such a value, that loop joins the class of
    the loop that computes the dimension. If the body of ``op`` computes the index, the loop that
    computes the dimension is marked as not tileable. Return False if the body uses a value of the
    group in another way than a gather.

    Args:
        index: index of ``op`` in the group.
        op: the operation whose body gathers.
        operations: the group.
        producers: for each value that the group computes, the indices of its operation and result.
        classes: the loop classes, which are changed.
    """
    found = gathers_of(op)
    if not all(only_gathers(op, found, value) for value in op.captures if value in producers):
        return False
    for gather in found:
        if gather.value not in producers:
            continue
        producer, result = producers[gather.value]
        dims = operations[producer].result_dims(result)
        if dims is None:
            return False
        for dim, loop in zip(dims, gather.loops, strict=True):
            if loop is None:
                classes.whole.add((producer, dim))
            else:
                classes.union((producer, dim), (index, loop))
    return True


def _tileable(
    operations: Sequence[Structured], costly: Sequence[int], classes: _Classes
) -> Iterable[TileClass]:
    if not costly:
        return
    members: dict[Loop, list[Loop]] = {}
    whole = {classes.find(loop) for loop in classes.whole}
    for index, op in enumerate(operations):
        for loop in range(len(op.parallel)):
            members.setdefault(classes.find((index, loop)), []).append((index, loop))
    last = costly[-1]
    order = [classes.find((last, loop)) for loop in range(len(operations[last].parallel))]
    for root in dict.fromkeys(order):
        loops = dict(members[root])
        if root in whole or len(loops) != len(members[root]) or not set(costly) <= loops.keys():
            continue
        if all(_can_cut(operations[i], loop) for i, loop in loops.items()):
            extent = operations[last].extents[loops[last]]
            if all(operations[i].extents[loop] == extent for i, loop in loops.items()):
                panels = any(_walks_panels(operations[i], loop) for i, loop in loops.items())
                yield TileClass(extent, loops, panels)


def _walks_panels(op: Structured, loop: int) -> bool:
    """Whether an operand of the operation is stored in panels along a loop."""
    places = (panel_index(expr) for map_ in op.maps for expr in map_.results)
    return any(place is not None and place.loop == loop for place in places)


def _can_cut(op: Structured, loop: int) -> bool:
    """Whether a parallel loop can be cut into tiles, each of which accesses a box of each operand.

    This does not hold if the loop indexes a constant of the IR, which is kept whole so that it can
    be folded.
    """
    return op.parallel[loop] and all(
        can_slice(expr, {loop}) and not (is_constant(value) and loop in loops_in(expr))
        for map_, value in zip(op.maps, op.op.operation.operands, strict=True)
        for expr in map_.results
    )
