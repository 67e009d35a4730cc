"""Distribution of a ``linalg.generic`` over the threads of a block.

Its parallel iterations are assigned to the threads cyclically, the innermost loop fastest, so that
adjacent lanes touch adjacent elements. With enough iterations, a thread computes a small tile of
results in registers, so that each loaded element is used for several results (``register_tiles``);
with too few, several lanes share a result (``lane_reductions``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rammer_mlir.bindings import arith, ir, memref, scf
from rammer_mlir.lowering.gpu.generic_body import (
    Loads,
    Place,
    emit_body,
    initial_values,
    output_places,
)
from rammer_mlir.lowering.gpu.guards import when
from rammer_mlir.lowering.gpu.iteration_space import Loops, product, unflatten
from rammer_mlir.lowering.gpu.lane_reductions import butterfly, choose_lanes
from rammer_mlir.lowering.gpu.register_tiles import choose_tile, tile_offsets, tiled_sizes
from rammer_mlir.lowering.gpu.threads import Threads
from rammer_mlir.lowering.kernels.affine import Index, add, as_value, constant
from rammer_mlir.lowering.kernels.combiners import Combiner, find_combiners
from rammer_mlir.passes.ir.structured import Structured


def distribute(generic: Structured, threads: Threads) -> None:
    """Emit a ``linalg.generic`` on memrefs as the code of each thread of a block."""
    loops = Loops.of(generic)
    combiners = find_combiners(generic) if loops.reduced else None
    lanes = choose_lanes(combiners, loops.num_points, loops.num_reduced, threads.count)
    if combiners is not None and lanes > 1:
        _share_results(generic, loops, threads, _Lanes(combiners, lanes))
    else:
        _tile_results(generic, loops, threads)


@dataclass(frozen=True)
class _Lanes:
    """The reduction's combiners, and the number of lanes that share a result."""

    combiners: Sequence[Combiner]
    count: int


def _tile_results(generic: Structured, loops: Loops, threads: Threads) -> None:
    """Emit a loop over every ``threads.count``-th tile of results, from the thread's number on."""
    tile = choose_tile(generic, loops, threads.count)
    sizes = tiled_sizes(loops, tile)
    loop = scf.ForOp(threads.number, as_value(product(sizes)), constant(threads.count))
    with ir.InsertionPoint(loop.body):
        first = unflatten(loop.induction_variable, sizes)
        points = [loops.point(indices) for indices in _shifted(first, tile_offsets(loops, tile))]
        outputs = [output_places(generic, point) for point in points]
        initial = [initial_values(generic, places, bool(loops.reduced)) for places in outputs]
        results = _reduce(generic, loops, points, list(loops.reduced), initial)
        for values, places in zip(results, outputs, strict=True):
            for value, (buffer, at) in zip(values, places, strict=True):
                memref.store(value, buffer, at)
        scf.YieldOp([])


def _shifted(first: Sequence[Index], offsets: Sequence[Sequence[int]]) -> list[list[Index]]:
    """Emit the indices of several points; return a list of indices for each point.

    The indices of a point are the sums of ``first`` and an element of ``offsets``, both with a
    number for each loop. Equal sums are emitted only once, so that equal indices are the same
    value.
    """
    sums: dict[tuple[int, int], Index] = {}
    for position, index in enumerate(first):
        for shift in sorted({offset[position] for offset in offsets}):
            sums[position, shift] = add(index, shift)
    return [[sums[place] for place in enumerate(offset)] for offset in offsets]


def _reduce(
    generic: Structured,
    loops: Loops,
    points: Sequence[list[Index | None]],
    reduced: Sequence[int],
    carried: Sequence[Sequence[ir.Value | None]],
) -> list[list[ir.Value]]:
    """Emit the reduction loops ``reduced`` around the body at all points; return the final outputs.

    The accumulators stay in registers. A point has the index of each loop, None for the loops in
    ``reduced``, whose indices are the induction variables. ``carried`` has, for each point, the
    initial value of each output; without reduction loops it is None for an output that the body
    does not read. The result has a list of the output values for each point.
    """
    if not reduced:
        loads = Loads(generic)
        return [
            emit_body(generic, point, values, loads)
            for point, values in zip(points, carried, strict=True)
        ]
    flat = [value for values in carried for value in values]
    bound = as_value(loops.bounds[reduced[0]])
    loop = scf.ForOp(constant(0), bound, constant(1), flat)
    with ir.InsertionPoint(loop.body):
        inner = [list(point) for point in points]
        for point in inner:
            point[reduced[0]] = loop.induction_variable
        accumulators = _grouped(list(loop.inner_iter_args), len(points))
        results = _reduce(generic, loops, inner, reduced[1:], accumulators)
        scf.YieldOp([value for values in results for value in values])
    return _grouped(list(loop.results), len(points))


def _grouped(values: Sequence[ir.Value], count: int) -> list[list[ir.Value]]:
    each = len(values) // count
    return [list(values[n * each : (n + 1) * each]) for n in range(count)]


def _share_results(generic: Structured, loops: Loops, threads: Threads, lanes: _Lanes) -> None:
    """Emit a loop over results; a group of adjacent lanes computes each result jointly.

    All threads execute the same number of iterations, because shuffles need all lanes.
    """
    total, count = constant(loops.num_points or 0), constant(lanes.count)
    group = arith.divui(threads.number, count)
    lane = arith.remui(threads.number, count)
    loop = scf.ForOp(constant(0), total, constant(threads.count // lanes.count))
    with ir.InsertionPoint(loop.body):
        number = arith.addi(loop.induction_variable, group)
        is_result = arith.cmpi(arith.CmpIPredicate.ult, number, total)
        safe = arith.select(is_result, number, constant(0))
        point = loops.point(unflatten(safe, loops.sizes))
        partial = _reduce_every(generic, loops, point, lane, lanes)
        pairs = zip(lanes.combiners, partial, strict=True)
        whole = [butterfly(combiner, value, lanes.count) for combiner, value in pairs]
        is_first = arith.cmpi(arith.CmpIPredicate.eq, lane, constant(0))
        with when(arith.andi(is_result, is_first)):
            _combine_with_outputs(output_places(generic, point), lanes.combiners, whole)
        scf.YieldOp([])


def _combine_with_outputs(
    places: Sequence[Place], combiners: Sequence[Combiner], values: Sequence[ir.Value]
) -> None:
    for combiner, value, (buffer, at) in zip(combiners, values, places, strict=True):
        memref.store(combiner.combine(memref.load(buffer, at), value), buffer, at)


def _reduce_every(
    generic: Structured, loops: Loops, point: list[Index | None], lane: ir.Value, lanes: _Lanes
) -> list[ir.Value]:
    """Emit a lane's share of the reduction at ``point``; return the partial result of each output.

    The lane reduces every ``lanes.count``-th element, from element number ``lane`` on. ``point``
    has the index of each parallel loop, and None for reduction loops.
    """
    begin = [combiner.identity() for combiner in lanes.combiners]
    total = constant(loops.num_reduced or 0)
    loop = scf.ForOp(lane, total, constant(lanes.count), begin)
    with ir.InsertionPoint(loop.body):
        inner = list(point)
        sizes = [loops.bounds[n] for n in loops.reduced]
        indices = unflatten(loop.induction_variable, sizes)
        for n, index in zip(loops.reduced, indices, strict=True):
            inner[n] = index
        scf.YieldOp(emit_body(generic, inner, list(loop.inner_iter_args), Loads(generic)))
    return list(loop.results)
