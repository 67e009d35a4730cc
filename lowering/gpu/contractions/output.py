"""Combines a thread's contraction results with the output's initial values, and stores them.

The stores are as wide as the output's alignment permits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from math import gcd

from rammer_mlir.bindings import ir
from rammer_mlir.lowering.gpu.alignment import divisor
from rammer_mlir.lowering.gpu.contractions.plan import WIDEST, ContractionPlan
from rammer_mlir.lowering.gpu.guards import all_below, when
from rammer_mlir.lowering.gpu.iteration_space import Loops
from rammer_mlir.lowering.gpu.results import Results
from rammer_mlir.lowering.kernels.affine import Index, add
from rammer_mlir.lowering.kernels.combiners import Combiner

Offset = tuple[int, ...]


@dataclass(frozen=True)
class _Run:
    """Results of a thread that are adjacent in the output's memory.

    Either all or none of the results are inside the output.

    Attributes:
        places: for each result, its index along each parallel loop.
        totals: for each result, the reduced value without the output's initial value.
    """

    places: Sequence[Sequence[Index]]
    totals: Sequence[ir.Value]


class Output:
    """Emits the stores of a contraction's results, combined with the output's initial values."""

    def __init__(self, results: Results, plan: ContractionPlan, combiner: Combiner) -> None:
        """Read the output's layout, and emit the trip counts of the loops with dynamic bounds."""
        self._plan, self._combiner, self._results = plan, combiner, results
        self._loops = Loops.of(results.reduction)

    def add_all(self, starts: Sequence[Index], totals: Sequence[ir.Value]) -> None:
        """Emit the store of all of a thread's results.

        Args:
            starts: the index of the thread's first result along each parallel loop.
            totals: the reduced values without the output's initial values, in the order of
                ``ContractionPlan.offsets``.
        """
        found = dict(zip(self._plan.offsets, totals, strict=True))
        # Equal indices are the same value, so that equal elements are loaded once.
        indices = {
            (loop, shift): add(start, shift)
            for loop, start in enumerate(starts)
            for shift in sorted({offset[loop] for offset in found})
        }
        runs = [
            _Run(
                [[indices[place] for place in enumerate(offset)] for offset in run],
                [found[offset] for offset in run],
            )
            for run in self._runs(starts)
        ]
        if self._has_edges:
            for run in runs:
                self._add_inside(run)
            return
        # Without stores between them, equal loads of epilogues are merged.
        finished = [self._finish(run) for run in runs]
        for run, values in zip(runs, finished, strict=True):
            self._results.store(self._point(run.places[0]), values)

    def add(self, place: Sequence[Index], total: ir.Value) -> None:
        """Emit the store of a single result, under the condition that it is inside the output.

        Args:
            place: the result's index along each parallel loop.
            total: the reduced value without the output's initial value.
        """
        self._add_inside(_Run([place], [total]))

    def _add_inside(self, run: _Run) -> None:
        with when(self._inside(run.places[0])):
            self._results.store(self._point(run.places[0]), self._finish(run))

    def _finish(self, run: _Run) -> list[ir.Value]:
        points = [self._point(place) for place in run.places]
        along = self._results.last_loop if len(points) > 1 else None
        return self._results.combined(self._combiner, points, run.totals, along)

    def _point(self, place: Sequence[Index]) -> list[Index]:
        return [0 if index is None else index for index in self._loops.point(place)]

    def _runs(self, starts: Sequence[Index]) -> list[list[Offset]]:
        """Return the offsets of a thread's results, grouped into runs of adjacent results.

        An offset is a result's distance from the thread's first result along each parallel loop.
        The results of a run are adjacent in memory. All runs have the same length: the number of
        results that one aligned store can write. ``starts`` has the index of the thread's first
        result along each parallel loop.
        """
        offsets = self._plan.offsets
        last = self._results.last_loop
        if last is None:
            return [[offset] for offset in offsets]
        loop = self._plan.contraction.parallel.index(last)
        width = self._width(loop, starts[loop])
        while width > 1:
            runs = [
                [(*o[:loop], o[loop] + n, *o[loop + 1 :]) for n in range(width)]
                for o in offsets
                if o[loop] % width == 0
            ]
            if len(runs) * width == len(offsets) and set(offsets).issuperset(chain(*runs)):
                return runs
            width //= 2
        return [[offset] for offset in offsets]

    def _width(self, loop: int, start: Index) -> int:
        """Return the largest number of results along a loop that one aligned store can write.

        The stores begin at index ``start`` of the loop. Every store lies entirely inside or
        entirely outside of the output.
        """
        bound = self._loops.sizes[loop]
        known = start if isinstance(start, int) else divisor(start)
        most = gcd(known, bound, WIDEST) if isinstance(bound, int) else 1
        return self._results.width(most)

    @property
    def _has_edges(self) -> bool:
        """Whether some results that the block computes are outside of the output."""
        return any(self._partial_loops)

    @property
    def _partial_loops(self) -> list[bool]:
        return [
            not isinstance(bound, int) or bound % size != 0
            for bound, size in zip(self._loops.sizes, self._plan.block, strict=True)
        ]

    def _inside(self, at: Sequence[Index]) -> ir.Value | None:
        """Emit an i1: whether the result with the loop indices ``at`` is inside the output.

        Return None if every result is inside.
        """
        sizes = zip(self._loops.sizes, self._partial_loops, at, strict=True)
        return all_below((index, bound) for bound, is_partial, index in sizes if is_partial)
