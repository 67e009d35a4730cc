"""Emits the initial values, epilogues and stores of reduction results held in registers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

from rammer_mlir.bindings import ir, memref, vector
from rammer_mlir.lowering.gpu.adjacent_loads import (
    AdjacentLoads,
    adjacent_operands,
    contiguous_loop,
    is_vector_element,
)
from rammer_mlir.lowering.gpu.alignment import holds_aligned_runs
from rammer_mlir.lowering.gpu.contractions.plan import WIDEST
from rammer_mlir.lowering.gpu.generic_body import Point, emit_body
from rammer_mlir.lowering.gpu.result_chains import ResultChain
from rammer_mlir.lowering.kernels.affine import as_value, evaluate
from rammer_mlir.lowering.kernels.combiners import Combiner
from rammer_mlir.passes.ir.structured import (
    Buffer,
    Structured,
    as_buffer,
    element_bytes,
    plain_dim,
)


class Results:
    """Emits the initial values, epilogues and stores of a reduction's results in registers."""

    def __init__(self, chain: ResultChain) -> None:
        """Determine each output's initial values and buffer, and the first output's epilogues."""
        self.reduction = chain.reduction
        maps = self.reduction.output_maps
        self._num_loops = len(self.reduction.parallel)
        self._initial = [
            generic and _Step.at(generic, len(generic.maps) - 1, map_.results, self._num_loops)
            for generic, map_ in zip(chain.initial, maps, strict=True)
        ]
        self._epilogues: list[tuple[_Step, list[int]]] = []
        result, places = self.reduction.outputs[0], list(maps[0].results)
        for generic in chain.epilogues:
            taken = [n for n, operand in enumerate(generic.operands) if operand == result]
            step = _Step.at(generic, taken[0], places, self._num_loops)
            self._epilogues.append((step, taken))
            result, places = generic.outputs[0], step.places
        self._targets = [
            (as_buffer(output), list(map_.results))
            for output, map_ in zip(self.reduction.outputs, maps, strict=True)
        ]
        self._targets[0] = as_buffer(result), places

    @property
    def buffer(self) -> Buffer:
        """The memref in which the results of the first output are stored, after any epilogues."""
        return self._targets[0][0]

    @property
    def last_loop(self) -> int | None:
        """The index of the reduction's loop along which stored results are adjacent in memory.

        This loop is the parallel loop that indexes the last dimension of ``buffer``; None if the
        index of this dimension is not a plain loop, or if the loop also indexes another dimension.
        """
        _, places = self._targets[0]
        return contiguous_loop(places)

    def width(self, most: int) -> int:
        """Return the largest number of results, at most ``most``, that one aligned store writes.

        The results are adjacent along the loop ``last_loop``. ``most`` must be a power of two that
        divides the index of the first result along this loop.
        """
        if not is_vector_element(self.buffer.type.element_type):
            return 1
        width = min(most, WIDEST // element_bytes(self.buffer.type))
        while width > 1 and not holds_aligned_runs(self.buffer, width):
            width //= 2
        return width

    def initial(
        self, points: Sequence[Point], along: int | None = None, output: int = 0
    ) -> list[ir.Value]:
        """Emit and return the initial values of an output at several points.

        Args:
            points: for each point, the index of each loop of the reduction. Several points must be
                adjacent along the loop ``along``; the first point's index along this loop must be a
                multiple of the count of points.
            along: the index of that loop; None for a single point.
            output: the index of the output.
        """
        step = self._initial[output]
        if step is not None:
            return step.values(points, along, {})
        generic = self.reduction
        number = len(generic.maps) - generic.num_outputs + output
        wide = set(adjacent_operands(generic, along, len(points))) & {number}
        loads = AdjacentLoads(generic, len(points), wide)
        found: list[ir.Value] = []
        for loads.shift, point in enumerate(points):
            found.append(loads.value(number, point))
        return found

    def combined(
        self,
        combiner: Combiner,
        points: Sequence[Point],
        totals: Sequence[ir.Value],
        along: int | None,
    ) -> list[ir.Value]:
        """Emit the final values of the first output from the threads' totals; return them.

        Args:
            combiner: combines an initial value with a total.
            points: as in ``initial``.
            totals: the reduction's result at each point without the initial value.
            along: as in ``initial``.
        """
        pairs = zip(self.initial(points, along), totals, strict=True)
        return self.finish(points, [combiner.combine(*pair) for pair in pairs], along)

    def finish(
        self, points: Sequence[Point], values: Sequence[ir.Value], along: int | None = None
    ) -> list[ir.Value]:
        """Emit the epilogues that follow the reduction; return the values to store.

        Args:
            points: as in the method ``initial``.
            values: the reduction's result for the first output at each point, including the initial
                value.
            along: as in the method ``initial``.
        """
        for step, taken in self._epilogues:
            values = step.values(points, along, dict.fromkeys(taken, values))
        return list(values)

    def store(self, point: Point, values: Sequence[ir.Value], output: int = 0) -> None:
        """Emit the store of values that are adjacent in memory.

        ``point`` has the indices of the first value, and ``output`` is the index of the output.
        """
        buffer, places = self._targets[output]
        at = [as_value(evaluate(expr, point)) for expr in places]
        if len(values) == 1:
            memref.store(values[0], buffer, at)
            return
        kind = ir.VectorType.get([len(values)], buffer.type.element_type)
        whole = vector.from_elements(kind, list(values))
        num_bytes = len(values) * element_bytes(buffer.type)
        vector.store(whole, buffer, at, alignment=num_bytes)


@dataclass(frozen=True)
class _Step:
    """An element-wise operation that is computed at the points of a reduction's parallel loops.

    Attributes:
        generic: the operation.
        indices: the index of each loop of the operation, as an expression of the reduction's loops.
        num_loops: the count of loops of the reduction.
    """

    generic: Structured
    indices: tuple[ir.AffineExpr, ...]
    num_loops: int

    @staticmethod
    def at(
        generic: Structured, operand: int, places: Sequence[ir.AffineExpr], num_loops: int
    ) -> _Step:
        """Return ``generic`` as a step whose loop indices follow from the indices of an operand.

        ``operand`` is the operand's index in ``generic``, and ``places`` are the indices at which
        it is accessed, as expressions of the ``num_loops`` loops of the reduction. Each loop of
        ``generic`` must index a dimension of the operand by itself.
        """
        dims = [plain_dim(expr) for expr in generic.maps[operand].results]
        order = [dims.index(loop) for loop in range(len(generic.parallel))]
        return _Step(generic, tuple(places[dimension] for dimension in order), num_loops)

    @cached_property
    def places(self) -> list[ir.AffineExpr]:
        """The indices of the output's element, as expressions of the reduction's loops.

        At these indices, ``generic`` writes its output in the iteration with the loop indices
        ``indices``.
        """
        loops = ir.AffineMap.get(self.num_loops, 0, list(self.indices))
        return [
            expr.compose(loops).maybe_downcast() for expr in self.generic.output_maps[0].results
        ]

    def values(
        self, points: Sequence[Point], along: int | None, given: Mapping[int, Sequence[ir.Value]]
    ) -> list[ir.Value]:
        """Emit the operation at points of the reduction; return its results.

        Args:
            points: points that are adjacent along the reduction's loop ``along``.
            along: the index of that loop; None with a single point.
            given: elements of operands that are in registers, by the operand's index.
        """
        dims = [plain_dim(expr) for expr in self.indices]
        own = dims.index(along) if along is not None and along in dims else None
        places = [[evaluate(expr, point) for expr in self.indices] for point in points]
        return element_values(self.generic, places, own, given)


def element_values(
    generic: Structured,
    points: Sequence[Point],
    along: int | None,
    given: Mapping[int, Sequence[ir.Value]] = MappingProxyType({}),
) -> list[ir.Value]:
    """Emit an element-wise operation of one output at points; return its results.

    Args:
        generic: the operation, on memrefs.
        points: for each point, the index of each loop. Several points must be adjacent along the
            loop ``along``; the first point's index along this loop must be a multiple of the count
            of points.
        along: the index of that loop; None to load each element individually.
        given: elements of operands that are in registers, by the operand's index.
    """
    wide = adjacent_operands(generic, along, len(points))
    loads = _WithRegisters(AdjacentLoads(generic, len(points), wide), given)
    output = len(generic.maps) - 1
    found: list[ir.Value] = []
    for loads.shift, point in enumerate(points):
        old = loads.value(output, point) if generic.reads_output(0) else None
        found += emit_body(generic, point, [old], loads)
    return found


class _WithRegisters:
    """The elements of a body's operands, some of which are in registers."""

    def __init__(self, loads: AdjacentLoads, given: Mapping[int, Sequence[ir.Value]]) -> None:
        """Create a source that takes elements of operands from ``given``, or else loads them.

        ``given`` maps an operand's index to its elements at the adjacent points, in registers;
        ``loads`` emits the loads.
        """
        self._loads, self._given = loads, given
        self.shift = 0

    def value(self, number: int, point: Point) -> ir.Value:
        """Return operand ``number``'s element at ``point``, from a register or by an emitted load.

        Before the call, the field ``shift`` must be set to the index of ``point`` among the
        adjacent points for which elements in registers were given.
        """
        if number in self._given:
            return self._given[number][self.shift]
        self._loads.shift = self.shift
        return self._loads.value(number, point)
