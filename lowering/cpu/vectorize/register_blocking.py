"""Chooses the micro tile of a loop nest (register blocking), without IR.

The module ``cost`` estimates the cycles of a few candidate micro tiles by a model of a core. The
cheapest candidate is chosen.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from rammer_mlir.lowering.cpu.vectorize.cost import (
    Integers,
    TileArrays,
    Tiles,
    costs_in_cache,
    miss_cost,
    tiles_of,
)
from rammer_mlir.lowering.cpu.vectorize.tile import LoopNest, TilePlan, loop_order, registers_of

Unroll = tuple[tuple[int, int], ...]

_FACTORS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28)
_MOST_UNROLLED = 3  # parallel loops that are unrolled together, beside the vector loop
_VECTORS = (1, 2, 3, 4, 6, 8)
# share of the registers reserved for values shared by unrolled reduction steps
_SHARED_REGISTERS = 1 / 3
_TOGETHER = 64  # plans whose edge tiles are costed together
_UNROLLED_OPERATIONS = 196  # size limit of a reduction loop's unrolled body


def plan_tile(nest: LoopNest) -> TilePlan:
    """Return the micro tile with the least estimated cost in cycles for ``nest``."""
    offered = candidates(nest)
    is_empty = any(loop.trips == 0 for loop in nest.loops)
    best = offered[0].plan(0) if is_empty else _cheapest(nest, offered)
    return replace(_in_instance_order(nest, best), order=loop_order(nest, best))


def _cheapest(nest: LoopNest, offered: Sequence[Candidates]) -> TilePlan:
    """Return the first plan with the least cost in cycles.

    For most plans, the in-cache cost of the full micro tiles alone exceeds the total cost of the
    best plan. The costs of partial tiles at the edges and of cache misses are therefore computed
    for the remaining plans only.
    """
    bounds = np.concatenate([each.full_tiles.cycles_in_cache(nest) for each in offered])
    order = np.argsort(bounds, kind="stable").tolist()
    best = math.inf, 0, TilePlan(None, 1)
    for begin in range(0, len(order), _TOGETHER):
        numbers = [n for n in order[begin : begin + _TOGETHER] if bounds[n] <= best[0]]
        for number, plan, tiles, in_cache in _tiled(nest, offered, numbers):
            if bounds[number] > best[0]:
                return best[2]
            if in_cache <= best[0]:
                cost = in_cache + miss_cost(nest, plan, tiles)
                if (cost, number) < best[:2]:
                    best = cost, number, plan
        if not numbers:
            break
    return best[2]


def _tiled(
    nest: LoopNest, offered: Sequence[Candidates], numbers: Sequence[int]
) -> Iterator[tuple[int, TilePlan, Tiles, float]]:
    """Yield the plans with the given ``numbers``, in this order, with their micro tiles and costs.

    A plan's number is its index in the concatenated plans of all ``offered``. An element is a
    tuple: number, plan, micro tiles, cost in cycles if all data is in the first-level cache.
    """
    starts = np.cumsum([0, *(len(each.unrolls) for each in offered)])
    groups = (np.searchsorted(starts, numbers, side="right") - 1).tolist()
    members: dict[int, list[int]] = {}
    for number, group in zip(numbers, groups, strict=True):
        members.setdefault(group, []).append(number)
    found: dict[int, tuple[TilePlan, Tiles, float]] = {}
    for group, chosen in members.items():
        plans = [offered[group].plan(number - int(starts[group])) for number in chosen]
        tiled = [(plan, tiles_of(nest, plan)) for plan in plans]
        costs = costs_in_cache(nest, tiled)
        for number, (plan, tiles), cost in zip(chosen, tiled, costs, strict=True):
            found[number] = plan, tiles, cost
    for number in numbers:
        yield number, *found[number]


def _in_instance_order(nest: LoopNest, plan: TilePlan) -> TilePlan:
    """Return ``plan`` with the loops over its registers ordered to reduce register pressure.

    The outer loops are those along which the operand with the fewest registers is invariant. The
    registers of this operand stay live; the registers of other operands have short live ranges.
    """
    if not nest.inputs:
        return plan
    held = min(nest.inputs, key=lambda access: registers_of(access, plan))
    unroll = sorted(plan.unroll, key=lambda pair: not held.invariant(pair[0]))
    # Without a sum each register is stored once, and memory is written in order.
    outermost = bool(nest.reductions) and plan.vector is not None and held.invariant(plan.vector)
    return replace(plan, unroll=tuple(unroll), vectors_outermost=outermost)


@dataclass(frozen=True)
class Candidates:
    """Plans that differ only in the unrolled loops.

    Attributes:
        nest: the loop nest.
        vector, lanes, vectors: as in ``TilePlan``.
        unrolls: the pairs (loop, factor) of each plan's unrolled loops, by ascending loop.
        registers: for each plan, the count of live registers in an iteration of the reduction.
    """

    nest: LoopNest
    vector: int | None
    lanes: int
    vectors: int
    unrolls: Sequence[Unroll]
    registers: Sequence[int]

    def plan(self, number: int) -> TilePlan:
        """Return the plan with index ``number``.

        The order of the loops around its micro tile is not determined yet.
        """
        full = self.nest.reductions[::-1][: int(self._full[number])]
        unroll = self.unrolls[number]
        return TilePlan(self.vector, self.lanes, self.vectors, unroll, full=tuple(full))

    @cached_property
    def _points(self) -> Integers:
        """The unroll factor of each loop (column) in each plan (row), 1 if not unrolled."""
        found = np.ones((len(self.unrolls), len(self.nest.loops)), np.int64)
        for row, unroll in enumerate(self.unrolls):
            for loop, factor in unroll:
                found[row, loop] = factor
        return found

    @cached_property
    def full_tiles(self) -> TileArrays:
        """The full micro tiles of each plan.

        Along a loop with fewer trips than a tile has points, the tile is cut to those trips.
        """
        nest, points = self.nest, self._points
        sizes = points
        size = 1 if self.vector is None else self.lanes * self.vectors
        if self.vector is not None and not nest.loops[self.vector].reduction:
            sizes = points.copy()
            sizes[:, self.vector] = size
            size = min(size, nest.loops[self.vector].trips)
        count = np.prod([self._full_along(loop, sizes[:, loop]) for loop in nest.parallels], axis=0)
        return TileArrays(
            self.vector, self.lanes, self.vectors, count, np.full(len(points), size, np.int64),
            points > 1, points, self._full,
        )  # fmt: skip

    def _full_along(self, loop: int, sizes: Integers) -> Integers:
        """Return the count of full micro tiles along a loop, at least 1, for each micro tile size.

        ``sizes`` has the sizes along the loop, in points.
        """
        kinds, places = np.unique(sizes, return_inverse=True)
        pieces = [self.nest.loops[loop].pieces(int(size)) for size in kinds]
        counts = [
            max(1, sum(count * (length // int(size)) for length, count in each))
            for size, each in zip(kinds, pieces, strict=True)
        ]
        return np.array(counts, np.int64)[places]

    @cached_property
    def _full(self) -> Integers:
        """For each plan, the count of innermost reduction loops that are unrolled completely.

        The count is 0 for a plan that leaves too few registers free: LLVM would keep values that
        the unrolled iterations share, such as common columns of adjacent windows, in registers, and
        spill. The size of the unrolled body limits the count too.
        """
        nest, points = self.nest, self._points
        found = np.zeros(len(points), np.int64)
        free = np.array(self.registers) <= nest.registers * (1 - _SHARED_REGISTERS)
        size = np.prod(points, axis=1) * self.vectors * max(1.0, nest.work)
        for loop in reversed(nest.reductions):
            if not nest.loops[loop].static or loop == self.vector:
                break
            size = size * nest.loops[loop].trips
            free &= size <= _UNROLLED_OPERATIONS
            found += free
        return found


def candidates(nest: LoopNest) -> list[Candidates]:
    """Return the plans among which ``plan_tile`` chooses; the first element has scalar code.

    The plans of an element differ only in the unrolled loops.
    """
    found = [_unrolled(nest, TilePlan(None, 1), {})]
    if not nest.vectorizable:
        return found
    factors = {
        loop: [
            factor
            for factor in sorted({min(f, nest.loops[loop].trips) for f in _FACTORS} - {1})
            if nest.loops[loop].allows_in_pieces(factor)
        ]
        for loop in nest.parallels
    }
    for vector, loop in enumerate(nest.loops):
        if (loop.reduction and not nest.combinable) or loop.trips == 1 or not loop.vectorizable:
            continue
        needed = -(-loop.trips // nest.lanes)
        for vectors in sorted({min(v, needed) for v in _VECTORS}):
            if loop.allows(vectors * nest.lanes):
                plan = TilePlan(vector, nest.lanes, vectors)
                found.append(_unrolled(nest, plan, {**factors, vector: []}))
    return found


def _unrolled(nest: LoopNest, plan: TilePlan, factors: Mapping[int, Sequence[int]]) -> Candidates:
    """Return ``plan``, and plans that also unroll up to ``_MOST_UNROLLED`` loops.

    Plans that need more than ``nest.registers`` registers are left out, except for ``plan`` itself.
    ``factors`` has the permitted unroll factors of each loop, in ascending order.
    """
    outputs = max(1, len(nest.outputs))
    loops = [(loop, each) for loop, each in factors.items() if each]
    varies = [[access.strides[loop] != 0 for access in nest.inputs] for loop, _ in loops]
    unrolls: list[Unroll] = []
    registers: list[int] = []

    def live(accumulators: int, operands: Sequence[int]) -> int:
        # All registers of the operand with the fewest registers are loaded first.
        held = min(operands) if nest.reductions and operands else 0
        return accumulators * outputs + held

    def add(unroll: Unroll, accumulators: int, operands: Sequence[int], first: int) -> None:
        unrolls.append(unroll)
        registers.append(live(accumulators, operands))
        if len(unroll) == _MOST_UNROLLED:
            return
        for number in range(first, len(loops)):
            loop, each = loops[number]
            for factor in each:
                results = accumulators * factor
                wider = [
                    n * factor if v else n for n, v in zip(operands, varies[number], strict=True)
                ]
                if live(results, wider) > nest.registers:
                    break  # larger factors need more registers still
                add((*unroll, (loop, factor)), results, wider, number + 1)

    add((), plan.accumulators, [registers_of(a, plan) for a in nest.inputs], 0)
    return Candidates(nest, plan.vector, plan.lanes, plan.vectors, unrolls, registers)
