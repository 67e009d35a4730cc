"""Estimates micro tiles' cycles on a core with two loads and two arithmetic ops per cycle.

A loop is identified by its index in ``LoopNest.loops``. Costs without cache misses are computed for
many micro tiles at once, as arrays (``TileArrays``). In functions of a single micro tile,
``points`` maps each tiled loop to its count of iterations in the micro tile, which is smaller at an
edge.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice, product
from typing import Self

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.lowering.cpu.vectorize.tile import (
    Access,
    Loop,
    LoopNest,
    TilePlan,
    loop_order,
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

    ``plan`` determines the size of full tiles. A group is a pair: the count of micro tiles in the
    group, and a dict from each tiled loop to the count of its iterations in one micro tile.
    """
    tiled = [loop for loop in nest.parallels if plan.points(loop) > 1]
    rest = math.prod(nest.loops[i].trips for i in nest.parallels if i not in tiled)
    parts = [_parts(nest.loops[loop], plan.points(loop)) for loop in tiled]
    return [
        (
            rest * math.prod(count for _, count in choice),
            {loop: size for loop, (size, _) in zip(tiled, choice, strict=True)},
        )
        for choice in product(*parts)
    ]


def _parts(loop: Loop, tile: int) -> list[tuple[int, int]]:
    """Return pairs (size, count) of the tiles that cut a loop.

    ``tile`` is the size of full tiles; smaller remainders come last. For 10 trips and tiles of 4:
    ``[(4, 2), (2, 1)]``.
    """
    found: Counter[int] = Counter()
    for size, count in loop.pieces(tile):
        full, rest = divmod(size, tile)
        found[tile] += count * full
        found[rest] += count
    return [(size, found[size]) for size in sorted(found, reverse=True) if size and found[size]]


Integers, Floats, Booleans = NDArray[np.int64], NDArray[np.float64], NDArray[np.bool_]


