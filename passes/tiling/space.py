"""Analysis of the loops of fused operations that can be tiled together independently.

Loops of different operations belong to one class if a value that flows between them is indexed by
both. A class can be tiled if every operation that is not free to recompute has exactly one parallel
loop in it: then the tiles of all operations line up and no tile needs another's results. A body may
gather from a value of the group. Loops that are its indices line up, as an operand's do. The other
dimensions of the value stay whole, because any of their elements may be read.
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
"""A loop or a result: the number of an operation in the group, and the number of its loop."""


@dataclass
class _Classes:
    """A union-find structure over loops; the loops in ``whole`` cannot be tiled."""

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
    """Loops that are tiled together.

    ``loops`` has the loop of each operation by the operation's number, ``extent`` the common trip
    count. If they are ``in_panels``, tiles consist of whole panels.
    """

    extent: int
    loops: dict[int, int]
    in_panels: bool = False


@dataclass(frozen=True)
class TileSpace:
    """The tileable loops of a group of operations.

    Attributes:
        operations: the group, in def-before-use order.
        classes: sets of loops of several operations that are tiled together, outermost first.
    """

    operations: tuple[Structured, ...]
    classes: tuple[TileClass, ...]

    @property
    def parallelism(self) -> int:
        """The number of independent rTasks of the finest tiling."""
        return prod(tile_class.extent for tile_class in self.classes)


def is_free(op: Structured) -> bool:
    """Whether recomputing an operation in each tile costs almost nothing, as for a fill."""
    return all(map(_is_scalar, op.inputs)) and op.is_elementwise


def _is_scalar(value: ir.Value) -> bool:
    return not isinstance(value.type, ir.ShapedType) or value.type.rank == 0


def analyze(
    operations: Sequence[Structured], returned: Sequence[ir.Value] = (), *, gathers: bool = True
) -> TileSpace | None:
    """Return the loops of a group that can be tiled; None if the operations do not line up.

    Args:
        operations: the group, in def-before-use order.
        returned: values that leave the group, whose producers are never recomputed per tile.
        gathers: whether bodies may gather from the group's values.
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
    """Unify the loops of each gather from a value of the group with the loops of the value.

    Both loops index the same dimension of the value. A dimension with a computed index is marked as
    whole. Return False if a value cannot be gathered.

    Args:
        index: the number of the operation ``op`` in the group.
        op: the operation whose body gathers.
        operations: the group.
        producers: the operation and the result that compute each value of the group.
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
    """Whether a tile of the loop accesses a box of each operand.

    A constant in the IR stays whole, so that it can be folded.
    """
    return op.parallel[loop] and all(
        can_slice(expr, {loop}) and not (is_constant(value) and loop in loops_in(expr))
        for map_, value in zip(op.maps, op.op.operation.operands, strict=True)
        for expr in map_.results
    )
