"""The code of a planned reduction of columns: wide loads, shuffles, and shared memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rammer_mlir.bindings import arith, gpu, ir, memref, scf, vector
from rammer_mlir.lowering.gpu.alignment import holds_aligned_runs
from rammer_mlir.lowering.gpu.body import Loads, emit_body, output_maps
from rammer_mlir.lowering.gpu.column_plan import ColumnPlan
from rammer_mlir.lowering.gpu.iteration_space import Loops, unflatten
from rammer_mlir.lowering.gpu.lane_reductions import WIDTH, combine, combiners, exchange, identities
from rammer_mlir.lowering.gpu.threads import Threads
from rammer_mlir.lowering.kernels.affine import (
    Index,
    add,
    as_value,
    constant,
    evaluate,
    multiply,
)


def emit_columns(generic: Any, plan: ColumnPlan, threads: Threads, partial: Any) -> None:
    """Emit a planned ``linalg.generic`` as the code of one thread of a block.

    Args:
        generic: the operation, on memrefs.
        plan: its plan.
        threads: the thread, and how many there are.
        partial: shared memory for partial results, a memref of one dimension.
    """
    _Emitter(generic, plan, threads, partial).emit()


class _WideLoads:
    """Loads of inputs, of the widest one several neighbours at once."""

    def __init__(self, generic: Any, plan: ColumnPlan, width: int) -> None:
        """Begin a straight piece of code, in which no memory is written."""
        access = plan.contraction.inputs[plan.widest]
        self._number, self._along, self._width = access.number, plan.along, width
        self._map = generic.attributes["indexing_maps"][access.number].value
        self._source = generic.operands[access.number]
        self._loads = Loads(generic)
        self._loaded: dict[tuple[Index | None, ...], Any] = {}
        self.shift = 0

    def value(self, number: int, point: Sequence[Index | None]) -> Any:
        """Return the element of an operand at a point that lies ``shift`` behind its tile."""
        if number != self._number or self._width == 1:
            return self._loads.value(number, point)
        return vector.extract(self._wide(point), [], [self.shift])

    def _wide(self, point: Sequence[Index | None]) -> Any:
        others = tuple(index for loop, index in enumerate(point) if loop != self._along)
        if others not in self._loaded:
            at = [as_value(evaluate(result, point)) for result in self._map.results]
            element = self._source.type.element_type
            kind = ir.VectorType.get([self._width], element)
            self._loaded[others] = vector.load(
                kind, self._source, at, alignment=self._width * element.width // 8
            )
        return self._loaded[others]


class _Emitter:
    def __init__(self, generic: Any, plan: ColumnPlan, threads: Threads, partial: Any) -> None:
        self._generic, self._plan, self._threads = generic, plan, threads
        self._partial = partial
        self._loops = Loops.of(generic)
        (self._combiner,) = combiners(generic) or []
        self._width = _width(generic, plan)
        self._columns = plan.at(self._width)
        self._order = [n for n in plan.contraction.parallel if n != plan.along] + [plan.along]

    def emit(self) -> None:
        """Emit all results of the block."""
        columns = self._columns
        if columns.tiles > columns.threads:
            self._tiles_in_turns()
            return
        place = arith.remui(self._threads.number, constant(columns.places))
        row = arith.divui(self._threads.number, constant(columns.places))
        results = self._reduce(place, row)
        if columns.in_warp:
            results = [self._meet_in_warp(value) for value in results]
        if columns.parts == 1:
            self._store(place, row, results)
        else:
            self._meet_in_block(place, row, results)

    def _tiles_in_turns(self) -> None:
        """Emit a loop over a thread's tiles; it reduces all of their elements."""
        columns = self._columns
        loop = scf.ForOp(self._threads.number, constant(columns.tiles), constant(columns.threads))
        with ir.InsertionPoint(loop.body):
            begin = identities([self._combiner] * self._width)
            place = loop.induction_variable
            self._add_tile(place, self._walk(place, constant(0), begin))
            scf.YieldOp([])

    def _reduce(self, place: Any, row: Any) -> list[Any]:
        """Emit a thread's part of its tile's results; the identity where it has none."""
        columns = self._columns
        begin = identities([self._combiner] * self._width)
        if columns.tiles == columns.places and columns.places * columns.rows == columns.threads:
            return self._walk(place, row, begin)
        active = arith.andi(_below(place, columns.tiles), _below(row, columns.rows))
        choice = scf.IfOp(active, [value.type for value in begin], has_else=True)
        with ir.InsertionPoint(choice.then_block):
            scf.YieldOp(self._walk(place, row, begin))
        with ir.InsertionPoint(choice.else_block):
            scf.YieldOp(begin)
        return list(choice.results)

    def _walk(self, place: Any, row: Any, begin: Sequence[Any]) -> list[Any]:
        """Emit the loop over the elements of a row of threads, several at a time."""
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

    def _point(self, place: Any) -> list[Index]:
        """Return the first result of a tile, an index of each loop of ``_order``."""
        sizes: list[Index] = [self._plan.contraction.extents[loop] for loop in self._order]
        sizes[-1] = self._plan.contraction.extents[self._plan.along] // self._width
        found = unflatten(place, sizes)
        found[-1] = multiply(found[-1], self._width)
        return found

    def _add_element(
        self, first: Sequence[Index], number: Any, results: Sequence[Any]
    ) -> list[Any]:
        point: list[Index | None] = [None] * len(self._plan.contraction.extents)
        reduced = self._plan.contraction.reduced
        indices = unflatten(number, [self._plan.contraction.extents[loop] for loop in reduced])
        for loop, index in (*zip(self._order, first, strict=True),
                            *zip(reduced, indices, strict=True)):  # fmt: skip
            point[loop] = index
        loads = _WideLoads(self._generic, self._plan, self._width)
        found: list[Any] = []
        for shift, value in enumerate(results):
            loads.shift = shift
            shifted = list(point)
            shifted[self._plan.along] = add(first[-1], shift)
            found += emit_body(self._generic, shifted, [value], loads)
        return found

    def _meet_in_warp(self, value: Any) -> Any:
        """Emit exchanges after which all threads of a place have the results of their warp."""
        distance = self._columns.places
        while distance < WIDTH:
            value = combine(self._combiner, value, exchange(value, distance))
            distance *= 2
        return value

    def _store(self, place: Any, row: Any, results: Sequence[Any]) -> None:
        columns = self._columns
        first_row = arith.cmpi(arith.CmpIPredicate.eq, row, constant(0))
        guard = scf.IfOp(arith.andi(first_row, _below(place, columns.tiles)))
        with ir.InsertionPoint(guard.then_block):
            self._add_tile(place, results)
            scf.YieldOp([])

    def _add_tile(self, place: Any, results: Sequence[Any]) -> None:
        first = self._point(place)
        for shift, value in enumerate(results):
            self._add_to_output([*first[:-1], add(first[-1], shift)], value)

    def _meet_in_block(self, place: Any, row: Any, results: Sequence[Any]) -> None:
        """Combine partial results in shared memory, and add them to the output."""
        columns, total = self._columns, self._plan.num_results
        writes = _below(place, columns.tiles)
        part = row
        if columns.in_warp:
            part = arith.divui(self._threads.number, constant(WIDTH))
            lane = arith.remui(self._threads.number, constant(WIDTH))
            writes = arith.andi(_below(lane, columns.places), writes)
        guard = scf.IfOp(arith.andi(writes, _below(part, columns.parts)))
        with ir.InsertionPoint(guard.then_block):
            base = add(multiply(part, total), multiply(place, self._width))
            for shift, value in enumerate(results):
                memref.store(value, self._partial, [as_value(add(base, shift))])
            scf.YieldOp([])
        gpu.barrier()
        sizes: list[Index] = [self._plan.contraction.extents[loop] for loop in self._order]
        loop = scf.ForOp(self._threads.number, constant(total), constant(columns.threads))
        with ir.InsertionPoint(loop.body):
            number = loop.induction_variable
            whole = memref.load(self._partial, [number])
            for n in range(1, columns.parts):
                value = memref.load(self._partial, [as_value(add(number, n * total))])
                whole = combine(self._combiner, whole, value)
            self._add_to_output(unflatten(number, sizes), whole)
            scf.YieldOp([])

    def _add_to_output(self, at: Sequence[Index], value: Any) -> None:
        point: list[Index] = [0] * len(self._plan.contraction.extents)
        for loop, index in zip(self._order, at, strict=True):
            point[loop] = index
        ((buffer, access),) = output_maps(self._generic)
        place = [as_value(evaluate(result, point)) for result in access.results]
        old = memref.load(buffer, place)
        memref.store(combine(self._combiner, old, value), buffer, place)


def _below(number: Any, limit: int) -> Any:
    return arith.cmpi(arith.CmpIPredicate.ult, number, constant(limit))


def _width(generic: Any, plan: ColumnPlan) -> int:
    """Return how many neighbours a thread may load at once, as far as alignment is provable."""
    access = plan.contraction.inputs[plan.widest]
    source = generic.operands[access.number]
    width = plan.most_width
    while width > 1 and not (
        access.constants[-1] % width == 0 and holds_aligned_runs(source, width)
    ):
        width //= 2
    return width
