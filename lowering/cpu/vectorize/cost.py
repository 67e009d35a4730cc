"""Cost of micro tiles on a core with two loads and two arithmetic operations per cycle.

The loops of a ``LoopNest`` have numbers. In all functions, ``points`` maps the number of each tiled
loop to the number of its iterations in a micro tile, which is smaller for tiles at an edge.
"""

from __future__ import annotations

import math
from collections import Counter
from itertools import product

from rammer_mlir.lowering.cpu.vectorize.tile import (
    Access,
    LoopNest,
    TilePlan,
    loop_order,
    registers_of,
    vectors_of,
)

_LATENCY = 4.0  # cycles from a fused multiply-add to its result's use by the next
_HORIZONTAL = 8.0  # cycles to reduce one register to a scalar
_TILE_OVERHEAD = 4.0  # cycles for the loops around a micro tile
_LINE_COST = 1.0  # cycles to bring a cache line to the first level, beside the arithmetic
_CONFLICT_COST = 4.0  # cycles to bring a line that was evicted by lines of the same set
_SETS = 64  # sets of the first level: lines 4 KiB apart are in the same set
_WAYS = 8  # lines of a set; 12 on newer processors
_LOAD_COST = 0.1  # cycles of a load even if arithmetic hides it
# lines of an operand that stay in the first level; the mean number is up to twice the exact one
_RESIDENT_LINES = 384
_RESIDENT_ALIGNED = 256  # the same for the exact number of lines: half of 32 KiB
_STRIDED = 1.25  # cycles per lane of a gather or scatter
# the same for fewer than 32 bits, where each lane is extracted for lack of an instruction
_STRIDED_NARROW = 6.0
_WORDS = 16  # elements of 32 bits in a cache line
MAX_STRIDE = 4
"""Largest stride for which lanes are extracted from contiguous loads."""
MIN_TRANSPOSED = 3
"""Fewest adjacent registers for which strided loads and stores use a transpose."""

Tile = tuple[int, dict[int, int]]
"""A number of equal micro tiles, and a dict from each tiled loop to its iterations in a tile."""

Tiles = list[Tile]


def tiles_of(nest: LoopNest, plan: TilePlan) -> Tiles:
    """Return groups of equal micro tiles that cover a nest: full tiles first, then edge tiles.

    A group is a pair: the number of its tiles, and a dict from each tiled loop to its number of
    iterations in a tile.
    """
    tiled = [loop for loop in nest.parallels if plan.points(loop) > 1]
    rest = math.prod(nest.loops[i].trips for i in nest.parallels if i not in tiled)
    parts = [_parts(nest.loops[loop].trips, plan.points(loop)) for loop in tiled]
    return [
        (
            rest * math.prod(count for _, count in choice),
            {loop: size for loop, (size, _) in zip(tiled, choice, strict=True)},
        )
        for choice in product(*parts)
    ]


