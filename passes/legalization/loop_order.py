"""Orders the loops of reductions as named operations of linalg do.

StableHLO's lowering gives a convolution loops in an order of its own, which passes that recognize
convolutions do not expect.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rammer_mlir.bindings import ir
from rammer_mlir.passes.ir.traversal import nested_operations, operations_named

_REDUCTION = "#linalg.iterator_type<reduction>"


def order_loops(module: ir.Module) -> None:
    """Move the parallel loops of reductions to the front, in the order of the result's dimensions.

    The reduction loops follow, in the order in which the operands' indices use them: image
    channels, then the rows and the columns of the window. Operations whose result has an index
    other than a loop remain unchanged.
    """
    for op in operations_named(module.operation, "linalg.generic"):
        order = _order(op)
        if order is not None and order != [*range(len(order))]:
            _interchange(op, order)


def _maps(op: ir.Operation) -> list[ir.AffineMap]:
    return [ir.AffineMapAttr(m).value for m in ir.ArrayAttr(op.attributes["indexing_maps"])]


def _order(op: ir.Operation) -> list[int] | None:
    """Return the loops of ``op`` in their new order; None if ``op`` remains unchanged."""
    kinds = [str(kind) for kind in ir.ArrayAttr(op.attributes["iterator_types"])]
    if _REDUCTION not in kinds or len(list(op.results)) != 1:
        return None
    *reads, written = _maps(op)
    results = list(written.results)
    if not all(isinstance(expr, ir.AffineDimExpr) for expr in results):
        return None
    parallel = [n for expr in results for n in _loops(expr)]
    used = dict.fromkeys(n for m in reads for expr in m.results for n in _loops(expr))
    reduced = [n for n in used if kinds[n] == _REDUCTION]
    order = [*parallel, *reduced]
    return order if sorted(order) == [*range(len(kinds))] else None


def _loops(expr: ir.AffineExpr) -> Iterator[int]:
    """Yield the loops that an index expression uses, from left to right."""
    if isinstance(expr, ir.AffineDimExpr):
        yield expr.position
    elif isinstance(expr, ir.AffineBinaryExpr):
        yield from _loops(expr.lhs)
        yield from _loops(expr.rhs)


def _interchange(op: ir.Operation, order: Sequence[int]) -> None:
    """Change the loops of ``op`` in place; loop ``order[n]`` becomes loop ``n``."""
    places = {old: new for new, old in enumerate(order)}
    rank = len(order)
    moved = ir.AffineMap.get(rank, 0, [ir.AffineDimExpr.get(places[n]) for n in range(rank)])
    maps = [ir.AffineMap.get(rank, 0, [e.compose(moved) for e in m.results]) for m in _maps(op)]
    kinds = list(ir.ArrayAttr(op.attributes["iterator_types"]))
    op.attributes["indexing_maps"] = ir.ArrayAttr.get([ir.AffineMapAttr.get(m) for m in maps])
    op.attributes["iterator_types"] = ir.ArrayAttr.get([kinds[n] for n in order])
    for inner in nested_operations(op):
        if inner.name == "linalg.index":
            kind = ir.IntegerType.get_signless(64)
            place = places[ir.IntegerAttr(inner.attributes["dim"]).value]
            inner.attributes["dim"] = ir.IntegerAttr.get(kind, place)
