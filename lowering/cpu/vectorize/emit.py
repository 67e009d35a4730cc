"""Emits a loop nest as loops over micro tiles in registers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from typing import TypeAlias

from rammer_mlir.bindings import arith, ir, scf
from rammer_mlir.lowering.cpu.vectorize import memory
from rammer_mlir.lowering.cpu.vectorize.body import Body, Values, select
from rammer_mlir.lowering.cpu.vectorize.memory import Mask, Scope
from rammer_mlir.lowering.cpu.vectorize.nest import Finish, Nest
from rammer_mlir.lowering.cpu.vectorize.prefetch import find_prefetches
from rammer_mlir.lowering.cpu.vectorize.registers import Instance, Registers, Span, Spans
from rammer_mlir.lowering.cpu.vectorize.shuffle import joined, segment
from rammer_mlir.lowering.cpu.vectorize.tile import TilePlan
from rammer_mlir.lowering.kernels.affine import Index, add, as_value, constant
from rammer_mlir.lowering.kernels.combiners import Combiner

_REST = 3
"""Ratio between the points of a full tile and of the smaller tiles of the remainder loop."""

_CHAINS = 4
"""Number of registers whose long chains of dependent operations alternate in the code.

The scheduler of a core holds some 64 operations that wait for operands. Four exponentials have
more operations. Four chains leave enough of 16 registers for constants.
"""

Step: TypeAlias = "Callable[[Spans, list[ir.Value]], list[ir.Value]]"
"""A function that emits the body of nested loops.

