"""Distributes a ``linalg.generic`` over the threads of a block.

The parallel iterations are assigned to the threads cyclically, the innermost loop fastest, so that
adjacent lanes access adjacent elements. With enough iterations, a thread computes a small tile of
results in registers, so that each loaded element is used for several results (``register_tiles``).
With fewer iterations than threads, several lanes may share a result (``lane_reductions``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

from rammer_mlir.bindings import arith, ir, scf
from rammer_mlir.lowering.gpu.adjacent_loads import AdjacentLoads, adjacent_operands
from rammer_mlir.lowering.gpu.contractions.plan import WIDEST
from rammer_mlir.lowering.gpu.generic_body import Loads, Point, emit_body
from rammer_mlir.lowering.gpu.guards import when
from rammer_mlir.lowering.gpu.iteration_space import Loops, product, unflatten
from rammer_mlir.lowering.gpu.lane_reductions import butterfly, choose_lanes
from rammer_mlir.lowering.gpu.register_tiles import choose_tile, tile_offsets, tiled_sizes
from rammer_mlir.lowering.gpu.results import Results, element_values
from rammer_mlir.lowering.gpu.threads import Threads
from rammer_mlir.lowering.kernels.affine import (
    Index,
    add,
    as_value,
    constant,
    floor_divide,
    multiply,
)
from rammer_mlir.lowering.kernels.combiners import Combiner, find_combiners
from rammer_mlir.passes.ir.structured import Structured

_RUNS = (4, 2, 1)
"""Numbers of runs of adjacent results that a thread may compute at a time."""

_MOST_INSTRUCTIONS = 256
"""Most operations of bodies that are emitted one after the other for a thread's loads in flight."""


def distribute(results: Results, threads: Threads) -> None:
    """Emit a ``linalg.generic`` on memrefs as the code of each thread.

    ``results`` has the operation, its initial values and its epilogues.
    """
    generic = results.reduction
    loops = Loops.of(generic)
    combiners = find_combiners(generic) if loops.reduced else None
    lanes = choose_lanes(combiners, loops.num_points, loops.num_reduced, threads.count)
    if combiners is not None and lanes > 1:
        _share_results(results, loops, threads, _Lanes(combiners, lanes))
    elif loops.num_points and not loops.reduced and generic.num_outputs == 1:
        _compute_elements(results, loops, threads)
    else:
        _tile_results(results, loops, threads)


@dataclass(frozen=True)
class _Lanes:
    """A reduction's combiners, and the number of lanes that share a result."""

    combiners: Sequence[Combiner]
    count: int