def full_tiles_of(nest: LoopNest, plan: TilePlan) -> Tile:
    """Return the full micro tiles of a plan, the first group of the result of ``tiles_of``.

    The result is the number of these tiles, and a dict from each tiled loop to its iterations in a
    tile. Along a loop with fewer trips than the tile has points, the tile is cut to those trips.
    """
    count, points = 1, dict[int, int]()
    for loop in nest.parallels:
        trips, size = nest.loops[loop].trips, plan.points(loop)
        if size > 1:
            points[loop] = min(size, trips)
            count *= max(1, trips // size)
        else:
            count *= trips
    return count, points


def _parts(trips: int, tile: int) -> list[tuple[int, int]]:
    """Return pairs (size, count) of the tiles that cut a loop of ``trips`` iterations.

    ``tile`` is the size of full tiles; a smaller remainder comes last. For 10 trips and tiles of 4:
    ``[(4, 2), (2, 1)]``.
    """
    full, rest = divmod(trips, tile)
    return [part for part in ((tile, full), (rest, 1)) if part[0] and part[1]]


def cost_in_cache(nest: LoopNest, plan: TilePlan, tiles: Tiles) -> float:
    """Return the cycles of all micro tiles of ``tiles`` together, without cache misses.

    Every operand is assumed to be in the first-level cache.
    """
    return sum(count * _tile_cost(nest, plan, points) for count, points in tiles)


def _tile_cost(nest: LoopNest, plan: TilePlan, points: dict[int, int]) -> float:
    """Return the cycles of a micro tile with all operands in cache.

    ``points`` maps each tiled loop to its number of iterations in the micro tile.
    """
    instances = math.prod(points.get(loop, factor) for loop, factor in plan.unroll)
    if plan.vector is not None:
        size = points.get(plan.vector, plan.points(plan.vector))
        instances *= -(-size // plan.lanes)
    loads = sum(
        _loads(nest, a, plan, points) * _load_cost(nest, a, plan, points) for a in nest.inputs
    )
    step = max(instances * nest.work / 2, loads / 2) + _LOAD_COST * loads
    ends = sum(_output_cost(nest, a, plan, points) for a in nest.outputs)
    if not nest.reductions:
        return step + ends + _TILE_OVERHEAD
    step = max(step, _LATENCY) + 0.5
    return step * _reduction_steps(nest, plan) + ends + _TILE_OVERHEAD


def _loads(nest: LoopNest, access: Access, plan: TilePlan, points: dict[int, int]) -> float:
    """Return how many registers of an operand a micro tile loads per step of the reduction.

    A register that several unrolled steps share counts as an equal fraction in each of them, so the
    result may not be an integer. ``points`` maps each tiled loop to its number of iterations in the
    micro tile.
    """
    loads = float(vectors_of(access, plan, points))
    for loop, factor in plan.unroll:
        if not access.invariant(loop):
            loads *= _distinct(nest, access, plan, loop, points.get(loop, factor))
    return loads


def _distinct(nest: LoopNest, access: Access, plan: TilePlan, loop: int, count: int) -> float:
    """Return how many elements along an unrolled loop a micro tile loads per reduction step.

    ``loop`` is the unrolled loop, and ``count`` is the number of its points in the micro tile. The
    result is an average over the steps. It is less than ``count`` if the windows of the points
    overlap along a completely unrolled reduction loop, because the steps of that loop then share
    loads: 4 adjacent points with windows of height 3 load 6 rows, not 12, in 3 steps, so that the
    result is 2.
    """
    stride = access.strides[loop]
    for other in plan.full:
        step = access.strides[other]
        if stride is not None and step and stride % step == 0:
            apart, trips = abs(stride // step), nest.loops[other].trips
            if apart < trips:
                return ((count - 1) * apart + trips) / trips
    return count


def needs_gather_or_transpose(stride: object) -> bool:
    """Return whether lanes with this stride are too far apart for contiguous loads and a shuffle.

    ``stride`` is in elements, None if it is not constant. Such lanes need a gather or a transpose.
    """
    return not isinstance(stride, int) or not 0 <= stride <= MAX_STRIDE


def _load_cost(nest: LoopNest, access: Access, plan: TilePlan, points: dict[int, int]) -> float:
    """Return the cost of loading a register of an operand, relative to an aligned load.

    If the lanes of a register are far apart in memory, and enough registers are adjacent, rows are
    loaded and transposed in registers. ``points`` maps each tiled loop to its number of iterations
    in the micro tile.
    """
    if plan.vector is not None and needs_gather_or_transpose(access.strides[plan.vector]):
        rows = _transposed_rows(access, plan, points)
        if rows >= MIN_TRANSPOSED:
            return _transpose_cost(rows, plan)
    return _access_cost(nest, access, plan)


def _transposed_rows(access: Access, plan: TilePlan, points: dict[int, int]) -> int:
    """Return the number of registers that a transpose loads or stores together for an operand.

    These registers are adjacent in memory: the micro tile's points of the first unrolled loop with
    stride 1. The result is 1 if no unrolled loop has stride 1. ``points`` maps each tiled loop to
    its number of iterations in the micro tile.
    """
    return next((points.get(i, n) for i, n in plan.unroll if access.strides[i] == 1), 1)


def _transpose_cost(rows: int, plan: TilePlan) -> float:
    """Return the cycles per register to transpose ``rows`` registers and load or store the rows."""
    rows = min(rows, plan.lanes)
    stages = (rows - 1).bit_length()
    return ((1 << stages) * stages + 1.5 * plan.lanes) / rows


def _access_cost(nest: LoopNest, access: Access, plan: TilePlan) -> float:
    """Return the cost of loading a register without a transpose, relative to an aligned load."""
    stride = 0 if plan.vector is None else access.strides[plan.vector]
    if stride == 0:
        return 1.0
    if stride == 1:
        steps = [access.strides[loop] for loop in nest.reductions if loop != plan.vector]
        aligned = all(step is not None and step % plan.lanes == 0 for step in steps)
        return 1.0 if aligned else 1.5  # loads that cross cache lines mostly count twice
    if stride is not None and 1 < stride <= MAX_STRIDE:
        return 1.5 * stride
    return _strided_cost(nest, plan) if stride is not None else 2.0 * plan.lanes


def _strided_cost(nest: LoopNest, plan: TilePlan) -> float:
    """Return the cycles to load or store a register whose lanes are not contiguous in memory."""
    return (_STRIDED if nest.line <= _WORDS else _STRIDED_NARROW) * plan.lanes


def _output_cost(nest: LoopNest, access: Access, plan: TilePlan, points: dict[int, int]) -> float:
    """Return the cycles to store all results of a micro tile in an output, and to read old values.

    Old values are read if ``nest.reads_init``. ``points`` maps each tiled loop to its number of
    iterations in the micro tile.
    """
    registers = registers_of(access, plan, points)
    cost = _store_cost(nest, access, plan, points)
    if nest.reads_init:
        cost += _access_cost(nest, access, plan)
    if plan.vector is not None and nest.loops[plan.vector].reduction:
        cost += _HORIZONTAL * plan.vectors
    return cost * registers


def _store_cost(nest: LoopNest, access: Access, plan: TilePlan, points: dict[int, int]) -> float:
    """Return the cycles to store a single register of results of an output.

    The store is contiguous, interleaved with those of other registers, a row of a transpose of
    several registers, or a scatter. ``points`` maps each tiled loop to its number of iterations in
    the micro tile.
    """
    stride = 0 if plan.vector is None else access.strides[plan.vector]
    if stride in (0, 1):
        return 1.0
    rows = _transposed_rows(access, plan, points)
    if rows == stride and rows <= MAX_STRIDE:
        return float(rows)  # interleaved with the other registers
    return _transpose_cost(rows, plan) if rows >= MIN_TRANSPOSED else _strided_cost(nest, plan)


def _reduction_steps(nest: LoopNest, plan: TilePlan) -> int:
    """Return the number of steps in which a micro tile iterates over all reduction loops.

    A step along the vector loop processes as many points as the micro tile has along that loop.
    """
    steps = 1
    for loop in nest.reductions:
        trips = nest.loops[loop].trips
        steps *= -(-trips // plan.points(loop)) if loop == plan.vector else trips
    return steps


def miss_cost(nest: LoopNest, plan: TilePlan, tiles: Tiles) -> float:
    """Return the stall cycles for first-level cache misses of all micro tiles of ``tiles``.

    The cycles are summed over micro tiles and inputs. They are 0 for a nest without a reduction.
    """
    if not nest.reductions:
        return 0.0
    return sum(
        count * _cycles_of_lines(nest, access, plan, points)
        for count, points in tiles
        for access in nest.inputs
    )


def _cycles_of_lines(
    nest: LoopNest, access: Access, plan: TilePlan, points: dict[int, int]
) -> float:
    """Return the cycles that cache misses on an operand cost a micro tile.

    These are the cycles to load the operand's cache lines into the first level, several times if
    the lines evict one another. ``points`` maps each tiled loop to its number of iterations in the
    micro tile.
    """
    if conflicts(nest, access, plan, points):
        loads = _loads(nest, access, plan, points) * _reduction_steps(nest, plan)
        return _CONFLICT_COST * max(loads, _lines_of(nest, access, plan, points))
    return _LINE_COST * _lines_loaded(nest, access, plan, points)


def conflicts(nest: LoopNest, access: Access, plan: TilePlan, points: dict[int, int]) -> bool:
    """Return whether the cache lines of an operand that a reduction step reads evict one another.

    For example, if each row of a matrix has 4 KiB, the first lines of all rows are in the same set
    of the first-level cache. If a step reads more rows than the set has ways, a line is evicted
    before later steps read its other elements. ``points`` maps each tiled loop to its number of
    iterations in the micro tile.
    """
    loops = [loop for loop, _ in plan.unroll]
    if plan.vector is not None and not nest.loops[plan.vector].reduction:
        loops.append(plan.vector)
    moves: list[tuple[int, int]] = []
    for loop in loops:
        stride = access.strides[loop]
        if stride is None:
            return False
        if stride:
            moves.append((stride, points.get(loop, plan.points(loop))))
    if math.prod(count for _, count in moves) <= _WAYS:
        return False
    offsets = [0]
    for stride, count in moves:
        offsets = [offset + stride * i for offset in offsets for i in range(count)]
    lines = {offset // nest.line for offset in offsets}
    return max(Counter(line % _SETS for line in lines).values()) > _WAYS


def _lines_loaded(nest: LoopNest, access: Access, plan: TilePlan, points: dict[int, int]) -> float:
    """Return the number of an operand's cache lines that a micro tile loads into the first level.

    It is 0 if these lines fit in that cache and the previous micro tile read the same elements.
    ``points`` maps each tiled loop to its number of iterations in the micro tile.
    """
    # The mean also if the number is known: a stream of parts of rows is slower than one of rows.
    lines = _lines_of(nest, access, plan, points)
    moving = [i for i in loop_order(nest, plan) if nest.loops[i].trips > plan.points(i)]
    reused = not moving or access.invariant(moving[-1])
    if reused and (lines <= _RESIDENT_LINES or _fits_aligned(nest, access, plan, points)):
        return 0.0
    return lines


def _fits_aligned(nest: LoopNest, access: Access, plan: TilePlan, points: dict[int, int]) -> bool:
    """Whether the lines of an operand in aligned rows that a micro tile reads fit in the cache.

    False if the operand is not in aligned rows.
    """
    if not _has_aligned_rows(nest, access, plan):
        return False
    return _lines_of(nest, access, plan, points, in_lines=True) <= _RESIDENT_ALIGNED


def _has_aligned_rows(nest: LoopNest, access: Access, plan: TilePlan) -> bool:
    """Whether an operand has rows of whole cache lines along the lanes, as packed weights have.

    All strides but that of the lanes are 0 or multiples of a line.
    """
    if plan.vector is None or nest.loops[plan.vector].reduction or access.strides[plan.vector] != 1:
        return False
    rest = [s for loop, s in enumerate(access.strides) if loop != plan.vector]
    return all(s is not None and s % nest.line == 0 for s in rest)


def _lines_of(
    nest: LoopNest,
    access: Access,
    plan: TilePlan,
    points: dict[int, int],
    *,
    in_lines: bool = False,
) -> float:
    """Return the number of an operand's cache lines that a micro tile reads in total.

    ``points`` maps each tiled loop to its number of iterations in the micro tile. A contiguous run
    of elements may begin anywhere in a cache line; the result is then the mean number. With
    ``in_lines``, each run lies in as few lines as possible.
    """
    run, pieces = 1, 1
    counts = {i: nest.loops[i].trips for i in nest.reductions}
    counts |= {i: points.get(i, plan.points(i)) for i in nest.parallels}
    moves = [(access.strides[i], count) for i, count in counts.items()]
    for stride, count in sorted(((abs(s), n) for s, n in moves if s and n > 1)):
        if stride <= max(run, nest.line):
            run += stride * (count - 1)
        else:
            pieces *= count
    pieces *= math.prod(count for stride, count in moves if stride is None)
    return pieces * (-(-run // nest.line) if in_lines else (run - 1) / nest.line + 1)
