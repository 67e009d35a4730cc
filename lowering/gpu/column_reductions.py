"""Emits column reductions by a plan, with wide loads, shuffles and shared memory."""

from __future__ import annotations

from collections.abc import Sequence

from rammer_mlir.bindings import arith, gpu, ir, memref, scf
from rammer_mlir.lowering.gpu.adjacent_loads import AdjacentLoads, adjacent_operands
from rammer_mlir.lowering.gpu.alignment import holds_aligned_runs
from rammer_mlir.lowering.gpu.column_plan import ColumnPlan
from rammer_mlir.lowering.gpu.generic_body import Point, emit_body
from rammer_mlir.lowering.gpu.guards import when
from rammer_mlir.lowering.gpu.iteration_space import unflatten
from rammer_mlir.lowering.gpu.lane_reductions import WIDTH, exchange
from rammer_mlir.lowering.gpu.results import Results
from rammer_mlir.lowering.gpu.threads import Threads
from rammer_mlir.lowering.kernels.affine import Index, add, as_value, constant, multiply
from rammer_mlir.lowering.kernels.combiners import find_combiners
from rammer_mlir.passes.ir.structured import Buffer, Structured, as_buffer


def emit_columns(results: Results, plan: ColumnPlan, threads: Threads, partial: Buffer) -> None:
    """Emit a planned ``linalg.generic`` as the code of each thread of a block.

    Args:
        results: emits the initial values, epilogues and stores of the operation, which is its
            ``reduction``, on memrefs.
        plan: the operation's plan.
        threads: the thread's index, and the size of the block.
        partial: shared memory for partial results, a memref of one dimension.
    """
    _Emitter(results, plan, threads, partial).emit()


