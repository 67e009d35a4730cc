"""Orders the loops of reductions as named operations of linalg do.

StableHLO's lowering orders the loops of a convolution in another way, which passes that recognize
convolutions do not expect.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rammer_mlir.bindings import ir
from rammer_mlir.passes.ir.generics import indexing_maps, iterator_types
from rammer_mlir.passes.ir.structured import Structured, plain_dim
from rammer_mlir.passes.ir.traversal import nested_operations, operations_named


def order_loops(module: ir.Module) -> None:
    """Move the parallel loops of reductions to the front, in the order of the result's dimensions.

    The reduction loops follow, in the order in which the operands' indices use them: for a
    convolution, image channels, then the rows and the columns of the window. Operations with
    several results, or with a result that is indexed by other expressions than loops, remain
    unchanged.
    """
    for op in operations_named(module.operation, "linalg.generic"):
        nest = Structured(op.opview)
        order = _order(nest)
        if order is not None and order != [*range(len(order))]:
            _interchange(nest, order)


def _order(nest: Structured) -> list[int] | None:
    """Return the loops of an operation in their new order; None if it must remain unchanged."""
    if not nest.reduction_loops or nest.num_outputs != 1:
        return None
    *reads, written = nest.maps
    parallel = [plain_dim(expr) for expr in written.results]
    used = dict.fromkeys(n for read in reads for expr in read.results for n in _loops(expr))
    order = [*parallel, *(n for n in used if not nest.parallel[n])]
    found = [n for n in order if n is not None]
    return found if sorted(found) == [*range(len(nest.parallel))] else None


def _loops(expr: ir.AffineExpr) -> Iterator[int]:
    """Yield the loops that an index expression uses, from left to right."""
    if isinstance(expr, ir.AffineDimExpr):
        yield expr.position
    elif isinstance(expr, ir.AffineBinaryExpr):
        yield from _loops(expr.lhs)
        yield from _loops(expr.rhs)


def _interchange(nest: Structured, order: Sequence[int]) -> None:
    """Change the loops of an operation in place; loop ``order[n]`` becomes loop ``n``."""
    places = {old: new for new, old in enumerate(order)}
    rank = len(order)
    moved = ir.AffineMap.get(rank, 0, [ir.AffineDimExpr.get(places[n]) for n in range(rank)])
    maps = [ir.AffineMap.get(rank, 0, [e.compose(moved) for e in m.results]) for m in nest.maps]
    attributes = nest.op.operation.attributes
    attributes["indexing_maps"] = indexing_maps(maps)
    attributes["iterator_types"] = iterator_types(nest.parallel[n] for n in order)
    for inner in nested_operations(nest.op.operation):
        if inner.name == "linalg.index":
            kind = ir.IntegerType.get_signless(64)
            place = places[ir.IntegerAttr(inner.attributes["dim"]).value]
            inner.attributes["dim"] = ir.IntegerAttr.get(kind, place)
