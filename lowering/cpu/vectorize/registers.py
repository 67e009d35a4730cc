"""Emits the addresses, loads and stores of a micro tile's registers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rammer_mlir.bindings import arith, ir
from rammer_mlir.lowering.cpu.vectorize import memory
from rammer_mlir.lowering.cpu.vectorize.cost import (
    MAX_STRIDE,
    MIN_TRANSPOSED,
    needs_gather_or_transpose,
)
from rammer_mlir.lowering.cpu.vectorize.memory import Mask, Scope
from rammer_mlir.lowering.cpu.vectorize.nest import Nest
from rammer_mlir.lowering.cpu.vectorize.operands import Operand
from rammer_mlir.lowering.cpu.vectorize.shuffle import interleave, joined, segment, transpose
from rammer_mlir.lowering.cpu.vectorize.tile import TilePlan
from rammer_mlir.lowering.kernels.affine import Index, add, as_value, constant, multiply


@dataclass(frozen=True)
class Span:
    """A range of a loop: ``points`` iterations from ``base``.

    ``valid`` is the dynamic number of these iterations that are within the loop's bounds, or None
    if all are.
    """

    base: Index
    points: int
    valid: ir.Value | None = None


@dataclass(frozen=True)
class Instance:
    """A register of a micro tile.

    ``offsets`` has the register's offset in points from the micro tile's first point, along each
    unrolled loop and the vector loop, by dimension; ``mask`` has its valid lanes.
    """

    offsets: dict[int, int]
    mask: Mask


@dataclass(frozen=True)
class Address:
    """An address in elements of a flat buffer: a sum of products, plus the constant ``known``.

    ``moving`` has the two factors of each product, at least one of which is an emitted value.
    """

    moving: tuple[tuple[Index, Index], ...]
    known: int


Spans = dict[int, Span]


class Registers:
    """Emits the addresses, loads and stores of a micro tile's registers.

    ``vector`` is the dimension along the lanes, None for scalar code. ``unroll`` maps the unrolled
    dimensions to their factors. ``scope`` memoizes the values emitted in the current block.
    ``spans`` arguments have the micro tile's part of each loop, by dimension.
    """

    def __init__(self, nest: Nest, plan: TilePlan) -> None:
        self.rank = len(nest.sizes)
        self.lanes = plan.lanes
        self.vector = None if plan.vector is None else nest.loops[plan.vector]
        self.unroll = {nest.loops[loop]: factor for loop, factor in plan.unroll}
        self.scope = Scope()

    def along_lanes(self, span: Span) -> list[tuple[int, Mask]]:
        """Return the registers that cover a span of the vector loop.

        Each is a pair: the offset in points of its first lane, and the mask of its valid lanes.
        """
        if span.valid is not None:
            mask = self.scope.once(
                ("mask", span.valid), lambda: memory.make_mask(self.lanes, span.valid)
            )
            return [(0, mask)]
        offsets = range(0, span.points, self.lanes)
        return [(o, memory.make_mask(self.lanes, span.points - o)) for o in offsets]

    def broadcast(self, value: ir.Value) -> ir.Value:
        """Emit a value broadcast to all lanes."""
        return self.scope.once(("lanes", value), lambda: memory.broadcast(value, self.lanes))

    def dim_index(self, dim: int, spans: Spans, instance: Instance) -> Index:
        """Return the index along ``dim`` at a register: a vector if ``dim`` is along the lanes."""
        if dim not in spans:
            return 0
        index = add(spans[dim].base, instance.offsets.get(dim, 0))
        if dim != self.vector:
            return index
        return self.scope.once(
            ("lane indices", index), lambda: memory.lane_indices(index, self.lanes)
        )

    def _address(self, operand: Operand, spans: Spans, instance: Instance) -> Address:
        """Return an operand's address at a register, as terms that have not been emitted yet.

        The only emitted operations compute the numbers of panels.
        """
        known, moving = 0, []
        if isinstance(operand.offset, int):
            known = operand.offset
        else:
            moving.append((operand.offset, 1))
        for loop, span in spans.items():
            stride = operand.strides[loop]
            offset = instance.offsets.get(loop, 0)
            if isinstance(span.base, int):
                offset += span.base
            elif not isinstance(stride, int) or stride:
                moving.append((span.base, stride))
            if isinstance(stride, int):
                known += offset * stride
            elif offset:
                moving.append((offset, stride))
        for jump in operand.jumps:
            if jump.loop not in spans:
                continue
            offset = instance.offsets.get(jump.loop, 0)
            number = self._panel(spans[jump.loop].base, offset, jump.width)
            if isinstance(number, int) and isinstance(jump.distance, int):
                known += number * jump.distance
            elif number != 0:
                moving.append((number, jump.distance))
        return Address(tuple(moving), known)

    def _panel(self, base: Index, offset: int, width: int) -> Index:
        """Return the number of the panel that contains point ``base + offset`` of a loop.

        A panel has ``width`` points. For a dynamic ``base`` it is the panel of ``base``, because a
        micro tile never crosses panels.
        """
        if isinstance(base, int):
            return (base + offset) // width
        return self.scope.once(("panel", base, width), lambda: arith.divui(base, constant(width)))

    def _emit_address(self, address: Address) -> Index:
        base = self.scope.once(("address", address.moving), lambda: _sum(address.moving))
        return add(base, address.known)

    def address(self, operand: Operand, spans: Spans, instance: Instance) -> Index:
        """Emit the address, in elements, of an operand's first lane at the register ``instance``.

        ``spans`` has the micro tile's part of each loop.
        """
        return self._emit_address(self._address(operand, spans, instance))

    def _vector_stride(self, operand: Operand) -> Index:
        return 0 if self.vector is None else operand.strides[self.vector]

    def load(self, operand: Operand, spans: Spans, instance: Instance) -> ir.Value:
        """Emit the load of an operand at the register ``instance``.

        The result is a vector, or a scalar if the operand is invariant along the lanes. ``spans``
        has the micro tile's part of each loop.
        """
        if operand.is_scalar:
            return operand.value
        if operand.results is not None:
            return self._load_anywhere(operand, spans, instance)
        along = self._loaded_loop(operand, spans, instance)
        if along is not None:
            return self._load_transposed(operand, spans, instance, along)
        stride = self._vector_stride(operand) if self.vector in instance.offsets else 0
        address = self._address(operand, spans, instance)
        mask = instance.mask if not isinstance(stride, int) or stride else Mask(None, None)
        return self.scope.once(
            ("load", operand.value, address, mask.count),
            lambda: memory.load(operand, self._emit_address(address), stride, self.lanes, mask),
        )

    def _adjacent_loop(self, operand: Operand, spans: Spans) -> int | None:
        """Return the unrolled loop along which an operand is contiguous.

        The result is None if there is no such loop, if the code is scalar, or if the micro tile has
        a dynamic number of points along the lanes.
        """
        if self.vector not in spans or spans[self.vector].valid is not None:
            return None
        return next((loop for loop in self.unroll if operand.strides[loop] == 1), None)

    def _loaded_loop(self, operand: Operand, spans: Spans, instance: Instance) -> int | None:
        """Return the unrolled loop along which rows are loaded and transposed; None without one.

        Along that loop, adjacent points are contiguous in memory, while the lanes of a register are
        too far apart for contiguous loads.
        """
        if self.vector not in instance.offsets or operand.jumps:
            return None
        along = self._adjacent_loop(operand, spans)
        if along not in instance.offsets or not needs_gather_or_transpose(
            self._vector_stride(operand)
        ):
            return None
        return along if spans[along].points >= MIN_TRANSPOSED else None

    def _load_transposed(
        self, operand: Operand, spans: Spans, instance: Instance, along: int
    ) -> ir.Value:
        """Emit the load of a register together with those at adjacent points of loop ``along``.

        For each lane, a row of elements along that loop is loaded; the rows are then transposed to
        registers. Return the register ``instance``.
        """
        group, place = divmod(instance.offsets[along], self.lanes)
        first = Instance(instance.offsets | {along: group * self.lanes}, instance.mask)
        count = min(self.lanes, spans[along].points - group * self.lanes)
        address = self._address(operand, spans, first)
        registers = self.scope.once(
            ("transposed", operand.value, address, instance.mask.count),
            lambda: self._columns(operand, spans, first, count),
        )
        return registers[place]

    def _columns(
        self, operand: Operand, spans: Spans, first: Instance, count: int
    ) -> list[ir.Value]:
        """Emit the load of ``count`` registers that are adjacent in memory; return the registers.

        For each lane, a row of ``count`` contiguous elements is loaded; the rows are then
        transposed. ``first`` is the first of the registers.
        """
        assert self.vector is not None
        size = 1 << (count - 1).bit_length()
        mask = memory.make_mask(size, count)
        existing = first.mask.count if isinstance(first.mask.count, int) else self.lanes
        rows: list[ir.Value] = []
        for lane in range(existing):
            offsets = first.offsets | {self.vector: first.offsets[self.vector] + lane}
            address = self._address(operand, spans, Instance(offsets, mask))
            rows.append(memory.load(operand, self._emit_address(address), 1, size, mask))
        rows += [rows[-1]] * (self.lanes - existing)
        return transpose([joined(rows[row::size]) for row in range(size)], self.lanes)

    def _load_anywhere(self, operand: Operand, spans: Spans, instance: Instance) -> ir.Value:
        """Emit the load of an operand with a non-linear map: a gather at every lane's index."""
        dims = [self.dim_index(d, spans, instance) for d in range(self.rank)]
        address = as_value(operand.address(dims))
        if isinstance(address.type, ir.VectorType):
            return memory.gather(operand, 0, address, self.lanes, instance.mask)
        return memory.load(operand, address, 0, self.lanes, instance.mask)

    def store_all(
        self, operand: Operand, spans: Spans, instances: list[Instance], values: Sequence[ir.Value]
    ) -> None:
        """Emit the stores of an output's registers, shuffled if that makes the stores contiguous.

        ``values`` has the value of each register of ``instances``, and ``spans`` the micro tile's
        part of each loop.
        """
        pairs = list(zip(instances, values, strict=True))
        along = self._interleaved_loop(operand, spans)
        if along is not None:
            for group in _groups(pairs, along, spans[along].points).values():
                self._store_interleaved(operand, spans, group)
            return
        along = self._transposed_loop(operand, spans)
        if along is not None:
            for group in _groups(pairs, along, self.lanes).values():
                self._store_transposed(operand, spans, group)
            return
        for instance, value in pairs:
            self._store(operand, spans, instance, value)

    def _interleaved_loop(self, operand: Operand, spans: Spans) -> int | None:
        """Return the unrolled loop whose registers are stored interleaved; None if there is none.

        In memory, a register's lanes are 2 to ``MAX_STRIDE`` elements apart, and the elements
        between them are in the registers at the other points of that loop: ``a0 b0 a1 b1`` for a
        stride of 2.
        """
        along, stride = self._adjacent_loop(operand, spans), self._vector_stride(operand)
        if along is None or operand.jumps or not isinstance(stride, int):
            return None
        return along if 1 < stride <= MAX_STRIDE and spans[along].points == stride else None

    def _store_interleaved(
        self, operand: Operand, spans: Spans, group: list[tuple[Instance, ir.Value]]
    ) -> None:
        """Emit the stores of registers that together cover a contiguous piece of memory.

        ``group`` has the registers with their values, in the order of their first elements in
        memory.
        """
        first = group[0][0]
        address = self._address(operand, spans, first)
        count = first.mask.count
        for number, part in enumerate(interleave([value for _, value in group], self.lanes)):
            start = number * self.lanes
            existing = count * len(group) - start if isinstance(count, int) else self.lanes
            if existing > 0:
                place = add(self._emit_address(address), start)
                mask = memory.make_mask(self.lanes, existing)
                memory.store(operand, place, 1, self.lanes, mask, part)

    def _transposed_loop(self, operand: Operand, spans: Spans) -> int | None:
        """Return the unrolled loop along which registers are transposed before their store.

        Along that loop, adjacent points of the output are contiguous in memory, and the lanes are
        not. The result is None if there is no such loop, or it has too few points for a transpose
        to pay.
        """
        along = self._adjacent_loop(operand, spans)
        if along is None or self._vector_stride(operand) == 1:
            return None
        return along if spans[along].points >= MIN_TRANSPOSED else None

    def _store_transposed(
        self, operand: Operand, spans: Spans, group: list[tuple[Instance, ir.Value]]
    ) -> None:
        """Emit the stores of registers whose elements are adjacent in memory lane by lane.

        The elements of a lane are stored by one contiguous store. ``group`` has the registers with
        their values, in the order of the elements in memory.
        """
        assert self.vector is not None
        first, values = group[0][0], [value for _, value in group]
        size = 1 << (len(values) - 1).bit_length()
        columns = transpose([*values, *[values[-1]] * (size - len(values))], self.lanes)
        count = first.mask.count
        existing = count if isinstance(count, int) else self.lanes
        mask = memory.make_mask(size, len(values))
        for lane in range(existing):
            row = segment(columns[lane % size], lane // size, size)
            offsets = first.offsets | {self.vector: first.offsets[self.vector] + lane}
            address = self._address(operand, spans, Instance(offsets, mask))
            memory.store(operand, self._emit_address(address), 1, size, mask, row)

    def _store(self, operand: Operand, spans: Spans, instance: Instance, value: ir.Value) -> None:
        stride = self._vector_stride(operand) if self.vector in instance.offsets else 0
        address = self.address(operand, spans, instance)
        memory.store(operand, address, stride, self.lanes, instance.mask, value)


def _groups(
    pairs: Sequence[tuple[Instance, ir.Value]], along: int, size: int
) -> dict[tuple[tuple[int, int], ...], list[tuple[Instance, ir.Value]]]:
    """Group registers and their values by ``size`` adjacent points of loop ``along``.

    The key of a group has a pair for each loop: its dimension, and the offset that all registers of
    the group share along it; for ``along`` the pair has the number of the group instead.
    """
    groups: dict[tuple[tuple[int, int], ...], list[tuple[Instance, ir.Value]]] = {}
    for instance, value in pairs:
        place = instance.offsets | {along: instance.offsets[along] // size}
        groups.setdefault(tuple(sorted(place.items())), []).append((instance, value))
    return groups


def _sum(terms: tuple[tuple[Index, Index], ...]) -> Index:
    """Emit the sum of the products of the pairs in ``terms``."""
    total: Index = 0
    for index, stride in terms:
        total = add(total, multiply(index, stride))
    return total