It gets the loops' spans by dimension and the loop-carried values; it returns their next values.
"""

Inside: TypeAlias = "Callable[[Span, list[ir.Value]], list[ir.Value]]"


class NestEmitter:
    """Emits a nest at the current insertion point as loops over the micro tiles of ``plan``.

    ``initial`` has an element for each output: the constant that the output is known to contain
    before the nest, or None. ``plan`` identifies a loop by its position in ``nest.loops``; the
    methods of this class identify a loop by its dimension of the ``linalg.generic``. The argument
    ``spans`` of these methods maps a dimension to the part of its loop that the emitted code
    computes. An ``Instance`` is a register of a micro tile.
    """

    def __init__(self, nest: Nest, plan: TilePlan, initial: Sequence[ir.Value | None]) -> None:
        self.nest = nest
        self.plan = plan
        self.initial = initial
        self.registers = Registers(nest, plan)
        self.lanes = plan.lanes
        self.vector = self.registers.vector
        self.unroll = self.registers.unroll
        self.order = [nest.loops[loop] for loop in plan.order]
        self.full = {nest.loops[loop] for loop in plan.full}
        self.reductions = [d for d in nest.loops if nest.reduction[d]]
        self.horizontal = self.vector in self.reductions
        self.inputs = nest.operands[: len(nest.operands) - nest.outputs]
        self.outputs = nest.operands[len(self.inputs) :]
        self.prefetches = find_prefetches(nest, plan)
        self.captured = [self._capture(value) for value in nest.body.captured]
        finish = nest.finish
        self.finish_captured = [
            self._capture(value) for value in ([] if finish is None else finish.body.captured)
        ]

    def _capture(self, value: ir.Value | ir.Operation) -> ir.Value:
        """Return a value from outside of the loops for use inside the emitted loops.

        A value that the operation's body uses but does not define is returned as it is. A constant
        operation of the body is cloned in front of the loops.
        """
        return value if isinstance(value, ir.Value) else value.operation.clone().results[0]

    def emit(self) -> None:
        """Emit the whole nest with its stores."""
        self._nested(self.order, {}, [], self._micro_tile)

    # Loops.

    def _nested(
        self, loops: list[int], spans: Spans, carried: list[ir.Value], step: Step
    ) -> list[ir.Value]:
        """Emit loops around the code that ``step`` emits; return the final loop-carried values.

        ``loops`` are the dimensions to iterate over, outermost first. ``spans`` has the current
        range of each enclosing loop, and ``carried`` the initial loop-carried values.
        """
        if not loops:
            return step(spans, carried)
        loop, rest = loops[0], loops[1:]

        def inside(span: Span, values: list[ir.Value]) -> list[ir.Value]:
            return self._nested(rest, spans | {loop: span}, values, step)

        size = self.nest.sizes[loop]
        if not isinstance(size, int):
            return self._dynamic_loop(loop, size, carried, inside)
        if loop in self.full:
            for number in range(size):
                carried = inside(Span(number, 1), carried)
            return carried
        tile, panel = self._points(loop), self.nest.panels.get(loop, 0)
        if not panel or panel % tile == 0:
            return self._tiles(0, size, tile, carried, inside)

        def tiles_of_panel(span: Span, values: list[ir.Value]) -> list[ir.Value]:
            return self._tiles(span.base, span.points, tile, values, inside)

        return self._tiles(0, size, panel, carried, tiles_of_panel)

    def _tiles(
        self, begin: Index, points: int, tile: int, carried: list[ir.Value], inside: Inside
    ) -> list[ir.Value]:
        """Emit a loop over tiles of ``tile`` points, and a smaller last tile if points remain.

        The tiles cover the ``points`` points of the range that starts at ``begin``. ``inside``
        emits the code of a tile. Returns the final loop-carried values.
        """
        full, remainder = divmod(points, tile)
        end = add(begin, full * tile)
        if full > 1:
            carried = self._for(begin, end, tile, carried, inside, Span(0, tile))
        elif full:
            carried = inside(Span(begin, tile), carried)
        if remainder:
            carried = inside(Span(end, remainder), carried)
        return carried

    def _dynamic_loop(
        self,
        loop: int,
        size: ir.Value,
        carried: list[ir.Value],
        inside: Inside,
    ) -> list[ir.Value]:
        """Emit a loop of dynamic size and its remainder loop; return the final loop-carried values.

        If ``loop`` is the loop along the lanes, the registers of its remainder loop are masked.
        Otherwise the remainder loop has smaller tiles. ``inside`` emits the body of both loops.
        """
        tile = self._points(loop)
        if tile == 1:
            return self._for(0, size, 1, carried, inside, Span(0, 1))
        end = arith.subi(size, arith.remui(size, constant(tile)))
        carried = self._for(0, end, tile, carried, inside, Span(0, tile))
        if loop != self.vector:
            return self._rest(end, size, tile // _REST, carried, inside)
        return self._for(end, size, self.lanes, carried, inside, Span(0, self.lanes, size))

    def _rest(
        self,
        begin: ir.Value,
        size: ir.Value,
        tile: int,
        carried: list[ir.Value],
        inside: Inside,
    ) -> list[ir.Value]:
        """Emit the remainder loop from ``begin`` to ``size``; return the final loop-carried values.

        In a nest with a reduction, tiles of ``tile`` points come first, then single points. Each
        iteration of a reduction waits for the latency of the accumulation, so that a small tile
        takes no longer than a single point. In other nests, all tiles are single points. ``inside``
        emits the body.
        """
        if tile > 1 and self.reductions:
            left = arith.subi(size, begin)
            end = arith.subi(size, arith.remui(left, constant(tile)))
            carried = self._for(begin, end, tile, carried, inside, Span(0, tile))
            begin = end
        return self._for(begin, size, 1, carried, inside, Span(0, 1))

    def _for(
        self,
        lower: Index,
        upper: Index,
        step: int,
        carried: list[ir.Value],
        inside: Inside,
        span: Span,
    ) -> list[ir.Value]:
        """Emit an ``scf.for`` from ``lower`` to ``upper``; return the final values of ``carried``.

        ``inside`` emits the body. Its argument is the span of an iteration: ``span`` with the
        induction variable as its base. An iteration is valid if it is within the bounds of the
        nest's loop. If ``span.valid`` is not None, it is the index at which the valid iterations
        end; ``valid`` of the iteration's span is then the count of valid iterations from its base.
        """
        loop = scf.ForOp(as_value(lower), as_value(upper), constant(step), carried)
        outer_scope, self.registers.scope = self.registers.scope, Scope()
        with ir.InsertionPoint(loop.body):
            base = loop.induction_variable
            valid = None if span.valid is None else arith.subi(span.valid, base)
            values = inside(Span(base, span.points, valid), list(loop.inner_iter_args))
            scf.YieldOp(values)
        self.registers.scope = outer_scope
        return list(loop.results)

    def _points(self, loop: int) -> int:
        if loop == self.vector:
            return self.plan.vectors * self.lanes
        return self.unroll.get(loop, 1)

    # Micro tiles.

    def _micro_tile(self, spans: Spans, carried: list[ir.Value]) -> list[ir.Value]:
        """Emit a micro tile: initial values, reduction loops, epilogue and stores.

        Returns ``carried`` unchanged, because micro tiles pass no values to one another.
        """
        self.registers.scope = Scope()
        instances = self._instances(spans)
        if self.reductions:
            results = self.reduced(spans, instances)
        else:
            results = self._bodies(
                self.nest.body,
                spans,
                instances,
                lambda number: self._slots(
                    spans, instances[number], self._initial(spans, instances[number])
                ),
            )
        finish = self.nest.finish
        if finish is None or finish.keeps:
            for number, output in enumerate(self.outputs):
                values = [result[number] for result in results]
                self.registers.store_all(output, spans, instances, values)
        if finish is not None:
            finished = self._bodies(
                finish.body,
                spans,
                instances,
                lambda number: self._finish_slots(
                    finish, spans, instances[number], *results[number]
                ),
            )
            values = [value for (value,) in finished]
            self.registers.store_all(finish.operands[-1], spans, instances, values)
        return carried

    def reduced(self, spans: Spans, instances: list[Instance]) -> list[list[ir.Value]]:
        """Emit the reduction loops of a micro tile, and return their results.

        ``spans`` has the micro tile's part of each loop, and ``instances`` its registers. The
        returned list has an element for each register: the list of the results of all outputs.
        """
        if self.horizontal:
            return self._reduce_horizontally(spans, instances)
        first = [value for i in instances for value in self._before(spans, i)]
        step = partial(self._accumulate, instances)
        return self._grouped(self._nested(self.reductions, spans, first, step))

    def _finish_slots(
        self, finish: Finish, spans: Spans, instance: Instance, value: ir.Value
    ) -> Values:
        """Return the values in the epilogue's slots before the epilogue is emitted for a register.

        Slots of values that the epilogue computes have None. ``value`` is the reduction's result in
        the register ``instance``. ``spans`` has the micro tile's part of each loop.
        """
        body = finish.body
        values: Values = [None] * len(body.slots)
        for slot, operand in enumerate(finish.operands[:-1]):
            if slot == finish.argument:
                values[slot] = value
            elif body.uses(slot):
                values[slot] = self.registers.load(operand, spans, instance)
        values[body.arguments : body.arguments + len(self.finish_captured)] = self.finish_captured
        return values

    def _grouped(self, flat: list[ir.Value]) -> list[list[ir.Value]]:
        count = len(self.outputs)
        return [flat[i : i + count] for i in range(0, len(flat), count)]

    def _instances(self, spans: Spans) -> list[Instance]:
        """Return the registers of a micro tile, along its unrolled loops and its vector loop.

        ``spans`` has the micro tile's part of each loop.
        """
        loops = [loop for loop in self.unroll if loop in spans]
        along: list[tuple[dict[int, int], Mask]] = [({}, Mask(None, None))]
        if self.vector in spans:
            assert self.vector is not None
            lanes = self.registers.along_lanes(spans[self.vector])
            along = [({self.vector: offset}, mask) for offset, mask in lanes]
        points = [
            dict(zip(loops, offsets, strict=True))
            for offsets in product(*(range(spans[loop].points) for loop in loops))
        ]
        if self.plan.vectors_outermost:
            return [Instance(place | lane, mask) for lane, mask in along for place in points]
        return [Instance(place | lane, mask) for place in points for lane, mask in along]

    def _accumulate(
        self, instances: list[Instance], spans: Spans, carried: list[ir.Value]
    ) -> list[ir.Value]:
        """Emit an iteration of the reduction for every register of a micro tile.

        Returns the accumulators after the iteration. ``carried`` has the accumulators before the
        iteration. Both lists have an accumulator for each output of each register in ``instances``.
        ``spans`` has the micro tile's part of each loop.
        """
        next_values: list[ir.Value] = []
        groups = self._grouped(carried)
        for prefetch in self.prefetches:
            prefetch.ask(self.registers, spans, instances)
        for instance, values in zip(instances, groups, strict=True):
            next_values += self._point(spans, instance, values)
        return next_values

    def _reduce_horizontally(self, spans: Spans, instances: list[Instance]) -> list[list[ir.Value]]:
        """Emit a reduction along the lanes of registers, and return its scalar results.

        An element of ``instances`` stands for a point of the unrolled parallel loops, not for a
        single register: for each output, a point has ``plan.vectors`` accumulator registers, which
        are combined after the loops. The returned list has an element for each point: the list of
        the results of all outputs.
        """
        combiners = self.nest.body.combiners
        assert combiners is not None
        identities = [memory.broadcast(combiner.identity(), self.lanes) for combiner in combiners]
        first = identities * (self.plan.vectors * len(instances))
        step = partial(self._accumulate_lanes, instances)
        flat = self._nested(self.reductions, spans, first, step)
        groups, count = self._grouped(flat), self.plan.vectors
        return [
            self._combine(
                combiners, self._before(spans, i), groups[number * count : (number + 1) * count]
            )
            for number, i in enumerate(instances)
        ]

    def _combine(
        self,
        combiners: list[Combiner],
        initial: Sequence[ir.Value],
        groups: list[list[ir.Value]],
    ) -> list[ir.Value]:
        """Emit the final value of each output: its old value combined with its accumulators' lanes.

        ``initial`` has the old value of each output. Every output has ``len(groups)`` accumulator
        registers; ``groups[n]`` has accumulator register ``n`` of each output.
        """
        return [
            combiner.combine(start, combiner.reduce(combiner.combine_all(list(parts))))
            for combiner, start, parts in zip(
                combiners, initial, zip(*groups, strict=True), strict=True
            )
        ]

    def _accumulate_lanes(
        self, instances: list[Instance], spans: Spans, carried: list[ir.Value]
    ) -> list[ir.Value]:
        """Emit an iteration of a reduction along the lanes, and return the accumulators after it.

        ``carried`` has the accumulators before the iteration. A lane that the mask disables keeps
        its value. An accumulator register keeps its value too if the iteration has no elements for
        it, which happens in a remainder loop.
        """
        groups = self._grouped(list(carried))
        assert self.vector is not None
        count = self.plan.vectors
        registers = self.registers.along_lanes(spans[self.vector])
        for number, instance in enumerate(instances):
            for register, (offset, mask) in enumerate(registers):
                place = Instance(instance.offsets | {self.vector: offset}, mask)
                slot = number * count + register
                new = self._point(spans, place, groups[slot])
                pairs = zip(new, groups[slot], strict=True)
                groups[slot] = [select(mask.value, value, old) for value, old in pairs]
        return [value for group in groups for value in group]

    # Points.

    def _bodies(
        self,
        body: Body,
        spans: Spans,
        instances: Sequence[Instance],
        slots: Callable[[int], Values],
    ) -> list[list[ir.Value]]:
        """Emit a body for the registers of a micro tile, and return the yielded values of each.

        ``slots`` emits the values of the body's slots for a register, given its position in
        ``instances``. ``spans`` has the micro tile's part of each loop.
        """
        together = _CHAINS if self.vector in spans and body.has_long_chains else 1
        results: list[list[ir.Value]] = []
        while (first := len(results)) < len(instances):
            left = min(together, len(instances) - first)
            count = 1 << left.bit_length() - 1
            values = [slots(number) for number in range(first, first + count)]
            if count > 1:
                results += self._together(body, values)
                continue
            results.append(self._alone(body, values[0], spans, instances[first]))
        return results

    def _alone(self, body: Body, slots: Values, spans: Spans, instance: Instance) -> list[ir.Value]:
        """Emit a body for the register ``instance``, and return the values that it yields.

        ``slots`` has the values of the body's slots. ``spans`` has the micro tile's part of each
        loop that encloses the emitted code. If the loop along the lanes is among them, scalar
        results are broadcast to all lanes.
        """
        results = body.emit(slots, self.lanes, self.registers.broadcast, instance.mask)
        if self.vector not in spans:
            return results
        return [self.registers.broadcast(value) for value in results]

    def _together(self, body: Body, slots: Sequence[Values]) -> list[list[ir.Value]]:
        """Emit a body once for several registers, on vectors of all their lanes.

        LLVM splits each operation into one operation for each register. So the operations of the
        registers alternate in the code, and a core executes them concurrently. The count of
        registers must be a power of two; ``slots`` has the values of the body's slots for each
        register. Returns the yielded values of each register.
        """
        count = len(slots)
        lanes = count * self.lanes
        wide = partial(memory.broadcast, lanes=lanes)
        values = [self._joined(each) for each in zip(*slots, strict=True)]
        results = [wide(value) for value in body.emit(values, lanes, wide)]
        return [[segment(value, n, self.lanes) for value in results] for n in range(count)]

    def _joined(self, values: Sequence[ir.Value | None]) -> ir.Value | None:
        """Emit the concatenation of a slot's values in several registers.

        A scalar that is the same for all registers is returned unchanged, and so is None.
        """
        given = [value for value in values if value is not None]
        is_scalar = bool(given) and not isinstance(given[0].type, ir.VectorType)
        if not given or (is_scalar and len(set(given)) == 1):
            return values[0]
        return joined([self.registers.broadcast(value) for value in given])

    def _point(
        self, spans: Spans, instance: Instance, accumulators: Sequence[ir.Value | None]
    ) -> list[ir.Value]:
        """Emit the body for a register, and return the yielded value of each output.

        ``instance`` is the register, and ``spans`` has the micro tile's part of each loop.
        ``accumulators`` has the outputs' current values, or None for those that the body does not
        read.
        """
        values = self._slots(spans, instance, accumulators)
        return self._alone(self.nest.body, values, spans, instance)

    def _slots(
        self, spans: Spans, instance: Instance, accumulators: Sequence[ir.Value | None]
    ) -> Values:
        """Return the values in the body's slots before the body is emitted for a register.

        Slots of values that the body computes have None. The arguments are those of ``_point``.
        """
        body = self.nest.body
        values: Values = [None] * len(body.slots)
        for slot, operand in enumerate(self.inputs):
            if body.uses(slot):
                values[slot] = self.registers.load(operand, spans, instance)
        values[len(self.inputs) : body.arguments] = accumulators
        values[body.arguments : body.arguments + len(self.captured)] = self.captured
        for slot, dim in body.indices:
            values[slot] = as_value(self.registers.dim_index(dim, spans, instance))
        return values

    def _before(self, spans: Spans, instance: Instance) -> list[ir.Value]:
        """Return the initial accumulator of each output at the register ``instance``.

        ``spans`` has the micro tile's part of each loop.
        """
        return [value for value in self._initial(spans, instance) if value is not None]

    def _initial(self, spans: Spans, instance: Instance) -> Values:
        """Return each output's value before the nest, at the register ``instance``.

        The value is:

        - None if the nest has no reduction and its body does not read the output;
        - the output's constant in the field ``initial``, if there is one;
        - else a load of the output.

        ``spans`` has the micro tile's part of each loop.
        """
        values: Values = []
        for number, output in enumerate(self.outputs):
            used = self.nest.body.uses(len(self.inputs) + number) > 0
            if not used and not self.reductions:
                values.append(None)
            elif (start := self.initial[number]) is not None:
                scalar = self.vector is None or self.horizontal
                values.append(start if scalar else memory.broadcast(start, self.lanes))
            else:
                values.append(self.registers.load(output, spans, instance))
        return values