def _compute_elements(results: Results, loops: Loops, threads: Threads) -> None:
    """Emit a thread's loop over its share of the results of an element-wise operation.

    A run is a few adjacent results, which a thread computes and stores together. Runs are assigned
    to the threads cyclically. An iteration computes several runs, so that the loads of all of them
    are in flight together.
    """
    generic, total = results.reduction, loops.num_points or 0
    width = _run_width(results, loops, threads)
    sizes = list(loops.sizes)
    if width > 1:
        sizes[-1] = floor_divide(sizes[-1], width)
    count = _at_once(generic, width, total, threads.count)
    loop = scf.ForOp(threads.number, constant(total // width), constant(count * threads.count))
    with ir.InsertionPoint(loop.body):
        runs: list[tuple[Point, list[ir.Value]]] = []
        for number in range(count):
            run = as_value(add(loop.induction_variable, number * threads.count))
            first = unflatten(run, sizes)
            points = [loops.point(indices) for indices in _adjacent(first, width)]
            along = results.last_loop if width > 1 else None
            runs.append((points[0], element_values(generic, points, along)))
        for point, values in runs:
            results.store(point, values)
        scf.YieldOp([])


def _run_width(results: Results, loops: Loops, threads: Threads) -> int:
    """Return the number of adjacent results that a thread computes and stores by a single store."""
    if not loops.parallel or results.last_loop != loops.parallel[-1]:
        return 1
    extent = loops.sizes[-1]
    width = results.width(gcd(extent, WIDEST)) if isinstance(extent, int) else 1
    while width > 1 and (loops.num_points or 0) < width * threads.count:
        width //= 2
    return width


def _adjacent(run: Sequence[Index], width: int) -> list[list[Index]]:
    """Emit the indices of the ``width`` adjacent results of a run.

    ``run`` has an index for each loop. The index along the last loop counts runs of ``width``
    results; the indices along all other loops count results.
    """
    if width == 1:
        return [list(run)]
    first = multiply(run[-1], width)
    return [[*run[:-1], add(first, shift)] for shift in range(width)]


def _tile_results(results: Results, loops: Loops, threads: Threads) -> None:
    """Emit a thread's loop over tiles of results, which are assigned to the threads cyclically."""
    generic = results.reduction
    tile = choose_tile(generic, loops, threads.count)
    sizes = tiled_sizes(loops, tile)
    loop = scf.ForOp(threads.number, as_value(product(sizes)), constant(threads.count))
    with ir.InsertionPoint(loop.body):
        first = unflatten(loop.induction_variable, sizes)
        points = [loops.point(indices) for indices in _shifted(first, tile_offsets(loops, tile))]
        initial = [_initial_values(results, point) for point in points]
        found = _reduce(generic, loops, points, list(loops.reduced), initial)
        for values, point in zip(found, points, strict=True):
            _store(results, point, values)
        scf.YieldOp([])


def _initial_values(results: Results, point: Point) -> list[ir.Value | None]:
    """Emit and return each output's value at a point before the operation.

    The value is None if the operation has no reduction loop and does not read the output.
    """
    generic = results.reduction
    return [
        results.initial([point], output=output)[0]
        if generic.reduction_loops or generic.reads_output(output)
        else None
        for output in range(generic.num_outputs)
    ]


def _store(results: Results, point: Point, values: Sequence[ir.Value]) -> None:
    first, *others = values
    results.store(point, results.finish([point], [first]))
    for output, value in enumerate(others, start=1):
        results.store(point, [value], output)


def _shifted(first: Sequence[Index], offsets: Sequence[Sequence[int]]) -> list[list[Index]]:
    """Emit the indices of several points; return a list of indices for each point.

    ``first`` has an index for each loop, and each element of ``offsets`` an offset for each loop.
    The indices of a point are the sums of ``first`` and an element of ``offsets``. Equal sums are
    emitted only once, so that equal indices are the same value.
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

    The accumulators stay in registers.

    Args:
        generic: the operation.
        loops: its loops.
        points: for each point, the index of each loop; None for the loops in ``reduced``, whose
            induction variables are the indices.
        reduced: the reduction loops to emit, outermost first.
        carried: for each point, the initial value of each output. If the operation has no reduction
            loop, the value is None for an output that the body does not read.

    Returns:
        For each point, the list of output values.
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


def _share_results(results: Results, loops: Loops, threads: Threads, lanes: _Lanes) -> None:
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
        partial = _reduce_every(results.reduction, loops, point, lane, lanes)
        pairs = zip(lanes.combiners, partial, strict=True)
        whole = [butterfly(combiner, value, lanes.count) for combiner, value in pairs]
        is_first = arith.cmpi(arith.CmpIPredicate.eq, lane, constant(0))
        with when(arith.andi(is_result, is_first)):
            old = [results.initial([point], output=n)[0] for n in range(len(whole))]
            parts = zip(lanes.combiners, old, whole, strict=True)
            _store(results, point, [combiner.combine(*pair) for combiner, *pair in parts])
        scf.YieldOp([])


def _reduce_every(
    generic: Structured, loops: Loops, point: list[Index | None], lane: ir.Value, lanes: _Lanes
) -> list[ir.Value]:
    """Emit a lane's share of the reduction at ``point``; return the partial result of each output.

    A run is a few elements that are adjacent in memory. The runs are assigned to the lanes
    cyclically, and a lane reduces several runs per iteration, whose loads are in flight together.
    ``point`` has the index of each parallel loop, and None for reduction loops.
    """
    begin = [combiner.identity() for combiner in lanes.combiners]
    total, sizes = loops.num_reduced or 0, [loops.bounds[n] for n in loops.reduced]
    width = _reduced_width(generic, loops, lanes.count)
    count = _at_once(generic, width, total, lanes.count)
    wide = adjacent_operands(generic, loops.reduced[-1], width)
    apart = lanes.count * width
    loop = scf.ForOp(
        as_value(multiply(lane, width)), constant(total), constant(count * apart), begin
    )
    with ir.InsertionPoint(loop.body):
        partial = list(loop.inner_iter_args)
        runs: list[tuple[AdjacentLoads, list[list[Index | None]]]] = []
        for number in range(count):
            indices = unflatten(as_value(add(loop.induction_variable, number * apart)), sizes)
            points: list[list[Index | None]] = []
            for shift in range(width):
                inner = list(point)
                for n, index in zip(loops.reduced, indices, strict=True):
                    inner[n] = index
                inner[loops.reduced[-1]] = add(indices[-1], shift)
                points.append(inner)
            loads = AdjacentLoads(generic, width, wide)
            for operand in wide:
                loads.value(operand, points[0])
            runs.append((loads, points))
        for loads, points in runs:
            for loads.shift, inner in enumerate(points):
                partial = emit_body(generic, inner, partial, loads)
        scf.YieldOp(partial)
    return list(loop.results)


def _reduced_width(generic: Structured, loops: Loops, lanes: int) -> int:
    """Return the count of adjacent elements that a lane loads by one load.

    The elements are adjacent along the last reduction loop.
    """
    last, total = loops.reduced[-1], loops.num_reduced or 0
    extent = loops.bounds[last]
    users = [n for n, used in enumerate(generic.used_loops[: -generic.num_outputs]) if last in used]
    width = gcd(extent, WIDEST) if isinstance(extent, int) else 1
    while width > 1 and not (
        total % (lanes * width) == 0
        and users
        and set(users) <= set(adjacent_operands(generic, last, width))
    ):
        width //= 2
    return width


def _at_once(generic: Structured, width: int, total: int, threads: int) -> int:
    """Return how many runs of ``width`` elements a thread loads before it uses the elements.

    ``threads`` threads share the runs of ``total`` elements. The result is 1 if any larger count
    would leave some threads with fewer runs than others.
    """
    most = max(1, _MOST_INSTRUCTIONS // (width * (1 + len(generic.body))))
    fitting = (n for n in _RUNS if n <= most and total % (width * n * threads) == 0)
    return next(fitting, 1)