@dataclass(frozen=True)
class TileArrays:
    """Groups of equal micro tiles, as arrays with an element or a row for each group.

    The groups may be from several plans (``TilePlan``: vector loop and size of full micro tiles).
    All these plans must have the same vector loop.

    Attributes:
        vector: the loop along the lanes, None for scalar code.
        lanes: count of elements in a register.
        vectors: count of registers along the vector loop.
        count: count of micro tiles in each group.
        size: iterations of a micro tile along the vector loop; 1 without a vector loop.
        unrolled: whether each loop (a column) is unrolled.
        points: iterations of a micro tile along each unrolled loop (a column); 1 along other loops.
        full: count of inner reduction loops that are unrolled completely.
    """

    vector: int | None
    lanes: int
    vectors: int
    count: Integers
    size: Integers
    unrolled: Booleans
    points: Integers
    full: Integers

    @classmethod
    def of_plans(cls, nest: LoopNest, plans: Sequence[tuple[TilePlan, Tiles]]) -> Self:
        """Return the groups of micro tiles of all plans, in the order of the plans.

        A plan determines the size of full micro tiles; ``Tiles`` are its groups of equal tiles.
        All plans must have the same ``vector``, ``lanes`` and ``vectors``.
        """
        common, _ = plans[0]
        along = 1 if common.vector is None else common.points(common.vector)
        rows = [(plan, count, tile) for plan, tiles in plans for count, tile in tiles]
        unrolled = np.zeros((len(rows), len(nest.loops)), np.bool_)
        points = np.ones(unrolled.shape, np.int64)
        for row, (plan, _, tile) in enumerate(rows):
            for loop, factor in plan.unroll:
                unrolled[row, loop] = True
                points[row, loop] = tile.get(loop, factor)
        size = [1 if common.vector is None else t.get(common.vector, along) for _, _, t in rows]
        return cls(
            common.vector, common.lanes, common.vectors,
            np.array([count for _, count, _ in rows], np.int64),
            np.array(size, np.int64),
            unrolled, points, np.array([len(plan.full) for plan, _, _ in rows], np.int64),
        )  # fmt: skip

    def registers_of(self, access: Access) -> Integers:
        """Return, for each group, how many registers of an operand a micro tile uses per step.

        A step is an iteration of the reduction loops.
        """
        found = self._vectors_of(access)
        for loop, stride in enumerate(access.strides):
            if stride != 0:
                found = found * self.points[:, loop]
        return found

    def cycles_in_cache(self, nest: LoopNest) -> Floats:
        """Return, for each group, the cycles of all its micro tiles together, without cache misses.

        Every operand is assumed to be in the first-level cache.
        """
        return self.count * self._tile_cycles(nest)

    def _tile_cycles(self, nest: LoopNest) -> Floats:
        shared = 0.0 if self.vector is None else nest.loops[self.vector].shared
        registers = -(-self.size // self.lanes)
        work = np.prod(self.points, axis=1) * (registers * (nest.work - shared) + shared)
        loads = sum(
            (self.loads(nest, a) * self._load_cost(nest, a) for a in nest.inputs),
            start=np.zeros(len(self.size)),
        )
        step = np.maximum(work / 2, loads / 2) + _LOAD_COST * loads
        ends = sum(
            (self._output_cost(nest, a) for a in nest.outputs), start=np.zeros(len(self.size))
        )
        if not nest.reductions:
            return step + ends + _TILE_OVERHEAD
        step = np.maximum(step, _LATENCY) + 0.5
        steps = _reduction_steps(nest, self.vector, self.lanes * self.vectors)
        return step * steps + ends + _TILE_OVERHEAD

    def _vectors_of(self, access: Access) -> Integers:
        """Return, for each group, the count of registers of an operand along the vector loop."""
        if self.vector is None or access.invariant(self.vector):
            return np.ones_like(self.size)
        return -(-self.size // self.lanes)

    def loads(self, nest: LoopNest, access: Access) -> Floats:
        """Return, for each group, how many registers of an operand a micro tile loads per step.

        A step is an iteration of the reduction loops. If n unrolled steps share a register, it
        counts as 1 / n in each of them, so that the results may not be integers.
        """
        found = self._vectors_of(access).astype(np.float64)
        for loop, stride in enumerate(access.strides):
            if stride != 0 and self.unrolled[:, loop].any():
                found *= self._distinct(nest, access, loop)
        return found

    def _distinct(self, nest: LoopNest, access: Access, loop: int) -> Floats:
        """Return, for each group, how many elements along an unrolled loop are loaded per step.

        The result is an average over the steps, the iterations of the reduction loops. It is less
        than the iterations of ``loop`` in a micro tile if the windows of these iterations overlap
        along a completely unrolled reduction loop, because the steps of the reduction loop then
        share loads. For example, 4 adjacent iterations with windows of height 3 load 6 rows, not
        12, in 3 steps: the result is 2.
        """
        count = self.points[:, loop].astype(np.float64)
        stride = access.strides[loop]
        for number, other in enumerate(reversed(nest.reductions)):
            step = access.strides[other]
            if stride is not None and step and stride % step == 0:
                apart, trips = abs(stride // step), nest.loops[other].trips
                if apart < trips:
                    shared = ((count - 1) * apart + trips) / trips
                    return np.where(self.full > number, shared, count)
        return count

    def _load_cost(self, nest: LoopNest, access: Access) -> Floats | float:
        """Return the cost of loading a register of an operand, as a multiple of an aligned load.

        If the lanes of a register are far apart in memory, and enough registers are adjacent, the
        cost is that of loading contiguous rows and transposing these in registers. The result is an
        array with the cost in each group of micro tiles, or a number if the cost is the same in all
        groups.
        """
        cost = _access_cost(nest, access, self.vector, self.lanes)
        if self.vector is not None and needs_gather_or_transpose(access.strides[self.vector]):
            rows = self._transposed_rows(access)
            return np.where(rows >= MIN_TRANSPOSED, self._transpose_cost(rows), cost)
        return cost

    def _transposed_rows(self, access: Access) -> Integers:
        """Return, for each group, how many registers one transpose loads or stores for an operand.

        These registers are adjacent in memory: they belong to the iterations of the first unrolled
        loop with stride 1. The result is 1 if no unrolled loop has stride 1.
        """
        found, missing = np.ones_like(self.size), np.ones(len(self.size), np.bool_)
        for loop, stride in enumerate(access.strides):
            if stride == 1:
                found = np.where(missing & self.unrolled[:, loop], self.points[:, loop], found)
                missing &= ~self.unrolled[:, loop]
        return found

    def _transpose_cost(self, rows: Integers) -> Floats:
        """Return the cycles per register of a transpose in registers and of its loads or stores.

        For each group, ``rows`` has the count of registers that are transposed together.
        """
        table = [_transpose_cycles(number, self.lanes) for number in range(1, self.lanes + 1)]
        return np.array(table)[np.minimum(rows, self.lanes) - 1]

    def _output_cost(self, nest: LoopNest, access: Access) -> Floats:
        """Return the cycles to store all results of a tile in an output.

        The cycles to read old values are included if ``nest.reads_init``.
        """
        cost = np.asarray(self._store_cost(nest, access), np.float64)
        if nest.reads_init:
            cost = cost + _access_cost(nest, access, self.vector, self.lanes)
        if self.vector is not None and nest.loops[self.vector].reduction:
            cost = cost + _HORIZONTAL * self.vectors
        return cost * self.registers_of(access)

    def _store_cost(self, nest: LoopNest, access: Access) -> Floats | float:
        """Return the cycles to store a single register of results of an output.

        The store is one of these, by the output's stride along the lanes: a contiguous store, an
        interleaved store of several registers, a store of transposed registers, or a scatter. The
        result is an array with the cycles in each group of micro tiles, or a number for a
        contiguous store.
        """
        stride = 0 if self.vector is None else access.strides[self.vector]
        if stride in (0, 1):
            return 1.0
        rows = self._transposed_rows(access)
        apart = np.where(
            rows >= MIN_TRANSPOSED, self._transpose_cost(rows), _strided_cost(nest, self.lanes)
        )
        if stride is None or stride > MAX_STRIDE:
            return apart
        return np.where(rows == stride, rows, apart)  # interleaved with the other registers


def costs_in_cache(nest: LoopNest, plans: Sequence[tuple[TilePlan, Tiles]]) -> list[float]:
    """Return, for each plan, the cycles of all its micro tiles together, without cache misses.

    A plan determines the size of full micro tiles; ``Tiles`` are its groups of equal tiles. Every
    operand is assumed to be in the first-level cache. All plans must have the same ``vector``,
    ``lanes`` and ``vectors``.
    """
    cycles = iter(TileArrays.of_plans(nest, plans).cycles_in_cache(nest).tolist())
    return [sum(islice(cycles, len(tiles))) for _, tiles in plans]


def needs_gather_or_transpose(stride: object) -> bool:
    """Return whether lanes with this stride need a gather or a transpose.

    For a constant stride from 0 to ``MAX_STRIDE``, contiguous loads and a shuffle suffice.
    ``stride`` is in elements; None if it is not constant.
    """
    return not isinstance(stride, int) or not 0 <= stride <= MAX_STRIDE


def _transpose_cycles(rows: int, lanes: int) -> float:
    """Return the cycles per register to transpose ``rows`` registers and to load or store them."""
    stages = (rows - 1).bit_length()
    return ((1 << stages) * stages + 1.5 * lanes) / rows


def _access_cost(nest: LoopNest, access: Access, vector: int | None, lanes: int) -> float:
    """Return the cost of loading a register without a transpose.

    The cost is a multiple of that of an aligned load. ``vector`` is the loop along the lanes, None
    for scalar code; ``lanes`` is the count of elements in a register.
    """
    stride = 0 if vector is None else access.strides[vector]
    if stride == 0:
        return 1.0
    if stride == 1:
        steps = [access.strides[loop] for loop in nest.reductions if loop != vector]
        aligned = all(step is not None and step % lanes == 0 for step in steps)
        return 1.0 if aligned else 1.5  # loads that cross cache lines mostly count twice
    if stride is not None and 1 < stride <= MAX_STRIDE:
        return 1.5 * stride
    return _strided_cost(nest, lanes) if stride is not None else 2.0 * lanes


def _strided_cost(nest: LoopNest, lanes: int) -> float:
    """Return the cycles to load or store a register whose lanes are not contiguous in memory."""
    return (_STRIDED if nest.line <= _WORDS else _STRIDED_NARROW) * lanes


def _reduction_steps(nest: LoopNest, vector: int | None, size: int) -> int:
    """Return in how many steps a micro tile iterates over all reduction loops.

    A step has one iteration of each reduction loop, but ``size`` iterations of the loop ``vector``.
    ``vector`` is the index of the vector loop, None for scalar code.
    """
    steps = 1
    for loop in nest.reductions:
        trips = nest.loops[loop].trips
        steps *= -(-trips // size) if loop == vector else trips
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

    A line counts once for each load into the first-level cache, that is, several times if the
    lines evict one another. ``points`` maps each tiled loop to its count of iterations in the micro
    tile.
    """
    if conflicts(nest, access, plan, points):
        loads = float(TileArrays.of_plans(nest, [(plan, [(1, points)])]).loads(nest, access)[0])
        loads *= _reduction_steps(nest, plan.vector, plan.lanes * plan.vectors)
        return _CONFLICT_COST * max(loads, _lines_of(nest, access, plan, points))
    return _LINE_COST * _lines_loaded(nest, access, plan, points)


def conflicts(nest: LoopNest, access: Access, plan: TilePlan, points: dict[int, int]) -> bool:
    """Return whether the cache lines that a reduction step reads of an operand evict one another.

    For example, if each row of a matrix has 4 KiB, the first lines of all rows are in the same set
    of the first-level cache. If a step reads more rows than the set has ways, lines are evicted
    before later steps read other elements of the same lines. ``points`` maps each tiled loop to its
    count of iterations in the micro tile.
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
    """Return how many cache lines of an operand a micro tile loads into the first-level cache.

    The result is 0 if these lines fit in that cache and the previous micro tile read the same
    elements. ``points`` maps each tiled loop to its count of iterations in the micro tile.
    """
    # The mean also if the number is known: a stream of parts of rows is slower than one of rows.
    lines = _lines_of(nest, access, plan, points)
    moving = [i for i in loop_order(nest, plan) if nest.loops[i].trips > plan.points(i)]
    reused = not moving or access.invariant(moving[-1])
    if reused and (lines <= _RESIDENT_LINES or _fits_aligned(nest, access, plan, points)):
        return 0.0
    return lines


def _fits_aligned(nest: LoopNest, access: Access, plan: TilePlan, points: dict[int, int]) -> bool:
    """Return whether the first-level cache holds all lines of an operand that a micro tile reads.

    The result is False unless the operand's rows are whole cache lines (``_has_aligned_rows``).
    ``points`` maps each tiled loop to its count of iterations in the micro tile.
    """
    if not _has_aligned_rows(nest, access, plan):
        return False
    return _lines_of(nest, access, plan, points, in_lines=True) <= _RESIDENT_ALIGNED


def _has_aligned_rows(nest: LoopNest, access: Access, plan: TilePlan) -> bool:
    """Return whether an operand's rows along the lanes are whole cache lines, as in packed weights.

    This is the case if the lanes are along a parallel loop, the stride along the lanes is 1, and
    all other strides are 0 or multiples of a cache line.
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
    """Return how many cache lines of an operand a micro tile reads in total.

    The operand's elements are in contiguous ranges. A range may begin anywhere in a cache line; the
    result is then the mean over these positions. With ``in_lines``, each range lies in as few lines
    as possible. ``points`` maps each tiled loop to its count of iterations in the micro tile.
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