class _Turn:
    """Emits the loads of a turn: the elements that a thread reduces in one iteration of its loop.

    A turn has equally many consecutive elements for each of several adjacent results. A vector load
    of the widest input gets one element for each of the results. If all results share an operand
    that is contiguous along the last reduction loop, a vector load gets several consecutive
    elements of this operand.
    """

    def __init__(
        self,
        generic: Structured,
        plan: ColumnPlan,
        width: int,
        points: Sequence[Sequence[Index | None]],
    ) -> None:
        """Emit all loads of the widest input consecutively, so that they are in flight together.

        Args:
            generic: the reduction.
            plan: its plan.
            width: the count of adjacent results.
            points: the loop indices of the first result's elements in the turn, one point for each
                element.
        """
        contraction = plan.contraction
        widest = contraction.inputs[plan.widest].number
        self._points = points
        self._columns = [AdjacentLoads(generic, width, [widest] * (width > 1)) for _ in points]
        for loads, point in zip(self._columns, points, strict=True):
            loads.value(widest, point)
        last = contraction.reduced[-1]
        self._runs: dict[int, list[AdjacentLoads]] = {}
        run = len(points) if contraction.extents[last] % len(points) == 0 else 1
        while run > 1:
            for number in adjacent_operands(generic, last, run):
                varies = plan.along in generic.used_loops[number]
                if not varies and number not in (widest, *self._runs):
                    self._runs[number] = [
                        AdjacentLoads(generic, run, [number]) for _ in range(len(points) // run)
                    ]
            run //= 2
        self.number = self.shift = 0

    def value(self, number: int, point: Point) -> ir.Value:
        """Return the element of operand ``number`` at ``point``.

        Before the call, the caller must set two fields: ``self.number`` to the index of the element
        among the consecutive elements of its result, and ``self.shift`` to the index of the result
        among the adjacent results.
        """
        if number not in self._runs:
            loads = self._columns[self.number]
            loads.shift = self.shift
            return loads.value(number, point)
        run = len(self._points) // len(self._runs[number])
        loads = self._runs[number][self.number // run]
        loads.shift = self.number % run
        return loads.value(number, point)


class _Emitter:
    def __init__(
        self, results: Results, plan: ColumnPlan, threads: Threads, partial: Buffer
    ) -> None:
        generic = results.reduction
        self._generic, self._plan, self._threads = generic, plan, threads
        self._results, self._partial = results, partial
        (self._combiner,) = find_combiners(generic) or []
        self._width = _width(generic, plan)
        self._columns = plan.at(self._width)
        self._order = [n for n in plan.contraction.parallel if n != plan.along] + [plan.along]

    def emit(self) -> None:
        """Emit the code by which each thread computes its share of all results of the block."""
        columns = self._columns
        if columns.tiles > columns.threads:
            self._tiles_in_turns()
            return
        place = arith.remui(self._threads.number, constant(columns.places))
        row = arith.divui(self._threads.number, constant(columns.places))
        results = self._reduce(place, row)
        if columns.in_warp:
            results = [self._combine_in_warp(value) for value in results]
        if columns.parts == 1:
            self._store(place, row, results)
        else:
            self._combine_in_block(place, row, results)

    def _tiles_in_turns(self) -> None:
        """Emit a thread's loop over the tiles that it reduces alone, without help by other threads.

        A tile is a few adjacent results. The tiles are assigned to the threads cyclically. The loop
        is used if there are more tiles than threads.
        """
        columns = self._columns
        loop = scf.ForOp(self._threads.number, constant(columns.tiles), constant(columns.threads))
        with ir.InsertionPoint(loop.body):
            begin = [self._combiner.identity()] * self._width
            place = loop.induction_variable
            self._add_tile(place, self._walk(place, constant(0), begin))
            scf.YieldOp([])

    def _reduce(self, place: ir.Value, row: ir.Value) -> list[ir.Value]:
        """Emit a thread's share of the reduction of a tile; return the partial results.

        A tile is a few adjacent results. ``place`` is the index of the thread's tile, and ``row``
        the index of the thread among the threads with this tile. The returned list has a partial
        result for each result of the tile. For a thread without a tile, these are the combiner's
        identity.
        """
        columns = self._columns
        begin = [self._combiner.identity()] * self._width
        if columns.tiles == columns.places and columns.places * columns.rows == columns.threads:
            return self._walk(place, row, begin)
        active = arith.andi(_below(place, columns.tiles), _below(row, columns.rows))
        choice = scf.IfOp(active, [value.type for value in begin], has_else=True)
        with ir.InsertionPoint(choice.then_block):
            scf.YieldOp(self._walk(place, row, begin))
        with ir.InsertionPoint(choice.else_block):
            scf.YieldOp(begin)
        return list(choice.results)

    def _walk(self, place: ir.Value, row: ir.Value, begin: Sequence[ir.Value]) -> list[ir.Value]:
        """Emit a thread's loop over its share of the reduced elements; return the tile's results.

        ``place`` is the index of the thread's tile, and ``row`` the index of the thread among the
        threads with this tile. In each iteration a thread reduces ``unrolled`` consecutive elements
        of each result; these runs of elements are assigned to the threads cyclically. ``begin`` has
        the initial value of each result in the tile.
        """
        columns, total = self._columns, self._plan.num_reduced
        turn = columns.unrolled
        first = self._point(place)
        start = as_value(multiply(row, turn))
        loop = scf.ForOp(start, constant(total), constant(columns.rows * turn), list(begin))
        with ir.InsertionPoint(loop.body):
            points = self._elements(first, loop.induction_variable)
            loads = _Turn(self._generic, self._plan, self._width, points)
            results = list(loop.inner_iter_args)
            for number, point in enumerate(points):
                results = self._add_element(loads, number, point, results)
            scf.YieldOp(results)
        return list(loop.results)

    def _elements(self, first: Sequence[Index], number: ir.Value) -> list[list[Index | None]]:
        """Emit the loop indices of each element that a thread reduces in one iteration.

        ``number`` is the linear index of the first element among the reduced elements of a result.
        ``first`` has the index of the tile's first result along each parallel loop.
        """
        contraction = self._plan.contraction
        sizes: list[Index] = [contraction.extents[loop] for loop in contraction.reduced]
        turn = self._columns.unrolled
        together = contraction.extents[contraction.reduced[-1]] % turn == 0
        base = unflatten(number, sizes) if together else None
        found: list[list[Index | None]] = []
        for shift in range(turn):
            if base is None:
                indices = unflatten(as_value(add(number, shift)), sizes)
            else:
                indices = [*base[:-1], add(base[-1], shift)]
            point: list[Index | None] = [None] * len(contraction.extents)
            for loop, index in (*zip(self._order, first, strict=True),
                                *zip(contraction.reduced, indices, strict=True)):  # fmt: skip
                point[loop] = index
            found.append(point)
        return found

    def _point(self, place: ir.Value) -> list[Index]:
        """Emit the index of a tile's first result along each parallel loop.

        ``place`` is the index of the tile. The loops are ordered as in the contraction, except that
        the plan's loop ``along`` comes last.
        """
        sizes: list[Index] = [self._plan.contraction.extents[loop] for loop in self._order]
        sizes[-1] = self._plan.contraction.extents[self._plan.along] // self._width
        found = unflatten(place, sizes)
        found[-1] = multiply(found[-1], self._width)
        return found

    def _add_element(
        self, loads: _Turn, number: int, point: Sequence[Index | None], results: Sequence[ir.Value]
    ) -> list[ir.Value]:
        """Emit for each result of the tile the reduction of an element; return the new results.

        Each result has its own element. ``number`` is an element's index among those that ``loads``
        loads for a result. ``point`` has the loop indices of the element of the tile's first
        result. ``results`` has the results before the reduction.
        """
        first = point[self._plan.along]
        assert first is not None, "the point has an index of each parallel loop"
        found: list[ir.Value] = []
        for shift, value in enumerate(results):
            loads.number, loads.shift = number, shift
            shifted = list(point)
            shifted[self._plan.along] = add(first, shift)
            found += emit_body(self._generic, shifted, [value], loads)
        return found

    def _combine_in_warp(self, value: ir.Value) -> ir.Value:
        """Emit shuffles that combine the partial results of a warp's threads with the same tile.

        ``value`` is a thread's partial result. Every thread gets the combined value.
        """
        distance = self._columns.places
        while distance < WIDTH:
            value = self._combiner.combine(value, exchange(value, distance))
            distance *= 2
        return value

    def _store(self, place: ir.Value, row: ir.Value, results: Sequence[ir.Value]) -> None:
        columns = self._columns
        first_row = arith.cmpi(arith.CmpIPredicate.eq, row, constant(0))
        with when(arith.andi(first_row, _below(place, columns.tiles))):
            self._add_tile(place, results)

    def _add_tile(self, place: ir.Value, results: Sequence[ir.Value]) -> None:
        first = self._point(place)
        adjacent = self._results.last_loop == self._plan.along
        width = self._results.width(self._width) if adjacent else 1
        for begin in range(0, len(results), width):
            shifts = range(begin, begin + width)
            places = [[*first[:-1], add(first[-1], shift)] for shift in shifts]
            self._add_to_output(places, results[begin : begin + width])

    def _combine_in_block(
        self, place: ir.Value, row: ir.Value, results: Sequence[ir.Value]
    ) -> None:
        """Emit the combination of all threads' partial results, and the store of the totals.

        The partial results are exchanged in shared memory. ``results`` has the partial results of a
        thread for the tile with index ``place``. ``row`` is the index of the thread among the
        threads with this tile.
        """
        columns, total = self._columns, self._plan.num_results
        writes = _below(place, columns.tiles)
        part = row
        if columns.in_warp:
            part = arith.divui(self._threads.number, constant(WIDTH))
            lane = arith.remui(self._threads.number, constant(WIDTH))
            writes = arith.andi(_below(lane, columns.places), writes)
        with when(arith.andi(writes, _below(part, columns.parts))):
            base = add(multiply(part, total), multiply(place, self._width))
            for shift, value in enumerate(results):
                memref.store(value, self._partial, [as_value(add(base, shift))])
        gpu.barrier()
        sizes: list[Index] = [self._plan.contraction.extents[loop] for loop in self._order]
        loop = scf.ForOp(self._threads.number, constant(total), constant(columns.threads))
        with ir.InsertionPoint(loop.body):
            number = loop.induction_variable
            whole = memref.load(self._partial, [number])
            for n in range(1, columns.parts):
                value = memref.load(self._partial, [as_value(add(number, n * total))])
                whole = self._combiner.combine(whole, value)
            self._add_to_output([unflatten(number, sizes)], [whole])
            scf.YieldOp([])

    def _add_to_output(self, places: Sequence[Sequence[Index]], sums: Sequence[ir.Value]) -> None:
        """Emit the combination of results with their initial values, the epilogues, and one store.

        The results are adjacent along the loop ``along`` of the plan. ``places`` has, for each
        result, its index along each parallel loop; the loops are in the order of ``_point``.
        ``sums`` has the results without the initial values.
        """
        points: list[list[Index]] = []
        for place in places:
            point: list[Index] = [0] * len(self._plan.contraction.extents)
            for loop, index in zip(self._order, place, strict=True):
                point[loop] = index
            points.append(point)
        along = self._plan.along if len(points) > 1 else None
        values = self._results.combined(self._combiner, points, sums, along)
        self._results.store(points[0], values)


def _below(number: ir.Value, limit: int) -> ir.Value:
    return arith.cmpi(arith.CmpIPredicate.ult, number, constant(limit))


def _width(generic: Structured, plan: ColumnPlan) -> int:
    """Return how many adjacent elements of the widest input a thread may load by one load.

    The count is at most ``plan.most_width``, and limited by the alignment of the input's rows.
    """
    access = plan.contraction.inputs[plan.widest]
    source = _source(generic, plan)
    width = plan.most_width
    while width > 1 and not (
        access.constants[-1] % width == 0 and holds_aligned_runs(source, width)
    ):
        width //= 2
    return width


def _source(generic: Structured, plan: ColumnPlan) -> Buffer:
    """Return the buffer of the input with the most elements (the widest input)."""
    return as_buffer(generic.operands[plan.contraction.inputs[plan.widest].number])
