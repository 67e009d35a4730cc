"""Code generation for planned column reductions: wide loads, shuffles, and shared memory."""

from __future__ import annotations

from collections.abc import Sequence

from rammer_mlir.bindings import arith, gpu, ir, memref, scf, vector
from rammer_mlir.lowering.gpu.alignment import holds_aligned_runs
from rammer_mlir.lowering.gpu.column_plan import ColumnPlan
from rammer_mlir.lowering.gpu.generic_body import Loads, Point, emit_body, indices_at
from rammer_mlir.lowering.gpu.guards import when
from rammer_mlir.lowering.gpu.iteration_space import unflatten
from rammer_mlir.lowering.gpu.lane_reductions import WIDTH, exchange
from rammer_mlir.lowering.gpu.threads import Threads
from rammer_mlir.lowering.kernels.affine import Index, add, as_value, constant, multiply
from rammer_mlir.lowering.kernels.combiners import find_combiners
from rammer_mlir.passes.ir.structured import Buffer, Structured, as_buffer, element_bytes


def emit_columns(generic: Structured, plan: ColumnPlan, threads: Threads, partial: Buffer) -> None:
    """Emit a planned ``linalg.generic`` as the code of each thread of a block.

    Args:
        generic: the operation, on memrefs.
        plan: its plan.
        threads: the thread's number, and the size of the block.
        partial: shared memory for partial results, a memref of one dimension.
    """
    _Emitter(generic, plan, threads, partial).emit()


class _WideLoads:
    """Emits loads of a thread's input elements.

    Adjacent elements of the widest input are loaded together as a vector.
    """

    def __init__(self, generic: Structured, plan: ColumnPlan, width: int) -> None:
        """Begin without loaded elements; vectors of the widest input have ``width`` elements.

        Each element is loaded once and its value reused, so the caller must not emit stores to the
        inputs as long as it uses this object.
        """
        access = plan.contraction.inputs[plan.widest]
        self._number, self._along, self._width = access.number, plan.along, width
        self._map = generic.maps[access.number]
        self._source = _source(generic, plan)
        self._loads = Loads(generic)
        self._loaded: dict[tuple[Index | None, ...], ir.Value] = {}
        self.shift = 0

    def value(self, number: int, point: Point) -> ir.Value:
        """Return the element of operand ``number`` at ``point``, loaded at its first use.

        ``point`` has an index per loop. The caller must set the field ``shift`` before: the
        distance of ``point`` from the first of the adjacent results that the thread computes.
        """
        if number != self._number or self._width == 1:
            return self._loads.value(number, point)
        return vector.extract(self._wide(point), [], [self.shift])

    def _wide(self, point: Point) -> ir.Value:
        others = tuple(index for loop, index in enumerate(point) if loop != self._along)
        if others not in self._loaded:
            kind = ir.VectorType.get([self._width], self._source.type.element_type)
            num_bytes = self._width * element_bytes(self._source.type)
            at = indices_at(self._map, point)
            self._loaded[others] = vector.load(kind, self._source, at, alignment=num_bytes)
        return self._loaded[others]


class _Emitter:
    def __init__(
        self, generic: Structured, plan: ColumnPlan, threads: Threads, partial: Buffer
    ) -> None:
        self._generic, self._plan, self._threads = generic, plan, threads
        self._partial = partial
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
        """Emit a thread's loop over tiles, each of which the thread reduces without other threads.

        A tile is a number of adjacent results. The loop is used if there are more tiles than
        threads.
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

        ``place`` is the number of the tile, which consists of adjacent results, each with a partial
        result. The threads that share a tile have different numbers ``row``: each reduces every
        n-th element, from element ``row`` on, where n is the number of rows. A thread without a
        tile returns the combiner's identity.
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

        ``place`` is the number of the tile. The share is every n-th element from number ``row`` on,
        where n is the number of threads that share a tile. ``begin`` has the initial value of each
        result in the tile.
        """
        columns, total = self._columns, self._plan.num_reduced
        step = columns.rows * columns.unrolled
        first = self._point(place)
        loop = scf.ForOp(row, constant(total), constant(step), list(begin))
        with ir.InsertionPoint(loop.body):
            results = list(loop.inner_iter_args)
            for n in range(columns.unrolled):
                number = as_value(add(loop.induction_variable, n * columns.rows))
                results = self._add_element(first, number, results)
            scf.YieldOp(results)
        return list(loop.results)

    def _point(self, place: ir.Value) -> list[Index]:
        """Emit the index of the first result of tile number ``place`` along each parallel loop.

        The loops are in the order of the field ``_order``.
        """
        sizes: list[Index] = [self._plan.contraction.extents[loop] for loop in self._order]
        sizes[-1] = self._plan.contraction.extents[self._plan.along] // self._width
        found = unflatten(place, sizes)
        found[-1] = multiply(found[-1], self._width)
        return found

    def _add_element(
        self, first: Sequence[Index], number: ir.Value, results: Sequence[ir.Value]
    ) -> list[ir.Value]:
        point: list[Index | None] = [None] * len(self._plan.contraction.extents)
        reduced = self._plan.contraction.reduced
        indices = unflatten(number, [self._plan.contraction.extents[loop] for loop in reduced])
        for loop, index in (*zip(self._order, first, strict=True),
                            *zip(reduced, indices, strict=True)):  # fmt: skip
            point[loop] = index
        loads = _WideLoads(self._generic, self._plan, self._width)
        found: list[ir.Value] = []
        for shift, value in enumerate(results):
            loads.shift = shift
            shifted = list(point)
            shifted[self._plan.along] = add(first[-1], shift)
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
        for shift, value in enumerate(results):
            self._add_to_output([*first[:-1], add(first[-1], shift)], value)

    def _combine_in_block(
        self, place: ir.Value, row: ir.Value, results: Sequence[ir.Value]
    ) -> None:
        """Emit the combination of all threads' partial results in shared memory, and their store.

        A thread has the partial ``results`` of tile number ``place``; ``row`` distinguishes the
        threads with the same tile. The combined results are accumulated into the output of the
        operation.
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
            self._add_to_output(unflatten(number, sizes), whole)
            scf.YieldOp([])

    def _add_to_output(self, at: Sequence[Index], value: ir.Value) -> None:
        point: list[Index] = [0] * len(self._plan.contraction.extents)
        for loop, index in zip(self._order, at, strict=True):
            point[loop] = index
        (buffer,), (map_,) = self._generic.outputs, self._generic.output_maps
        place = indices_at(map_, point)
        old = memref.load(buffer, place)
        memref.store(self._combiner.combine(old, value), buffer, place)


def _below(number: ir.Value, limit: int) -> ir.Value:
    return arith.cmpi(arith.CmpIPredicate.ult, number, constant(limit))


def _width(generic: Structured, plan: ColumnPlan) -> int:
    """Return the number of adjacent elements of the widest input that a thread may load at once."""
    access = plan.contraction.inputs[plan.widest]
    source = _source(generic, plan)
    width = plan.most_width
    while width > 1 and not (
        access.constants[-1] % width == 0 and holds_aligned_runs(source, width)
    ):
        width //= 2
    return width


def _source(generic: Structured, plan: ColumnPlan) -> Buffer:
    """Return the buffer of the widest input, which is the operand with the most elements."""
    return as_buffer(generic.operands[plan.contraction.inputs[plan.widest].number])
