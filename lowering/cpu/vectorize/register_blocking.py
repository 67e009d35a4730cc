"""Choice of the micro tile of a loop nest: plain Python, without IR.

The plan is the cheapest of a small set of micro tiles (``tile``) under a model of a core
(``cost``).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from rammer_mlir.lowering.cpu.vectorize.cost import (
    cost_in_cache,
    full_tiles_of,
    miss_cost,
    tiles_of,
)
from rammer_mlir.lowering.cpu.vectorize.tile import LoopNest, TilePlan, loop_order, registers_of

_FACTORS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28)
_MOST_UNROLLED = 3  # parallel loops that are unrolled together, beside the vector loop
_VECTORS = (1, 2, 3, 4, 6, 8)
# share of the registers reserved for values shared by unrolled reduction steps
_SHARED_REGISTERS = 1 / 3
_UNROLLED_OPERATIONS = 196  # size limit of a reduction loop's unrolled body


def plan_tile(nest: LoopNest) -> TilePlan:
    """Return the micro tile with the least estimated cost in cycles for ``nest``."""
    best = _cheapest(nest, list(_candidates(nest)))
    return replace(best, unroll=_instance_order(nest, best), order=loop_order(nest, best))


def _cheapest(nest: LoopNest, plans: Sequence[TilePlan]) -> TilePlan:
    """Return the first plan with the least cost in cycles.

    For most plans, the in-cache cost of the full micro tiles alone exceeds the total cost of the
    best plan; only for the remaining plans are edge tiles and misses computed.
    """
    bounds = [cost_in_cache(nest, plan, [full_tiles_of(nest, plan)]) for plan in plans]
    best = math.inf, 0
    for number in sorted(range(len(plans)), key=bounds.__getitem__):
        if bounds[number] > best[0]:
            break
        plan = plans[number]
        tiles = tiles_of(nest, plan)
        in_cache = cost_in_cache(nest, plan, tiles)
        if in_cache <= best[0]:
            best = min(best, (in_cache + miss_cost(nest, plan, tiles), number))
    return plans[best[1]]


def _instance_order(nest: LoopNest, plan: TilePlan) -> tuple[tuple[int, int], ...]:
    """Return pairs (loop, factor) of the unrolled loops, ordered to reduce register pressure.

    The outermost loop is first. The operand with the fewest registers stays in registers along
    the outer loops; the registers of the other operands have short live ranges.
    """
    if not nest.inputs:
        return plan.unroll
    held = min(nest.inputs, key=lambda access: registers_of(access, plan, {}))
    return tuple(sorted(plan.unroll, key=lambda pair: not held.invariant(pair[0])))


def _candidates(nest: LoopNest) -> Iterator[TilePlan]:
    scalar = TilePlan(None, 1)
    yield _with_full(nest, scalar, _registers(nest, scalar))
    if not nest.vectorizable:
        return
    for vector, loop in enumerate(nest.loops):
        if (loop.reduction and not nest.combinable) or loop.trips == 1:
            continue
        needed = -(-loop.trips // nest.lanes)
        for vectors in sorted({min(v, needed) for v in _VECTORS}):
            if not loop.allows(vectors * nest.lanes):
                continue
            plan = TilePlan(vector, nest.lanes, vectors)
            yield _with_full(nest, plan, _registers(nest, plan))
            others = [loop for loop in nest.parallels if loop != vector]
            yield from _all_unrolled(nest, plan, others, _MOST_UNROLLED)


def _all_unrolled(
    nest: LoopNest, plan: TilePlan, loops: Sequence[int], most: int
) -> Iterator[TilePlan]:
    """Yield copies of ``plan`` that unroll 1 to ``most`` loops of ``loops`` by various factors."""
    for number, loop in enumerate(loops if most else ()):
        for wider in _unrolled(nest, plan, loop):
            yield wider
            yield from _all_unrolled(nest, wider, loops[number + 1 :], most - 1)


def _unrolled(nest: LoopNest, plan: TilePlan, loop: int) -> Iterator[TilePlan]:
    trips = nest.loops[loop].trips
    for factor in sorted({min(f, trips) for f in _FACTORS} - {1}):
        unroll = (*plan.unroll, (loop, factor))
        wider = TilePlan(plan.vector, plan.lanes, plan.vectors, unroll)
        registers = _registers(nest, wider)
        if registers > nest.registers:
            return  # larger factors need more registers still
        if nest.loops[loop].allows(factor):
            yield _with_full(nest, wider, registers)


def _registers(nest: LoopNest, plan: TilePlan) -> int:
    """Return the number of registers that are live in a step of the reduction of a micro tile.

    These are the accumulators, and the registers of the operand with the fewest registers, all of
    which are loaded first.
    """
    results = plan.accumulators * max(1, len(nest.outputs))
    operands = [registers_of(access, plan, {}) for access in nest.inputs]
    return results + (min(operands) if nest.reductions and operands else 0)


def _with_full(nest: LoopNest, plan: TilePlan, registers: int) -> TilePlan:
    full = _unrolled_reductions(nest, plan, registers)
    return TilePlan(plan.vector, plan.lanes, plan.vectors, plan.unroll, full=full)


def _unrolled_reductions(nest: LoopNest, plan: TilePlan, registers: int) -> tuple[int, ...]:
    """Return the inner reduction loops to unroll completely, innermost first.

    Empty if few registers are free besides the plan's ``registers``: LLVM would keep values that
    unrolled steps share, such as the common columns of adjacent windows, in registers, and spill.
    """
    if registers > nest.registers * (1 - _SHARED_REGISTERS):
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
