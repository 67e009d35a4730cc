"""Choose how a loop nest is laid out in vector registers: plain Python, no IR.

A *micro tile* is what one pass over the reduction loops computes: ``vectors`` registers of
``lanes`` elements along the vector loop, times the unroll factors of other parallel loops. Each
point of it is an accumulator in a register. The plan is the cheapest of a small set of micro tiles
under a model of a core with two loads and two arithmetic operations per cycle.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

_LATENCY = 4.0  # cycles from one fused multiply-add to the next one that needs its result
_FACTORS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28)
_MOST_UNROLLED = 3  # parallel loops that are unrolled together, beside the vector loop
_VECTORS = (1, 2, 3, 4, 6, 8)
_HORIZONTAL = 8.0  # cycles to reduce one register to a scalar
_TILE_OVERHEAD = 4.0  # cycles for the loops around one micro tile
_LINE_COST = 1.0  # cycles to bring a cache line to the first level, beside the arithmetic
_LOAD_COST = 0.1  # cycles that a load costs even if it fits beside the arithmetic
_RESIDENT_LINES = 384  # lines of an operand that stay in the first level: half of 48 KiB
MAX_STRIDE = 4
"""Up to this stride, lanes are picked out of contiguous loads."""
MIN_TRANSPOSED = 3
"""From this many neighbouring registers on, a strided store goes through a transpose."""
_SHARED_REGISTERS = 1 / 3  # share of the registers for what unrolled reduction steps share
_UNROLLED_OPERATIONS = 196  # size limit of a reduction loop's unrolled body


@dataclass(frozen=True)
class Loop:
    """A loop: its trip count, or an estimate of it where only the run knows it."""

    trips: int
    static: bool
    reduction: bool


@dataclass(frozen=True)
class Access:
    """How an operand moves, in elements, when a loop advances by one (None: not constant).

    ``strides`` has one entry per loop. A scalar operand has only zeros.
    """

    strides: tuple[int | None, ...]

    def invariant(self, loop: int) -> bool:
        """Tell whether the operand stays in place along ``loop``."""
        return self.strides[loop] == 0


@dataclass(frozen=True)
class LoopNest:
    """What the planner has to know of one ``linalg.generic``.

    ``work`` is the number of arithmetic operations per point; ``reads_init`` tells whether the
    outputs' old values are needed; ``combinable`` whether the body is a recognised combiner, so
    that lanes may accumulate separately; ``line`` how many elements a cache line holds.
    """

    loops: tuple[Loop, ...]
    inputs: tuple[Access, ...]
    outputs: tuple[Access, ...]
    lanes: int
    registers: int
    work: float = 1.0
    reads_init: bool = False
    vectorizable: bool = True
    combinable: bool = False
    line: int = 16

    @property
    def reductions(self) -> list[int]:
        """The reduction loops, outermost first."""
        return [i for i, loop in enumerate(self.loops) if loop.reduction]

    @property
    def parallels(self) -> list[int]:
        """The parallel loops, outermost first."""
        return [i for i, loop in enumerate(self.loops) if not loop.reduction]


@dataclass(frozen=True)
class TilePlan:
    """The micro tile of a loop nest.

    ``vector`` is the loop along the lanes (None: scalar code), ``unroll`` maps other parallel
    loops to their factors, ``order`` lists the parallel loops around the micro tile, outermost
    first, and ``full`` the reduction loops that are unrolled completely.
    """

    vector: int | None
    lanes: int
    vectors: int = 1
    unroll: tuple[tuple[int, int], ...] = ()
    order: tuple[int, ...] = ()
    full: tuple[int, ...] = ()

    def points(self, loop: int) -> int:
        """Return how many points of ``loop`` a micro tile covers."""
        if loop == self.vector:
            return self.lanes * self.vectors
        return dict(self.unroll).get(loop, 1)

    @property
    def accumulators(self) -> int:
        """The number of registers that the results of one output need."""
        return self.vectors * math.prod(factor for _, factor in self.unroll)


def plan_tile(nest: LoopNest) -> TilePlan:
    """Return the cheapest micro tile for ``nest``."""
    best = _cheapest(nest, list(_candidates(nest)))
    return replace(best, unroll=_instance_order(nest, best), order=_loop_order(nest, best))


def _cheapest(nest: LoopNest, plans: Sequence[TilePlan]) -> TilePlan:
    """Return the first of the cheapest plans.

    Most plans cost more without their cache misses than the best one with them, and misses take
    long to count.
    """
    tiles = [_tiles(nest, plan) for plan in plans]
    bounds = [_cost_in_cache(nest, *pair) for pair in zip(plans, tiles, strict=True)]
    best = math.inf, 0
    for number in sorted(range(len(plans)), key=bounds.__getitem__):
        if bounds[number] > best[0]:
            break
        misses = _miss_cost(nest, plans[number], tiles[number])
        best = min(best, (bounds[number] + misses, number))
    return plans[best[1]]


def _instance_order(nest: LoopNest, plan: TilePlan) -> tuple[tuple[int, int], ...]:
    """Order the unrolled loops, outermost first, for code that needs few registers.

    Along the inner ones moves the operand that is loaded first and stays; the others' registers
    then serve their few neighbours and are free again.
    """
    if not nest.inputs:
        return plan.unroll
    held = min(nest.inputs, key=lambda access: _registers_of(access, plan, {}))
    return tuple(sorted(plan.unroll, key=lambda pair: not held.invariant(pair[0])))


def plan_cost(nest: LoopNest, plan: TilePlan) -> float:
    """Return the modelled cycles of the whole nest under ``plan``."""
    tiles = _tiles(nest, plan)
    return _cost_in_cache(nest, plan, tiles) + _miss_cost(nest, plan, tiles)


_Tiles = list[tuple[int, dict[int, int]]]
"""Micro tiles of each size: how many there are, and their points along the loops that are cut."""


def _tiles(nest: LoopNest, plan: TilePlan) -> _Tiles:
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


def _cost_in_cache(nest: LoopNest, plan: TilePlan, tiles: _Tiles) -> float:
    """Return the cycles if all operands were in the first level of cache."""
    return sum(count * _tile_cost(nest, plan, points) for count, points in tiles)


def _miss_cost(nest: LoopNest, plan: TilePlan, tiles: _Tiles) -> float:
    """Return the cycles that wait for the first level of cache."""
    if not nest.reductions:
        return 0.0
    return _LINE_COST * sum(
        count * _lines_loaded(nest, access, plan, points)
        for count, points in tiles
        for access in nest.inputs
    )


def _candidates(nest: LoopNest) -> Iterator[TilePlan]:
    yield _with_full(nest, TilePlan(None, 1))
    if not nest.vectorizable:
        return
    for vector, loop in enumerate(nest.loops):
        if (loop.reduction and not nest.combinable) or loop.trips == 1:
            continue
        needed = -(-loop.trips // nest.lanes)
        for vectors in sorted({min(v, needed) for v in _VECTORS}):
            plan = _with_full(nest, TilePlan(vector, nest.lanes, vectors))
            yield plan
            others = [loop for loop in nest.parallels if loop != vector]
            yield from _all_unrolled(nest, plan, others, _MOST_UNROLLED)


def _all_unrolled(
    nest: LoopNest, plan: TilePlan, loops: Sequence[int], most: int
) -> Iterator[TilePlan]:
    """Unroll any one of ``loops``, and up to ``most`` of them together."""
    for number, loop in enumerate(loops if most else ()):
        for wider in _unrolled(nest, plan, loop):
            yield wider
            yield from _all_unrolled(nest, wider, loops[number + 1 :], most - 1)


def _unrolled(nest: LoopNest, plan: TilePlan, loop: int) -> Iterator[TilePlan]:
    trips = nest.loops[loop].trips
    for factor in sorted({min(f, trips) for f in _FACTORS}):
        wider = replace(plan, unroll=(*plan.unroll, (loop, factor)))
        if factor > 1 and _registers(nest, wider) <= nest.registers:
            yield _with_full(nest, wider)


def _registers(nest: LoopNest, plan: TilePlan) -> int:
    """Count the accumulators and the operands that are live in one step of the reduction.

    Of the operands, the one that varies along the fewest points is loaded first and stays.
    """
    results = plan.accumulators * max(1, len(nest.outputs))
    operands = [_registers_of(access, plan, {}) for access in nest.inputs]
    return results + (min(operands) if nest.reductions and operands else 0)


def _registers_of(access: Access, plan: TilePlan, points: dict[int, int]) -> int:
    """Count the registers of an operand in one step of a micro tile."""
    count = math.prod(
        points.get(loop, factor) for loop, factor in plan.unroll if not access.invariant(loop)
    )
    return count * _vectors_of(access, plan, points)


def _vectors_of(access: Access, plan: TilePlan, points: dict[int, int]) -> int:
    """Count the registers of an operand along the lanes."""
    if plan.vector is None or access.invariant(plan.vector):
        return 1
    return -(-points.get(plan.vector, plan.points(plan.vector)) // plan.lanes)


def _loads(nest: LoopNest, access: Access, plan: TilePlan, points: dict[int, int]) -> float:
    """Count the loads of an operand per step, where steps that are unrolled share them."""
    loads = float(_vectors_of(access, plan, points))
    for loop, factor in plan.unroll:
        if not access.invariant(loop):
            loads *= _distinct(nest, access, plan, loop, points.get(loop, factor))
    return loads


def _distinct(nest: LoopNest, access: Access, plan: TilePlan, loop: int, count: int) -> float:
    """Count the positions along an unrolled loop that each unrolled reduction step adds.

    Windows overlap where a reduction loop walks the same way: 4 rows of 3-high windows are 6 rows.
    """
    stride = access.strides[loop]
    for other in plan.full:
        step = access.strides[other]
        if stride is not None and step and stride % step == 0:
            apart, trips = abs(stride // step), nest.loops[other].trips
            if apart < trips:
                return ((count - 1) * apart + trips) / trips
    return count


def _parts(trips: int, tile: int) -> list[tuple[int, int]]:
    """Split ``trips`` into (size, count) of full tiles and the remainder."""
    full, rest = divmod(trips, tile)
    return [part for part in ((tile, full), (rest, 1)) if part[0] and part[1]]


def _access_cost(nest: LoopNest, access: Access, plan: TilePlan) -> float:
    """Return the load slots of one register of an operand."""
    stride = 0 if plan.vector is None else access.strides[plan.vector]
    if stride == 0:
        return 1.0
    if stride == 1:
        steps = [access.strides[loop] for loop in nest.reductions if loop != plan.vector]
        aligned = all(step is not None and step % plan.lanes == 0 for step in steps)
        return 1.0 if aligned else 1.5  # a load across cache lines counts twice, mostly
    if stride is not None and 1 < stride <= MAX_STRIDE:
        return 1.5 * stride
    return 1.25 * plan.lanes if stride is not None else 2.0 * plan.lanes


def _tile_cost(nest: LoopNest, plan: TilePlan, points: dict[int, int]) -> float:
    """Return the cycles of one micro tile of the given size, whose operands are in cache."""
    instances = math.prod(points.get(loop, factor) for loop, factor in plan.unroll)
    if plan.vector is not None:
        size = points.get(plan.vector, plan.points(plan.vector))
        instances *= -(-size // plan.lanes)
    loads = sum(_loads(nest, a, plan, points) * _access_cost(nest, a, plan) for a in nest.inputs)
    step = max(instances * nest.work / 2, loads / 2) + _LOAD_COST * loads
    ends = sum(_output_cost(nest, a, plan, points) for a in nest.outputs)
    if not nest.reductions:
        return step + ends + _TILE_OVERHEAD
    step = max(step, _LATENCY) + 0.5
    return step * _reduction_steps(nest, plan) + ends + _TILE_OVERHEAD


def _lines_loaded(nest: LoopNest, access: Access, plan: TilePlan, points: dict[int, int]) -> float:
    """Count the cache lines that one micro tile brings to the first level for an operand.

    An operand that the next micro tile reads again, and that is small enough, is there already.
    """
    lines = _lines_of(nest, access, plan, points)
    moving = [i for i in _loop_order(nest, plan) if nest.loops[i].trips > plan.points(i)]
    reused = not moving or access.invariant(moving[-1])
    return 0.0 if reused and lines <= _RESIDENT_LINES else lines


def _lines_of(nest: LoopNest, access: Access, plan: TilePlan, points: dict[int, int]) -> float:
    """Count the cache lines of an operand that one micro tile reads in all its reduction."""
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
    return pieces * ((run - 1) / nest.line + 1)


def _output_cost(nest: LoopNest, access: Access, plan: TilePlan, points: dict[int, int]) -> float:
    """Return the cycles to read and write an output's part of a micro tile."""
    registers = _registers_of(access, plan, points)
    cost = _store_cost(access, plan, points)
    if nest.reads_init:
        cost += _access_cost(nest, access, plan)
    if plan.vector is not None and nest.loops[plan.vector].reduction:
        cost += _HORIZONTAL * plan.vectors
    return cost * registers


