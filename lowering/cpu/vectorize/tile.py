"""Describes loop nests and micro tiles as plain data.

A *micro tile* is a set of registers with the results of one pass over all iterations of the
reduction loops. It has ``vectors`` registers of ``lanes`` elements along the vector loop, for each
point of the other, unrolled parallel loops.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class Loop:
    """A loop of a nest.

    Attributes:
        trips: the trip count, an estimate unless ``static``.
        static: whether the trip count is known at compile time.
        reduction: whether it is a reduction loop.
        panel: points of the smallest panel of an operand along this loop, 0 without panels. A micro
            tile must not cross panels.
        vectorizable: whether registers may have their lanes along this loop.
        shared: the part of ``LoopNest.work`` that the lanes of registers along this loop share.
    """

    trips: int
    static: bool
    reduction: bool
    panel: int = 0
    vectorizable: bool = True
    shared: float = 0.0

    def allows(self, points: int) -> bool:
        """Return whether no micro tile of ``points`` points crosses the boundary of a panel."""
        return not self.panel or self.panel % points == 0

    def allows_in_pieces(self, points: int) -> bool:
        """Return whether the loop can be cut into micro tiles of at most ``points`` points.

        No micro tile may cross the boundary of a panel. If the points of a panel are not a multiple
        of ``points``, the last tile of each panel is smaller; this requires a static loop.
        """
        return self.allows(points) or (self.static and points < self.panel)

    def pieces(self, points: int) -> list[tuple[int, int]]:
        """Return the ranges of the loop that are cut separately into tiles of ``points`` points.

        The result has pairs: the trip count of a range, and the count of such ranges. If tiles
        cannot cross the boundaries of panels, the only range is the whole loop, else each panel is
        a range. The last panel may be smaller.
        """
        whole = self.trips if self.allows(points) else self.panel
        found = ((whole, self.trips // max(whole, 1)), (self.trips % max(whole, 1), 1))
        return [(size, count) for size, count in found if size and count]


@dataclass(frozen=True)
class Access:
    """The strides by which a loop nest accesses an operand.

    ``strides`` has the stride in elements along each loop, or None for a stride that is not
    constant. A scalar operand has only zeros.
    """

    strides: tuple[int | None, ...]

    def invariant(self, loop: int) -> bool:
        """Return whether the operand is invariant along ``loop``."""
        return self.strides[loop] == 0


@dataclass(frozen=True)
class LoopNest:
    """The data of a ``linalg.generic`` from which the micro tile is planned.

    Attributes:
        loops: the loops; the index of a loop in this tuple identifies it.
        inputs, outputs: the strides of the operands.
        lanes: elements in a vector register.
        registers: count of vector registers that a micro tile may use.
        work: estimated cost of the body per point, in multiply-adds.
        reads_init: whether the outputs' old values are needed.
        vectorizable: whether the body can be computed on vectors.
        combinable: whether each output has a known combiner, so that lanes may accumulate
            separately.
        line: count of elements in a cache line.
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

    @cached_property
    def reductions(self) -> list[int]:
        """The reduction loops, outermost first."""
        return [i for i, loop in enumerate(self.loops) if loop.reduction]

    @cached_property
    def parallels(self) -> list[int]:
        """The parallel loops, outermost first."""
        return [i for i, loop in enumerate(self.loops) if not loop.reduction]


@dataclass(frozen=True)
class TilePlan:
    """The micro tile of a loop nest; loops are identified by their index in ``LoopNest.loops``.

    Attributes:
        vector: the loop along the lanes, None for scalar code.
        lanes: elements in a register.
        vectors: registers along the vector loop.
        unroll: pairs (loop, factor) of other parallel loops.
        order: the parallel loops around the micro tile, outermost first.
        full: the reduction loops that are unrolled completely, innermost first.
        vectors_outermost: whether the registers along the vector loop are the outermost loop over
            the micro tile's registers, instead of the innermost.
    """

    vector: int | None
    lanes: int
    vectors: int = 1
    unroll: tuple[tuple[int, int], ...] = ()
    order: tuple[int, ...] = ()
    full: tuple[int, ...] = ()
    vectors_outermost: bool = False

    def points(self, loop: int) -> int:
        """Return the number of points of a micro tile along ``loop``."""
        if loop == self.vector:
            return self.lanes * self.vectors
        for unrolled, factor in self.unroll:
            if unrolled == loop:
                return factor
        return 1

    @property
    def accumulators(self) -> int:
        """The number of registers that a micro tile needs for the results of one output."""
        return self.vectors * math.prod(factor for _, factor in self.unroll)


def registers_of(access: Access, plan: TilePlan) -> int:
    """Return how many registers of an operand a full micro tile reads per step.

    A step is an iteration of the reduction loops.
    """
    count = math.prod(factor for loop, factor in plan.unroll if not access.invariant(loop))
    is_along = plan.vector is not None and not access.invariant(plan.vector)
    return count * plan.vectors if is_along else count


def loop_order(nest: LoopNest, plan: TilePlan) -> tuple[int, ...]:
    """Return the parallel loops around the micro tile, outermost first.

    In a nest with a reduction, the outermost loops are the vector loop and the loops that index the
    same inputs as the vector loop. The tiles of all inner loops then read the same part of these
    inputs from cache. In a nest without a reduction, the vector loop is innermost, so that memory
    is read in order.
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
    """Return whether the inputs that vary along ``loop`` are those that vary along ``vector``.

    An example is a loop over channel blocks and the loop over the channels of a block.
    """
    return all(a.invariant(loop) == a.invariant(vector) for a in nest.inputs)
