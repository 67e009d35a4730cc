"""Accumulation of a thread's contraction results into the output, as wide as alignment permits."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from rammer_mlir.bindings import ir, memref, vector
from rammer_mlir.lowering.gpu.alignment import divisor, holds_aligned_runs
from rammer_mlir.lowering.gpu.contractions.plan import WIDEST, ContractionPlan
from rammer_mlir.lowering.gpu.generic_body import indices_at
from rammer_mlir.lowering.gpu.guards import all_below, when
from rammer_mlir.lowering.gpu.iteration_space import Loops
from rammer_mlir.lowering.kernels.affine import Index, add
from rammer_mlir.lowering.kernels.combiners import Combiner
from rammer_mlir.passes.ir.structured import Structured, as_buffer, element_bytes, plain_dim

Offset = tuple[int, ...]


class Output:
    """The output of a contraction, into which results are accumulated by the combiner."""

    def __init__(self, generic: Structured, plan: ContractionPlan, combiner: Combiner) -> None:
        """Read the output's layout, and emit its dynamic bounds."""
        self._plan, self._combiner = plan, combiner
        self._loops = Loops.of(generic)
        self._buffer, self._map = as_buffer(generic.outputs[0]), generic.output_maps[0]

    def add_all(self, starts: Sequence[Index], results: Sequence[ir.Value]) -> None:
        """Emit the accumulation of all of a thread's results.

        ``starts`` has the index of the first result along each parallel loop; ``results`` are in
        the order of the plan's ``offsets``.
        """
        found = dict(zip(self._plan.offsets, results, strict=True))
        for run in self._runs(starts):
            at = [add(start, shift) for start, shift in zip(starts, run[0], strict=True)]
            self.add(at, [found[offset] for offset in run])

    def add(self, at: Sequence[Index], values: Sequence[ir.Value]) -> None:
        """Emit the accumulation of ``values``, results that are adjacent in the output's memory.

        ``at`` has the first result's index along each parallel loop.
        """
        with when(self._inside(at)):
            point = [0 if index is None else index for index in self._loops.point(at)]
            place = indices_at(self._map, point)
            if len(values) == 1:
                old = memref.load(self._buffer, place)
                memref.store(self._combiner.combine(old, values[0]), self._buffer, place)
            else:
                self._add_wide(place, values)

    def _add_wide(self, place: Sequence[ir.Value], values: Sequence[ir.Value]) -> None:
        kind = ir.VectorType.get([len(values)], self._buffer.type.element_type)
        num_bytes = len(values) * element_bytes(self._buffer.type)
        old = vector.load(kind, self._buffer, place, alignment=num_bytes)
        new = [
            self._combiner.combine(vector.extract(old, [], [n]), value)
            for n, value in enumerate(values)
        ]
        whole = vector.from_elements(kind, new)
        vector.store(whole, self._buffer, place, alignment=num_bytes)

    def _runs(self, starts: Sequence[Index]) -> list[list[Offset]]:
        """Return the offsets of a thread's results as runs; a run's results are adjacent in memory.

        All runs have the same length, as wide as an aligned access of the output may be. ``starts``
        has the index of the thread's first result along each parallel loop.
        """
        offsets = self._plan.offsets
        last = plain_dim(self._map.results[-1]) if len(self._map.results) else None
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
        """Return the number of elements of the widest aligned accesses along a loop.

        The accesses begin at index ``start`` of the loop. Each of them lies entirely inside or
        outside of the output.
        """
        bound = self._loops.sizes[loop]
        width = WIDEST // element_bytes(self._buffer.type)
        while width > 1 and not (
            (start if isinstance(start, int) else divisor(start)) % width == 0
            and isinstance(bound, int)
            and bound % width == 0
            and holds_aligned_runs(self._buffer, width)
        ):
            width //= 2
        return width

    def _inside(self, at: Sequence[Index]) -> ir.Value | None:
        """Emit an i1 that tells whether the result at ``at`` is in the output; None if always."""
        return all_below(
            (index, bound)
            for bound, size, index in zip(self._loops.sizes, self._plan.block, at, strict=True)
            if not isinstance(bound, int) or bound % size
        )