def _store_cost(access: Access, plan: TilePlan, points: dict[int, int]) -> float:
    """Return the cycles to store one register: whole, transposed with others, or scattered."""
    stride = 0 if plan.vector is None else access.strides[plan.vector]
    if stride in (0, 1):
        return 1.0
    along = [points.get(i, factor) for i, factor in plan.unroll if access.strides[i] == 1]
    if not along or along[0] < MIN_TRANSPOSED:
        return 1.25 * plan.lanes
    rows = min(along[0], plan.lanes)
    stages = (rows - 1).bit_length()
    return ((1 << stages) * stages + 1.5 * plan.lanes) / rows


def _reduction_steps(nest: LoopNest, plan: TilePlan) -> int:
    """Count the steps of the reduction loops for one micro tile."""
    steps = 1
    for loop in nest.reductions:
        trips = nest.loops[loop].trips
        steps *= -(-trips // plan.points(loop)) if loop == plan.vector else trips
    return steps


def _loop_order(nest: LoopNest, plan: TilePlan) -> tuple[int, ...]:
    """Order the parallel loops around the micro tile.

    With a reduction, the vector loop and those that move the same operands go outside, so that the
    panel which the vectors read is reused from cache by all the tiles inside. Without one, memory
    order: the vector loop inside.
    """
    loops = nest.parallels
    if plan.vector not in loops:
        return tuple(loops)
    others = [loop for loop in loops if loop != plan.vector]
    if not nest.reductions:
        return (*others, plan.vector)
    panel = [loop for loop in others if _same_operands(nest, loop, plan.vector)]
    return (*panel, plan.vector, *(loop for loop in others if loop not in panel))


def _same_operands(nest: LoopNest, loop: int, vector: int) -> bool:
    """Whether the same inputs move along both loops: blocks of channels, say, and their lanes."""
    return all(a.invariant(loop) == a.invariant(vector) for a in nest.inputs)


def _with_full(nest: LoopNest, plan: TilePlan) -> TilePlan:
    return replace(plan, full=_unrolled_reductions(nest, plan))


def _unrolled_reductions(nest: LoopNest, plan: TilePlan) -> tuple[int, ...]:
    """Choose the inner reduction loops to unroll completely, innermost first.

    None when registers are short: LLVM would keep what the unrolled steps share in registers, such
    as the columns that neighbouring windows of a convolution have in common, and spill.
    """
    if _registers(nest, plan) > nest.registers * (1 - _SHARED_REGISTERS):
        return ()
    size = plan.accumulators * max(1.0, nest.work)
    chosen: list[int] = []
    for loop in reversed(nest.reductions):
        trips = nest.loops[loop].trips
        size *= trips
        if not nest.loops[loop].static or loop == plan.vector or size > _UNROLLED_OPERATIONS:
            break
        chosen.append(loop)
    return tuple(chosen)
